//! `sys/leader`, `sys/ha-status` and `sys/step-down`: every node answers every request, so there is
//! no leader and nothing to step down from.

use super::call::{PermittedCall, SealedCall};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read, write};
use super::sys_host_info::hostname;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        read("sys/leader", "which node answers").while_sealed(leader),
        read("sys/ha-status", "the nodes of the service").handled_by(ha_status),
        write("sys/step-down", "nothing: every node answers").needs_sudo().handled_by(step_down),
    ]
}

/// `GET sys/leader` (decision H16). The embedded store belongs to a single node.
async fn leader(call: SealedCall<'_>) -> Result<Response, Failure> {
    let body = json!({
        "ha_enabled": false,
        "is_self": call.seal.core().is_some(),
        "leader_address": call.seal.settings().api_address,
        "leader_cluster_address": "",
        "performance_standby": false,
        "performance_standby_last_remote_wal": 0,
    });
    Ok(Response::bare(200, body))
}

/// `GET sys/ha-status`. The embedded store belongs to a single node.
async fn ha_status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let settings = &call.core.process.settings;
    let node = json!({
        "hostname": hostname().await,
        "api_address": settings.api_address,
        "cluster_address": "",
        "active_node": true,
        "last_echo": Value::Null,
        "version": settings.reported_version,
    });
    Ok(ReplyBody::Copied(Map::from_iter([("nodes".to_owned(), json!([node]))])).into())
}

/// `POST sys/step-down`.
async fn step_down(_: PermittedCall<'_>) -> Result<Reply, Failure> {
    Ok(ReplyBody::Nothing.into())
}
