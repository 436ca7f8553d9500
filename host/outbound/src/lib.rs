//! Connections to other servers: HTTP, LDAP and SQL, the proxy, and the machine's ambient values.
//!
//! Knows sockets, TLS and the three protocols, to vetted addresses. Never knows wasmtime, the WIT
//! bindings, grants, mounts' limits or calls: the sandbox decides whether a component may connect,
//! and translates between the types of the contract and the types of this crate.
//!
//! Start reading at `addresses/reach.rs`, the check that every connection passes, and then at
//! `http/exchange.rs`, `ldap/session.rs` or `sql/login.rs`.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! limits → fingerprint → inline_driver → least_used → addresses → password_changes → connections
//! → socket_options → tls → proxy → http → ambient → ldap → sql
//! ```

pub mod addresses;
pub mod ambient;
pub mod connections;
pub mod fingerprint;
pub mod http;
mod inline_driver;
pub mod ldap;
pub mod least_used;
pub mod limits;
pub mod password_changes;
pub mod proxy;
mod socket_options;
pub mod sql;
pub mod tls;
