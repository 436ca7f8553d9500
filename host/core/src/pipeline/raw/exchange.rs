//! Requests and answers of plain HTTP, as seen by the audit, the component and the client.

use crate::mounts::Mount;
use bulkhead_access::tokens::keys::bears_our_prefix;
use bulkhead_sandbox::contract::{RawHeader, RawReply};
use bulkhead_wire::description::{RawAccess, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::raw::{RawRequest, RawResponse};
use bulkhead_wire::request::Request;
use serde_json::Map;
use std::sync::Arc;

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

/// Returns the request as audit lines show it: without headers and body, which hold others'
/// secrets.
pub(super) fn as_recorded(request: &RawRequest) -> Request {
    let verb = match request.method.as_str() {
        "POST" | "PUT" => Verb::Write,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Read,
    };
    let (remote, remote_port) = request.remote;
    Request {
        id: request.id.clone(),
        verb,
        path: format!("{}{}", request.place.mount, request.path),
        token: None,
        fields: Map::new(),
        raw: None,
        body_bytes: request.body.len() as u64,
        is_unread: false,
        refusal: None,
        audited_headers: Vec::new(),
        wrap_ttl: None,
        remote,
        remote_port,
    }
}

/// Returns the headers for the component, without headers that bear a token of the host.
pub(super) fn handed_on(access: &RawAccess, request: &RawRequest) -> Vec<RawHeader> {
    let headers = request.headers.iter().filter(|(name, value)| {
        access.headers.contains(name)
            && !(name == "authorization" && value.split(' ').any(bears_our_prefix))
    });
    headers.map(|(name, value)| RawHeader { name: name.clone(), value: value.clone() }).collect()
}

/// Checks the component's answer and returns the response for the client.
///
/// # Errors
/// 500 that names the component, for an answer that is not valid HTTP.
pub(super) fn respond(mount: &Mount, reply: RawReply) -> Result<RawResponse, Failure> {
    let wrong = |what: &str| {
        let title = mount.plugin.engine.identity().title();
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
            return Err(wrong("a header that cannot be sent"));
        }
        if OF_THE_CONNECTION.iter().any(|of| name.eq_ignore_ascii_case(of)) {
            return Err(wrong("a header that is the server's to send"));
        }
        headers.push((name, value));
    }
    Ok(RawResponse { status: reply.status, headers, body: Arc::new(reply.body) })
}
