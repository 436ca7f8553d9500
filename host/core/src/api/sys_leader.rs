//! `sys/leader` and `sys/step-down`: every node answers every request, so nobody leads and nobody
//! steps down.

use super::row::{open, sudo};
use super::{Body, Handler, OpenHandler, Reply};
use crate::service::{Service, sealed};
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::response::Response;
use serde_json::json;

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let leader = open(Verb::Read, "sys/leader", "which node answers", vec![]);
    let step_down = sudo(Verb::Write, "sys/step-down", "nothing: every node answers", vec![]);
    vec![(Handler::Open(OpenHandler::Leader), leader), (Handler::StepDown, step_down)]
}

/// `GET sys/leader` (decision H16). The embedded store belongs to one node.
pub(super) fn leader(service: &Service) -> Result<Response, Failure> {
    if service.core().is_none() {
        return Err(sealed());
    }
    let body = json!({
        "ha_enabled": false,
        "is_self": true,
        "leader_address": service.process().settings.api_address,
        "leader_cluster_address": "",
        "performance_standby": false,
        "performance_standby_last_remote_wal": 0,
    });
    Ok(Response::bare(200, body))
}

/// `POST sys/step-down`.
pub(super) fn step_down() -> Reply {
    Body::Nothing.into()
}
