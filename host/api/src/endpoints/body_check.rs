//! Checks whether a route accepts the body that was sent.

use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::Request;

/// Maximum length of a body, in bytes, for a route without its own limit.
const BODY_LIMIT: u64 = 1 << 20;

/// Refuses a body that was not read, a body that is longer than the route allows, and bytes if the
/// route takes fields only. A body in a file was received within the limits of such bodies.
///
/// # Errors
/// 503 for an unread body, 415 for bytes, 413 for the length.
pub(crate) fn check_body(route: &Route, request: &Request) -> Result<(), Failure> {
    if request.is_unread {
        return Err(unread_failure());
    }
    if request.raw.is_some() && !route.raw {
        let message = "this path takes fields and not a component's bytes; send the fields as JSON";
        return Err(Failure::new(FailureKind::UnsupportedMediaType, message));
    }
    if request.file.is_some() {
        return Ok(());
    }
    let body_bytes = request.body_bytes;
    let limit = match route.body_limit {
        0 => BODY_LIMIT,
        // The limit of a route that takes bytes is for the bytes.
        _ if route.raw && request.raw.is_none() => BODY_LIMIT,
        limit => limit,
    };
    if body_bytes <= limit {
        return Ok(());
    }
    let message = format!("the body has {body_bytes} bytes; this path takes at most {limit}");
    Err(Failure::new(FailureKind::TooLarge, message).recordable())
}

/// The error for a request with an unread body, because the token, its policies or the service
/// became valid only after the head had arrived.
pub(crate) fn unread_failure() -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        "the service or the rights of this token changed during this request; send it again",
    )
}
