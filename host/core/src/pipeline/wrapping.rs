//! Wrapping of an answer, if its request asks for that.
//!
//! Prevents a secret in the clear: a request that asks for wrapping gets a wrapping token, 204 or
//! an error. Answers that everyone may read without a token stay as they are, so that callers
//! without a token cannot fill the store.

use super::audit_trail::AuditTrail;
use crate::core::Core;
use crate::wrapping::{self, ClientAnswer};
use bulkhead_access::tokens::NewWrapping;
use bulkhead_wire::envelope::Envelope;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Response, ResponseBody};

/// Returns the answer that leaves: the given answer, or a wrapping token in its place. If the
/// answer cannot be stored, its lease or token is ended.
pub(super) async fn wrap_if_asked(
    core: &Core,
    request: &Request,
    trail: &AuditTrail<'_>,
    served: Result<Response, Failure>,
) -> Result<Response, Failure> {
    let (Ok(response), Some(ttl)) = (&served, request.wrap_ttl) else { return served };
    let is_wrapped = matches!(response.body, ResponseBody::Empty | ResponseBody::Wrapped { .. });
    let is_public = !trail.has_caller() && accessor(&response.body).is_none();
    if response.status >= 300 || is_wrapped || is_public {
        return served;
    }
    let ttl = ttl.min(core.lifetimes.max);
    let wrapped = wrap(core, request, ttl, response.clone()).await;
    if wrapped.is_err() {
        Box::pin(trail.end_what_was_made(&response.body)).await;
    }
    wrapped
}

async fn wrap(
    core: &Core,
    request: &Request,
    ttl: u64,
    response: Response,
) -> Result<Response, Failure> {
    let hidden = Box::new(response.body.clone());
    let accessor = accessor(&hidden).unwrap_or_default().to_owned();
    let (status, content_type, bytes) = response.into_bytes();
    let answer = ClientAnswer { status, content_type, bytes, accessor };
    let new = NewWrapping { path: request.path.clone(), ttl };
    let wrap_info = wrapping::wrap(&core.store, &core.tokens, new, answer).await?;
    let envelope = Box::new(Envelope { wrap_info: Some(wrap_info), ..Envelope::default() });
    let body = ResponseBody::Wrapped { envelope, hidden };
    Ok(Response { status: 200, body, retry_after: None })
}

/// Returns the accessor of the token that an answer hands out: empty for a batch token.
fn accessor(body: &ResponseBody) -> Option<&str> {
    match body {
        ResponseBody::Envelope(envelope) => Some(&envelope.auth.as_ref()?.accessor),
        _ => None,
    }
}
