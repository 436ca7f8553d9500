//! Sessions with directories: dialled to vetted addresses, secured, logged in, and reused by later
//! calls of the same mount with the same login.
//!
//! This folder knows sockets, TLS and LDAP, and nothing of wasmtime; `imports/ldap.rs` decides
//! whether a component may make a request. Prevents these attacks: a server whose bytes end the
//! process (decision T8), that answers without end, that downgrades a secured session to clear
//! text, or that refers a password to a server outside the grants; an account locked by Bulkhead's
//! own wrong logins; and a value that changes the structure of a filter.

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
pub(crate) use login::{LdapLogin, parse_server};
pub(crate) use logins::MountLogins;
pub(crate) use pools::{LdapPoolKey, LdapPools};
pub(crate) use query::{check_dn, prepare};
pub(crate) use session::LdapSession;

#[cfg(test)]
mod tests;
