//! Wrapping of an answer, if the request asks for wrapping.
//!
//! This file prevents a secret in the clear: a request for wrapping gets a wrapping token, 204 or
//! an error. Answers that everyone may read without a token stay as they are, so that callers
//! without a token cannot fill the store. Stored answers count for their caller, and data sent by
//! the caller are gone when the caller's token ends.

use super::audit_trail::AuditTrail;
use crate::endpoints;
use bulkhead_access::tokens::Caller;
use bulkhead_access::wrapping::{self, ClientAnswer, NewWrapped, WrappingPayer};
use bulkhead_core::Core;
use bulkhead_wire::envelope::{AuthBlock, Envelope};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Response, ResponseBody};

/// Refuses a request before the request has an effect, if the answer could not be wrapped.
///
/// # Errors
/// 429 if the caller, or all callers together, store as many bytes as they may.
pub(super) async fn assert_room(
    core: &Core,
    request: &Request,
    caller: &Caller,
) -> Result<(), Failure> {
    match request.wrap_ttl {
        Some(_) => WrappingPayer::of_caller(caller).assert_room(&core.store).await,
        None => Ok(()),
    }
}

/// Returns the answer that leaves: the given answer, or a wrapping token instead. If the answer
/// cannot be stored, the lease or token of the answer is ended.
pub(super) async fn wrap_if_asked(
    core: &Core,
    request: &Request,
    trail: &AuditTrail<'_>,
    served: Result<Response, Failure>,
) -> Result<Response, Failure> {
    let (Ok(response), Some(ttl)) = (&served, request.wrap_ttl) else { return served };
    let is_wrapped = matches!(response.body, ResponseBody::Empty | ResponseBody::Wrapped { .. });
    let is_public = trail.caller().is_none() && auth(&response.body).is_none();
    if response.status >= 300 || is_wrapped || is_public {
        return served;
    }
    let ttl = ttl.min(core.lifetimes.max);
    let wrapped = Box::pin(wrap(core, (request, ttl), trail.caller(), response.clone())).await;
    if wrapped.is_err() {
        Box::pin(trail.end_what_was_made(&response.body)).await;
    }
    wrapped
}

async fn wrap(
    core: &Core,
    (request, ttl): (&Request, u64),
    caller: Option<&Caller>,
    response: Response,
) -> Result<Response, Failure> {
    let hidden = Box::new(response.body.clone());
    let auth = auth(&hidden);
    let accessor = auth.map(|auth| auth.accessor.clone()).unwrap_or_default();
    let (status, content_type, bytes) = response.into_bytes();
    let payer = match caller {
        Some(caller) => WrappingPayer::of_caller(caller),
        None => WrappingPayer::of_entity(auth.map_or("", |auth| &auth.entity_id)),
    };
    let new = NewWrapped {
        path: &request.path,
        ttl,
        answer: ClientAnswer { status, content_type, bytes, accessor },
        payer,
        owner: caller.filter(|_| endpoints::answers_own_data(&request.path)),
    };
    let wrap_info = wrapping::wrap(&core.store, &core.tokens, new).await?;
    let envelope = Box::new(Envelope { wrap_info: Some(wrap_info), ..Envelope::default() });
    let body = ResponseBody::Wrapped { envelope, hidden };
    Ok(Response::new(200, body))
}

/// Returns the token that an answer hands out. The accessor of a batch token is empty.
fn auth(body: &ResponseBody) -> Option<&AuthBlock> {
    match body {
        ResponseBody::Envelope(envelope) => envelope.auth.as_ref(),
        _ => None,
    }
}
