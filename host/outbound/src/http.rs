//! HTTP requests to other servers. A request that changes something uses a separate connection,
//! which closes after the answer. A request that changes nothing may reuse an idle connection.
//!
//! This folder knows sockets, TLS and hyper, and nothing of wasmtime; `imports/http.rs` decides
//! whether a component may make a request. This file prevents these attacks: an endless answer, a
//! server that sends byte by byte, a redirect to a server outside the grants, and a header that
//! becomes two headers.

mod dial;
mod exchange;
mod fault;
mod line;
mod meter;
mod pool;
mod request;
mod tls;
mod tunnel;
mod url;

pub use exchange::{
    ConfiguredServer, ConnectionReuse, HttpExchange, ask_configured, ask_metadata, exchange,
};
pub use fault::HttpFault;
pub use hyper::Uri;
pub use line::HttpAnswer;
pub use meter::ByteMeter;
pub use pool::{ConnectionPool, HttpPoolKey};
pub use request::{HttpHeader, HttpRequest, HttpTls, is_safe, prepare, secrets, set_trace_context};
pub use tls::tls_settings;
pub use url::parse_url;

/// A request that is ready to be sent.
pub type PreparedRequest = hyper::Request<http_body_util::Full<hyper::body::Bytes>>;

#[cfg(test)]
mod tests;
