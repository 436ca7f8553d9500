//! HTTP to other servers: one request, one answer. What changes something has a connection of its
//! own, which is closed after it; what changes nothing may go over one that was kept.
//!
//! Knows sockets, TLS and hyper, and nothing of wasmtime: what a component asked for, and whether
//! it may, is decided in `imports/http.rs`. The attacks this folder stops: an answer without end, a
//! server that drips, a redirect to where no grant leads, a header that becomes two.

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
