//! `sys/quotas/lease-count`. `tests/e2e/quotas.rs` tests the enforcement.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let one = "sys/quotas/lease-count/everywhere";
    vec![
        row("sys-quotas-lease-count-name.write", one, json!({ "max_leases": 300_000 }), 204),
        row("sys-quotas-lease-count-name.read", one, Value::Null, 200),
        row("sys-quotas-lease-count.list", "sys/quotas/lease-count", Value::Null, 200),
        row("sys-quotas-lease-count-name.delete", one, Value::Null, 204),
    ]
}
