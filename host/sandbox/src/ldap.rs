//! Sessions with directories: dialled to vetted addresses, secured, logged in, and kept for the
//! next call of the same mount that logs in as the same.
//!
//! Knows sockets, TLS and LDAP, and nothing of wasmtime: what a component asked for, and whether
//! it may, is decided in `imports/ldap.rs`. The attacks this folder stops: a server whose bytes
//! end the process (decision T8), that answers without end, that turns a secured session into a
//! clear one, or that sends a password on to where no grant leads; an account that is locked by
//! wrong logins of ours; and a value that becomes a filter.

mod change;
mod failure;
mod gate;
mod login;
mod logins;
mod message;
mod pools;
mod query;
mod secure;
mod session;

pub(crate) use change::{check_changes, secrets};
pub(crate) use failure::{LdapFailure, failed};
pub(crate) use login::{Login, parse_server};
pub(crate) use logins::LoginsOfMount;
pub(crate) use pools::{LdapKey, LdapPools};
pub(crate) use query::{check_dn, prepare};
pub(crate) use session::Session;

#[cfg(test)]
mod tests;
