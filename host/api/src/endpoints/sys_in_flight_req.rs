//! `sys/in-flight-req`: the requests that are being served.
//!
//! A path can name objects of other callers, so the endpoint needs `sudo`. Requests of a mount's
//! own listener are not in the list.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
use bulkhead_access::in_flight::InFlightRequest;
use bulkhead_access::timestamp::timestamp;
use bulkhead_wire::failure::Failure;
use serde_json::{Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "the requests in progress";
    vec![read("sys/in-flight-req", about).needs_sudo().handled_by(show)]
}

/// `GET sys/in-flight-req`. The answer contains this request.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let all = call.core.requests.all();
    let shown = all.into_iter().map(|(id, request)| (id, shown(&request))).collect();
    Ok(ReplyBody::Bare(Value::Object(shown)).into())
}

fn shown(request: &InFlightRequest) -> Value {
    json!({
        "start_time": timestamp(request.began / 1_000),
        "client_remote_address": request.remote.to_string(),
        "request_path": format!("/v1/{}", request.path),
        "request_method": request.verb.method(),
        "client_id": request.entity_id,
    })
}
