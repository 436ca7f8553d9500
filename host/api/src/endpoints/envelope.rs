//! Turns a handler's answer into the response that leaves.

use super::reply::ReplyBody;
use bulkhead_access::wrapping::ClientAnswer;
use bulkhead_core::mounts::BuiltinMount;
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::listing::Listing;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{self, Response};
use serde_json::{Map, Value};

/// Builds the response to a permitted request.
pub(crate) fn respond(request: &Request, body: ReplyBody, warnings: Vec<String>) -> Response {
    let mount_type =
        BuiltinMount::serving(&request.path).unwrap_or(BuiltinMount::System).kind().to_owned();
    let envelope =
        Envelope { request_id: request.id.clone(), mount_type, warnings, ..Envelope::default() };
    match body {
        ReplyBody::Nothing if envelope.warnings.is_empty() => Response::no_content(),
        ReplyBody::Nothing => respond_enveloped(envelope),
        ReplyBody::Accepted => Response { status: 202, ..respond_enveloped(envelope) },
        ReplyBody::Data(data) => respond_enveloped(Envelope { data: Some(data), ..envelope }),
        ReplyBody::Listed(listing) => respond_listed(envelope, listing),
        ReplyBody::Copied(data) => respond_copied(Envelope { data: Some(data), ..envelope }),
        ReplyBody::Bare(value) => Response::bare(200, value),
        ReplyBody::Text { content_type, text } => respond_text(content_type, text),
        ReplyBody::Streamed { content_type, stream } => respond_streamed(content_type, stream),
        ReplyBody::Auth(auth) => respond_enveloped(Envelope { auth: Some(*auth), ..envelope }),
        ReplyBody::Unwrapped(answer) => respond_unwrapped(answer),
        ReplyBody::Wrapped(wrap_info) => respond_wrapped(wrap_info),
        ReplyBody::Lease { id, ttl, renewable } => {
            respond_enveloped(Envelope { lease_id: id, lease_duration: ttl, renewable, ..envelope })
        }
    }
}

/// Builds the response with data to a request that needed no token.
pub(super) fn public_data(request: &Request, data: Map<String, Value>) -> Response {
    let (request_id, mount_type) = (request.id.clone(), BuiltinMount::System.kind().to_owned());
    respond_enveloped(Envelope { request_id, mount_type, data: Some(data), ..Envelope::default() })
}

/// Returns 200 with a text.
fn respond_text(content_type: &str, text: String) -> Response {
    let (content_type, bytes) = (content_type.to_owned(), text.into_bytes());
    let body = response::ResponseBody::Raw { content_type, bytes };
    Response::new(200, body)
}

/// Returns 200 with bytes made while the answer is sent.
fn respond_streamed(content_type: &str, stream: ByteStream) -> Response {
    let body = response::ResponseBody::Streamed { content_type: content_type.to_owned(), stream };
    Response::new(200, body)
}

/// Returns the answer of an earlier request, unchanged.
fn respond_unwrapped(answer: ClientAnswer) -> Response {
    let ClientAnswer { status, content_type, bytes, .. } = answer;
    let body = response::ResponseBody::Unwrapped { content_type, bytes };
    Response::new(status, body)
}

/// Returns 200 with a wrapping token for an answer that was wrapped before.
fn respond_wrapped(wrap_info: Value) -> Response {
    let envelope = Box::new(Envelope { wrap_info: Some(wrap_info), ..Envelope::default() });
    let body = response::ResponseBody::Wrapped {
        envelope,
        hidden: Box::new(response::ResponseBody::Empty),
    };
    Response::new(200, body)
}

/// Returns 200 with an envelope.
pub(crate) fn respond_enveloped(envelope: Envelope) -> Response {
    let body = response::ResponseBody::Envelope(Box::new(envelope));
    Response::new(200, body)
}

/// Returns 200 with a listing as data.
pub(crate) fn respond_listed(envelope: Envelope, listing: Listing) -> Response {
    let body = response::ResponseBody::Listed(Box::new(envelope), listing);
    Response::new(200, body)
}

/// Returns 200 with an envelope, and repeats the data at the top level.
fn respond_copied(envelope: Envelope) -> Response {
    let body = response::ResponseBody::Copied(Box::new(envelope));
    Response::new(200, body)
}
