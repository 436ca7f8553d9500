//! HTTP to other servers: one request, one answer, on a connection of its own that is closed after
//! it.
//!
//! Knows sockets, TLS and hyper, and nothing of wasmtime: what a component asked for, and whether
//! it may, is decided in `imports/http.rs`. The attacks this folder stops: an answer without end, a
//! server that drips, a redirect to where no grant leads, a header that becomes two.

mod dial;
mod exchange;
mod fault;
mod meter;
mod request;
mod tls;
mod tunnel;
mod url;

pub(crate) use exchange::{Answered, Exchange, ask_metadata, exchange};
pub(crate) use fault::{HttpFault, TlsFault};
pub(crate) use meter::Meter;
pub(crate) use request::{is_safe, prepare, secrets};
pub(crate) use tls::secure;
pub(crate) use url::parse_url;

#[cfg(test)]
mod tests;
