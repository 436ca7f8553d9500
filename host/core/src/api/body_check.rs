//! Checks whether a route accepts the body that was sent.

use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::request::Request;

/// Maximum length of a body, in bytes, for a route without a limit of its own.
const BODY_LIMIT: u64 = 1 << 20;

/// Refuses a body that is longer than the route allows, bytes if the route takes fields, and fields
/// if the route takes bytes.
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
