//! `sys/health`: the health check of load balancers, in the shape that clients parse (decision
//! H17).

use super::call::{RequestFields, SealedCall};
use super::row::{Endpoint, field, read};
use super::sys_seal_status::name_cluster;
use bulkhead_core::Core;
use bulkhead_core::health::HealthCondition;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "is this node up and unsealed";
    vec![read("sys/health", about).fields(codes()).while_sealed(health)]
}

/// Returns the fields for status codes that a load balancer wants instead of the usual codes
/// (decision H17). Codes for states that this service does not have are checked and ignored.
fn codes() -> Vec<Field> {
    let names = [
        "activecode",
        "sealedcode",
        "uninitcode",
        "standbycode",
        "drsecondarycode",
        "performancestandbycode",
        "haunhealthycode",
        "removedcode",
    ];
    let codes = names
        .map(|name| field(name, FieldKind::String, "the status code of the answer in this state"));
    let flags = ["standbyok", "perfstandbyok"]
        .map(|name| field(name, FieldKind::String, "no state of this service"));
    codes.into_iter().chain(flags).collect()
}

/// `GET sys/health`. The status code tells the state of the service; the caller may choose another
/// code for each state.
async fn health(call: SealedCall<'_>) -> Result<Response, Failure> {
    let SealedCall { seal, fields: codes, .. } = call;
    let status = seal.status().await?;
    for (name, value) in codes.all() {
        if name.ends_with("code") {
            code(name, value)?;
        } else {
            flag(name, value)?;
        }
    }
    let conditions = seal.core().map(|core| review(&core)).unwrap_or_default();
    let writes = !conditions.iter().any(HealthCondition::is_fatal);
    let (stopping, drained) = (seal.is_stopping(), seal.is_drained());
    let answered = match (status.initialized, status.sealed) {
        // A load balancer must take this node out, whatever codes or flags its check chooses.
        _ if stopping || drained => 503,
        // A node that can no longer store or audit is unhealthy, and the code chosen by the caller
        // does not count.
        _ if !writes => 500,
        (false, _) => status_code(codes, "uninitcode", 501)?,
        (true, true) => status_code(codes, "sealedcode", 503)?,
        (true, false) => status_code(codes, "activecode", 200)?,
    };
    let version = &seal.settings().reported_version;
    let mut body = json!({
        "initialized": status.initialized,
        "sealed": status.sealed,
        // A sealed node serves nothing, and monitoring counts a sealed node among the standby
        // nodes.
        "standby": status.sealed,
        "performance_standby": false,
        "replication_performance_mode": "disabled",
        "replication_dr_mode": "disabled",
        "server_time_utc": seal.now() / 1000,
        "version": version,
        // Clients enable features by this member, as by the version (decision P5).
        "enterprise": version.ends_with("+ent"),
        "echo_duration_ms": 0,
        "clock_skew_ms": 0,
        "writes": writes,
        "stopping": stopping,
        "bulkhead_version": env!("CARGO_PKG_VERSION"),
    });
    name_cluster(&mut body, status.cluster_id);
    add_conditions(&mut body, (drained, &conditions));
    Ok(Response::bare(answered, body))
}

/// Returns the present conditions of the service. If no audit device works, retries the devices in
/// the background.
fn review(core: &Arc<Core>) -> Vec<HealthCondition> {
    let conditions = core.review_health();
    if conditions.contains(&HealthCondition::AuditStopped) {
        let core = Arc::clone(core);
        tokio::spawn(async move { core.audit.try_again(core.store.now(), "sys/health").await });
    }
    conditions
}

/// Adds the members `draining` and `degraded`, unless the service is well. The members are absent
/// then, because typed clients of published servers do not know the members.
fn add_conditions(body: &mut Value, (drained, conditions): (bool, &[HealthCondition])) {
    let Some(members) = body.as_object_mut() else { return };
    if drained {
        members.insert("draining".to_owned(), json!(true));
    }
    if conditions.is_empty() {
        return;
    }
    let shown = conditions
        .iter()
        .map(|condition| json!({ "code": condition.code(), "message": condition.message() }));
    members.insert("degraded".to_owned(), shown.collect());
}

/// Returns the status code for a state: the caller's choice, or the usual code.
fn status_code(codes: RequestFields<'_>, name: &str, usual: u16) -> Result<u16, Failure> {
    codes.get(name).map_or(Ok(usual), |value| code(name, value))
}

/// Checks a parameter without effect that is a flag. An empty value is allowed, because a query may
/// have the bare name.
fn flag(name: &str, value: &Value) -> Result<(), Failure> {
    let text = value.as_str().unwrap_or_default();
    if matches!(text, "" | "true" | "false" | "1" | "0") {
        return Ok(());
    }
    Err(Failure::invalid(format!("{name} {} is not a flag; give true or false", quoted(text))))
}

/// Parses the status code of a parameter.
fn code(name: &str, value: &Value) -> Result<u16, Failure> {
    let text = value.as_str().unwrap_or_default();
    let code = text.parse::<u16>().ok().filter(|code| (200..=599).contains(code));
    code.ok_or_else(|| {
        Failure::invalid(format!(
            "{name} {} is not a status code; give a number from 200 to 599",
            quoted(text)
        ))
    })
}
