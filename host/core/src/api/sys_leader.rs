//! `sys/leader` and `sys/step-down`: every node answers every request, so there is no leader and
//! nothing to step down from.

use super::call::{Call, SealedCall};
use super::reply::{Body, Reply};
use super::row::{Endpoint, read, write};
use crate::sealing::sealed;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::json;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        read("sys/leader", "which node answers").while_sealed(leader),
        write("sys/step-down", "nothing: every node answers").needs_sudo().handled_by(step_down),
    ]
}

/// `GET sys/leader` (decision H16). The embedded store belongs to a single node.
async fn leader(call: SealedCall<'_>) -> Result<Response, Failure> {
    if call.seal.core().is_none() {
        return Err(sealed());
    }
    let body = json!({
        "ha_enabled": false,
        "is_self": true,
        "leader_address": call.seal.settings().api_address,
        "leader_cluster_address": "",
        "performance_standby": false,
        "performance_standby_last_remote_wal": 0,
    });
    Ok(Response::bare(200, body))
}

/// `POST sys/step-down`.
async fn step_down(_: Call<'_>) -> Result<Reply, Failure> {
    Ok(Body::Nothing.into())
}
