//! Requests and answers of plain HTTP, as seen by the audit, the component and the client.

use bulkhead_access::tokens::keys::bears_our_prefix;
use bulkhead_audit::subject::ComponentCaller;
use bulkhead_core::mounts::Mount;
use bulkhead_sandbox::SecretSet;
use bulkhead_sandbox::contract::{RawHeader, RawReply};
use bulkhead_wire::description::{RawAccess, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::raw::{RawRequest, RawResponse};
use bulkhead_wire::request::{AuditedHeader, MetricsTerms, Request};
use serde_json::Map;
use std::sync::Arc;

/// The `ext` pairs of a reply that name the caller (`wit/raw.wit`).
const CALLER_ACCESSOR: &str = "caller-accessor";
const CALLER_NAME: &str = "caller-name";
/// Maximum length of each value of such a pair, in bytes. The rest is dropped.
const LONGEST_CALLER_TEXT: usize = 256;

/// Headers that only the listener may set.
const OF_THE_CONNECTION: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "set-cookie",
    "transfer-encoding",
    "upgrade",
];

/// Returns the request as shown in audit lines: without headers and body, which hold others'
/// secrets. Headers that an operator wants are shown; headers with a secret are shown hashed.
pub(super) fn as_recorded(request: &RawRequest, access: &RawAccess) -> Request {
    let verb = match request.method.as_str() {
        "POST" | "PUT" => Verb::Write,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Read,
    };
    let (remote, remote_port) = request.remote;
    let audited = request.audited_headers.iter().map(|header| {
        let is_hashed = header.is_hashed || access.secret_headers.contains(&header.name);
        AuditedHeader { is_hashed, ..header.clone() }
    });
    Request {
        id: request.id.clone(),
        verb,
        path: format!("{}{}", request.place.mount, request.path),
        token: None,
        fields: Map::new(),
        raw: None,
        file: None,
        body_bytes: request.body.len() as u64,
        is_unread: false,
        refusal: request.refusal.clone(),
        audited_headers: audited.collect(),
        wrap_ttl: None,
        remote,
        remote_port,
        metrics: MetricsTerms::default(),
        trace_parent: None,
        required_states: Vec::new(),
    }
}

/// Headers of a trace context, which only the host reads and writes.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Returns the headers for the component, without headers that bear a token of the host, and
/// without the context of a trace.
pub(super) fn handed_on(access: &RawAccess, request: &RawRequest) -> Vec<RawHeader> {
    let headers = request.headers.iter().filter(|(name, value)| {
        access.headers.contains(name)
            && !TRACE_HEADERS.contains(&name.as_str())
            && !(name == "authorization" && value.split(' ').any(bears_our_prefix))
    });
    headers.map(|(name, value)| RawHeader { name: name.clone(), value: value.clone() }).collect()
}

/// Returns the caller that the component named, without secrets of the call.
pub(super) fn named_caller(reply: &RawReply, secrets: &SecretSet) -> Option<ComponentCaller> {
    let ext_value = |key: &str| {
        let pair = reply.ext.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| secrets.scrub(value, LONGEST_CALLER_TEXT))
    };
    let accessor = ext_value(CALLER_ACCESSOR).filter(|accessor| !accessor.is_empty())?;
    Some(ComponentCaller { accessor, display_name: ext_value(CALLER_NAME).unwrap_or_default() })
}

/// Checks the component's answer and returns the response for the client.
///
/// # Errors
/// 500 with the component's name, if the answer is not valid HTTP.
pub(super) fn respond(mount: &Mount, reply: RawReply) -> Result<RawResponse, Failure> {
    let wrong = |what: &str| {
        let title = mount.plugin.identity().title();
        Failure::internal(format!("{title} answered {what}"))
    };
    if !(200..=599).contains(&reply.status) {
        return Err(wrong("an impossible status"));
    }
    let mut headers = Vec::with_capacity(reply.headers.len());
    for RawHeader { name, value } in reply.headers {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_value = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(is_value) {
            return Err(wrong("an invalid header"));
        }
        if OF_THE_CONNECTION.iter().any(|of| name.eq_ignore_ascii_case(of)) {
            return Err(wrong("a header reserved for the server"));
        }
        headers.push((name, value));
    }
    Ok(RawResponse { status: reply.status, headers, body: Arc::new(reply.body) })
}
