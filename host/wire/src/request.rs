//! A client's request, as parsed by the listener and before any decision.

use crate::description::Verb;
use crate::failure::Failure;
use crate::secret::Secret;
use crate::trace_parent::TraceParent;
use serde_json::{Map, Value};
use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The head of a request, available before the body.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// As [`Request::verb`].
    pub verb: Verb,
    /// As [`Request::path`].
    pub path: &'a str,
    /// As [`Request::token`].
    pub token: Option<&'a Secret>,
    /// As [`Request::remote`].
    pub remote: IpAddr,
    /// As [`Request::wrap_ttl`]; `None` until the header is read.
    pub wrap_ttl: Option<u64>,
}

/// Path of the metrics. A listener may answer this path without a token.
pub const METRICS_PATH: &str = "sys/metrics";

/// Terms under which [`METRICS_PATH`] answers a request; every other path ignores these terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsTerms {
    /// The listener answers without a token.
    pub needs_no_token: bool,
    /// The client reads the text format of Prometheus.
    pub prefers_text: bool,
}

/// One request.
#[derive(Clone)]
pub struct Request {
    /// UUID; also in the answer, the audit record and every log line.
    pub id: String,
    /// The verb.
    pub verb: Verb,
    /// Canonical path below `/v1/`, without a slash at either end.
    pub path: String,
    /// The caller's token, if one was sent.
    pub token: Option<Secret>,
    /// Fields of the body or query, unchanged.
    pub fields: Map<String, Value>,
    /// The body, if the route takes bytes; `fields` are then the query's fields.
    pub raw: Option<RawBody>,
    /// The body, if the route takes a file.
    pub file: Option<ReceivedFile>,
    /// Size of the received body in bytes, for the route's limit.
    pub body_bytes: u64,
    /// The body was discarded unread, because the sender had no valid token. `fields` and `raw` are
    /// empty, and the request can only be refused.
    pub is_unread: bool,
    /// The mistake in the body, the query, or a header about the form of the answer. `fields` and
    /// `raw` are empty, and the request can only be refused with this failure and recorded.
    pub refusal: Option<Failure>,
    /// The headers that an operator wants in the audit log.
    pub audited_headers: Vec<AuditedHeader>,
    /// Lifetime of the wrapping token, in seconds, if the answer is to be wrapped.
    pub wrap_ttl: Option<u64>,
    /// Address of the client.
    pub remote: IpAddr,
    /// Port of the client; 0 if unknown.
    pub remote_port: u16,
    /// Terms of a request for metrics.
    pub metrics: MetricsTerms,
    /// Trace context of the caller, if one was sent and the server exports traces.
    pub trace_parent: Option<TraceParent>,
    /// Values of `X-Vault-Index`: states of earlier answers that the answer must include.
    pub required_states: Vec<String>,
}

/// A header of a request, for the audit log.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditedHeader {
    /// Lower-case name.
    pub name: String,
    /// Value; the values of a repeated header, separated by a comma and a space.
    pub value: String,
    /// True if the audit log shows a hash in place of the value.
    pub is_hashed: bool,
}

/// A body of bytes, shared rather than copied: a body may have 32 MiB.
#[derive(Clone)]
pub struct RawBody(Arc<Vec<u8>>);

impl RawBody {
    /// Wraps a received body.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }

    /// Returns the bytes, unchanged.
    #[must_use]
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.0
    }
}

/// Shows the length only; the content may be a secret.
impl fmt::Debug for RawBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawBody({} bytes)", self.0.len())
    }
}

/// A body in a file, because the body may be larger than memory.
#[derive(Clone)]
pub struct ReceivedFile {
    path: PathBuf,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl ReceivedFile {
    /// Wraps a complete body. `owner` removes the file when the last clone is dropped.
    #[must_use]
    pub fn new(path: PathBuf, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { path, _owner: owner }
    }

    /// Returns the path of the file, which exists as long as this value.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Shows neither the token nor any field's value: any value may be a password.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("verb", &self.verb)
            .field("path", &self.path)
            .field("has_token", &self.token.is_some())
            .field("fields", &self.fields.keys())
            .field("raw", &self.raw)
            .field("body_bytes", &self.body_bytes)
            .field("remote", &self.remote)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::net::Ipv4Addr;

    #[test]
    fn a_logged_request_shows_neither_token_nor_values() {
        let fields = json!({ "username": "svc-root", "password": "hunter2" });
        let request = Request {
            id: "5e1c".to_owned(),
            verb: Verb::Write,
            path: "database/config/orders".to_owned(),
            token: Some(Secret::new("bhs.0123")),
            fields: fields.as_object().unwrap().clone(),
            raw: Some(RawBody::new(b"canary".to_vec())),
            file: None,
            body_bytes: 48,
            is_unread: false,
            refusal: None,
            audited_headers: Vec::new(),
            wrap_ttl: None,
            remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
            remote_port: 40_112,
            metrics: MetricsTerms::default(),
            trace_parent: None,
            required_states: Vec::new(),
        };
        let text = format!("{request:?} {request:#?}");
        assert!(text.contains("database/config/orders") && text.contains("password"), "{text}");
        for hidden in ["hunter2", "svc-root", "bhs", "canary"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}
