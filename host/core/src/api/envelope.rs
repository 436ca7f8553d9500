//! Turns a handler's answer into the response that leaves.

use super::reply::Body;
use crate::mounts::Builtin;
use crate::wrapping::Answer;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{self, Response};
use serde_json::{Map, Value};

/// Builds the response to a permitted request.
pub(crate) fn respond(request: &Request, body: Body, warnings: Vec<String>) -> Response {
    let mount_type = Builtin::serving(&request.path).unwrap_or(Builtin::System).kind().to_owned();
    let envelope =
        Envelope { request_id: request.id.clone(), mount_type, warnings, ..Envelope::default() };
    match body {
        Body::Nothing if envelope.warnings.is_empty() => Response::no_content(),
        Body::Nothing => respond_enveloped(envelope),
        Body::Accepted => Response { status: 202, ..respond_enveloped(envelope) },
        Body::Data(data) => respond_enveloped(Envelope { data: Some(data), ..envelope }),
        Body::Listed(listing) => respond_listed(envelope, listing),
        Body::Copied(data) => respond_copied(Envelope { data: Some(data), ..envelope }),
        Body::Bare(value) => Response::bare(200, value),
        Body::Text { content_type, text } => respond_text(content_type, text),
        Body::Auth(auth) => respond_enveloped(Envelope { auth: Some(*auth), ..envelope }),
        Body::Unwrapped(answer) => respond_unwrapped(answer),
        Body::Wrapped(wrap_info) => respond_wrapped(wrap_info),
        Body::Lease { id, ttl, renewable } => {
            respond_enveloped(Envelope { lease_id: id, lease_duration: ttl, renewable, ..envelope })
        }
    }
}

/// Builds the response with data to a request that needed no token.
pub(super) fn public_data(request: &Request, data: Map<String, Value>) -> Response {
    let (request_id, mount_type) = (request.id.clone(), Builtin::System.kind().to_owned());
    respond_enveloped(Envelope { request_id, mount_type, data: Some(data), ..Envelope::default() })
}

/// Returns 200 with a text.
fn respond_text(content_type: &str, text: String) -> Response {
    let (content_type, bytes) = (content_type.to_owned(), text.into_bytes());
    let body = response::Body::Raw { content_type, bytes };
    Response { status: 200, body, retry_after: None }
}

/// Returns the answer of an earlier request, unchanged.
fn respond_unwrapped(answer: Answer) -> Response {
    let Answer { status, content_type, bytes, .. } = answer;
    let body = response::Body::Unwrapped { content_type, bytes };
    Response { status, body, retry_after: None }
}

/// Returns 200 with a wrapping token for an answer that was wrapped before.
fn respond_wrapped(wrap_info: Value) -> Response {
    let envelope = Box::new(Envelope { wrap_info: Some(wrap_info), ..Envelope::default() });
    let body = response::Body::Wrapped { envelope, hidden: Box::new(response::Body::Empty) };
    Response { status: 200, body, retry_after: None }
}

/// Returns 200 with an envelope.
pub(crate) fn respond_enveloped(envelope: Envelope) -> Response {
    let body = response::Body::Envelope(Box::new(envelope));
    Response { status: 200, body, retry_after: None }
}

/// Returns 200 with a listing as data.
pub(crate) fn respond_listed(envelope: Envelope, listing: Listing) -> Response {
    let body = response::Body::Listed(Box::new(envelope), listing);
    Response { status: 200, body, retry_after: None }
}

/// Returns 200 with an envelope whose data is repeated at the top level.
fn respond_copied(envelope: Envelope) -> Response {
    let body = response::Body::Copied(Box::new(envelope));
    Response { status: 200, body, retry_after: None }
}
