//! HTTP to other servers: one request, one answer, on a connection of its own that is closed after
//! it.
//!
//! Knows sockets, TLS and hyper, and nothing of wasmtime: what a component asked for, and whether
//! it may, is told by `imports/http.rs`. The attacks this folder stops: an answer without end, a
//! server that drips, a redirect to where nobody was granted to go, a header that becomes two.

mod exchange;
mod fault;
mod meter;
mod request;
mod tls;
mod url;

pub(crate) use exchange::{Answered, Exchange, exchange};
pub(crate) use fault::HttpFault;
pub(crate) use meter::Meter;
pub(crate) use request::{is_safe, prepared, secrets};
pub(crate) use tls::secured;
pub(crate) use url::parsed;

#[cfg(test)]
mod tests;
