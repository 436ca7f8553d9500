//! `sys/leader`, `sys/ha-status` and `sys/step-down`: every node answers every request, so there is
//! no leader, and a node steps down from the choice of load balancers (decision H16).

use super::call::{PermittedCall, SealedCall};
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read, write};
use super::sys_host_info::hostname;
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_store::LivingNode;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    vec![
        read("sys/leader", "which node answers").while_sealed(leader),
        read("sys/ha-status", "the nodes of the service").handled_by(ha_status),
        write("sys/step-down", "drain this node for a minute").needs_sudo().handled_by(step_down),
    ]
}

/// `GET sys/leader`. Each node names itself.
async fn leader(call: SealedCall<'_>) -> Result<Response, Failure> {
    let settings = call.seal.settings();
    let body = json!({
        "ha_enabled": settings.store.is_shared(),
        "is_self": call.seal.core().is_some(),
        "leader_address": settings.api_address,
        "leader_cluster_address": "",
        "performance_standby": false,
        "performance_standby_last_remote_wal": 0,
    });
    Ok(Response::bare(200, body))
}

/// `GET sys/ha-status`. Lists the nodes that have unsealed the data and renewed their claims.
async fn ha_status(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let core = call.core;
    let nodes = match core.process.settings.store.is_shared() {
        true => {
            let (living, now) = (core.store.nodes().await?, core.store.now());
            living.iter().map(|node| describe(node, now)).collect()
        }
        false => vec![describe_only_node(core).await],
    };
    Ok(ReplyBody::Copied(Map::from_iter([("nodes".to_owned(), json!(nodes))])).into())
}

/// Describes the node of a server that works alone.
async fn describe_only_node(core: &Core) -> Value {
    let settings = &core.process.settings;
    json!({
        "hostname": hostname().await,
        "api_address": settings.api_address,
        "cluster_address": "",
        "active_node": true,
        "last_echo": Value::Null,
        "version": settings.reported_version,
    })
}

/// Describes a node that shares the database. `now` is store time, in milliseconds.
fn describe(node: &LivingNode, now: u64) -> Value {
    let before = |age: Duration| {
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        timestamp(now.saturating_sub(age) / 1_000)
    };
    let description = &node.description;
    json!({
        "hostname": description.hostname,
        "api_address": description.api_address,
        "cluster_address": "",
        "active_node": true,
        "last_echo": if node.is_self { Value::Null } else { before(node.silence) },
        "version": description.version,
        "bulkhead_version": description.bulkhead_version,
        "node_id": description.node_id,
        "unsealed_at": before(node.age),
        "last_commit": node.last_commit,
        "unread_commits": node.unread_commits,
    })
}

/// `POST sys/step-down`. Drains a node that shares its data.
async fn step_down(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    call.core.process.step_down();
    Ok(ReplyBody::Nothing.into())
}
