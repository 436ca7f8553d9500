//! Plain HTTP requests for a component that answers HTTP itself, and the answers.
//!
//! Neither type implements `Debug`: headers and bodies contain tokens of other services.

use crate::failure::Failure;
use crate::name::MountPath;
use crate::request::AuditedHeader;
use crate::trace_parent::TraceParent;
use std::net::IpAddr;
use std::sync::Arc;

/// A base path; requests below are plain HTTP for a single mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawBasePath {
    /// The mount.
    pub mount: MountPath,
    /// Path of the mount's root in the URL, with a slash at both ends: `/` on a listener of the
    /// mount's own, `/v1/acl/` on the server's.
    pub base: String,
    /// Largest body, in bytes, of a caller that the component names.
    pub body_limit: u64,
}

/// A plain HTTP request.
#[derive(Clone)]
pub struct RawRequest {
    /// UUID, also in the logs.
    pub id: String,
    /// The base path matched.
    pub place: RawBasePath,
    /// Method as sent.
    pub method: String,
    /// Path behind the base as sent, with escapes, empty segments and dot segments.
    pub path: String,
    /// The path decoded, without empty segments and dot segments: for quotas.
    pub canonical_path: String,
    /// Query as sent, without the question mark.
    pub query: String,
    /// All headers in order, with names in lower case. The core passes on only the headers named in
    /// the component's description.
    pub headers: Vec<(String, String)>,
    /// The headers that an operator wants in the audit log.
    pub audited_headers: Vec<AuditedHeader>,
    /// The body, unchanged; empty if the request carries a refusal.
    pub body: Vec<u8>,
    /// The reason why the body could not be received. The core records and answers the reason.
    pub refusal: Option<Failure>,
    /// The client's address and port.
    pub remote: (IpAddr, u16),
    /// As [`Request::trace_parent`](crate::request::Request::trace_parent).
    pub trace_parent: Option<TraceParent>,
}

/// A plain HTTP answer. Requests waiting for the same change share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct RawResponse {
    /// HTTP status.
    pub status: u16,
    /// Names and values. The listener alone sets headers about the connection.
    pub headers: Vec<(String, String)>,
    /// Bytes before compression.
    pub body: Arc<Vec<u8>>,
}

impl RawResponse {
    /// Returns a failure of the host for callers of plain HTTP: a text without an envelope.
    #[must_use]
    pub fn failed(failure: &Failure) -> Self {
        let content_type = ("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned());
        let mut headers = vec![content_type];
        if let Some(milliseconds) = failure.retry_after {
            headers.push(("Retry-After".to_owned(), milliseconds.div_ceil(1_000).to_string()));
        }
        let body = Arc::new(failure.message.clone().into_bytes());
        Self { status: failure.kind.status(), headers, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn failure_is_one_text_with_wait_time() {
        let failure =
            Failure { retry_after: Some(1_500), ..Failure::new(FailureKind::RateLimited, "no") };
        let response = RawResponse::failed(&failure);
        assert_eq!((response.status, response.body.as_slice()), (429, "no".as_bytes()));
        assert!(response.headers.contains(&("Retry-After".to_owned(), "2".to_owned())));
    }
}
