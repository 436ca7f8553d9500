//! The scheduler engine's rows for operators. The tests of its plain HTTP API are in
//! `tests/e2e/scheduler.rs`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let region = json!({
        "region": "west", "authoritative_region": "global",
        "addresses": "https://scheduler.example:4646", "replication_token": "8d1f-token",
    });
    vec![
        row("acl-bootstrap-reset.write", "acl/bootstrap-reset", json!({}), 200),
        row("acl-config.write", "acl/config", region, 204),
        row("acl-config.read", "acl/config", Value::Null, 200),
        row("acl-config.delete", "acl/config", Value::Null, 204),
    ]
}
