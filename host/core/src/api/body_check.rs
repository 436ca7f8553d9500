//! Whether a route takes the body that was sent.

use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::request::Request;

/// Longest body, in bytes, of a route that says nothing else.
const BODY_LIMIT: u64 = 1 << 20;

/// Refuses a body that is longer than the route takes, or bytes where it takes fields, or the other
/// way round.
///
/// # Errors
/// 415 for bytes, 400 for fields, 413 for the length.
pub(crate) fn check_body(route: &Route, request: &Request) -> Result<(), Failure> {
    match (route.raw, &request.raw) {
        (false, Some(_)) => {
            let message = "this path takes fields and not a component's bytes; send them as JSON";
            return Err(Failure::new(Kind::UnsupportedMediaType, message));
        }
        (true, None) => {
            return Err(Failure::invalid(
                "this path takes a component's bytes as its body, and its fields as query \
                 parameters: send the file itself, with Content-Type: application/wasm; files \
                 are not fetched from a plugin directory or a registry (command, oci_image), and \
                 components have neither args nor env",
            ));
        }
        (true, Some(_)) | (false, None) => {}
    }
    let body_bytes = request.body_bytes;
    let limit = if route.body_limit == 0 { BODY_LIMIT } else { route.body_limit };
    if body_bytes <= limit {
        return Ok(());
    }
    let message = format!("the body has {body_bytes} bytes; this path takes at most {limit}");
    Err(Failure::new(Kind::TooLarge, message).recordable())
}
