//! HTTP requests to other servers. A request that changes something uses a connection of its own,
//! which closes after the answer. A request that changes nothing may reuse an idle connection.
//!
//! This folder knows sockets, TLS and hyper, and nothing of wasmtime; `imports/http.rs` decides
//! whether a component may make a request. Prevents these attacks: an endless answer, a server that
//! sends byte by byte, a redirect to a server outside the grants, and a header that becomes two
//! headers.

mod dial;
mod exchange;
mod fault;
mod kept;
mod line;
mod meter;
mod request;
mod tls;
mod tunnel;
mod url;

pub(crate) use exchange::{Exchange, Keeping, ask_metadata, exchange};
pub(crate) use fault::{HttpFault, TlsFault};
pub(crate) use kept::{Kept, Purpose};
pub(crate) use line::Answered;
pub(crate) use meter::Meter;
pub(crate) use request::{is_safe, prepare, secrets};
pub(crate) use tls::secure;
pub(crate) use url::parse_url;

#[cfg(test)]
mod tests;
