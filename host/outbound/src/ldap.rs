//! Sessions with directories: dialled to vetted addresses, secured, logged in, and reused by later
//! calls of the same mount with the same login.
//!
//! This folder knows sockets, TLS and LDAP, and nothing of wasmtime; `imports/ldap.rs` decides
//! whether a component may make a request. This file prevents these attacks: a server whose bytes
//! end the process (decision T8), that answers without end, that downgrades a secured session to
//! clear text, or that refers a password to a server outside the grants; an account locked by
//! Bulkhead's own wrong logins; and a value that changes the structure of a filter.

mod change;
mod directory_target;
mod entry;
mod failure;
mod gate;
mod login;
mod logins;
mod message;
mod pools;
mod query;
mod secure;
mod session;

pub use change::{AttributeChange, check_changes, secrets};
pub use directory_target::{DirectoryTarget, DirectoryTls};
pub use entry::{DirectoryAttribute, DirectoryEntry};
pub use failure::{LdapFailure, failed};
pub use login::{LdapLogin, parse_server};
pub use logins::MountLogins;
pub use pools::{LdapPoolKey, LdapPools};
pub use query::{DirectoryQuery, FilterCondition, SearchScope, check_dn, prepare};
pub use session::LdapSession;

#[cfg(test)]
mod tests;
