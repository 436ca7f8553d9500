//! `sys/quotas/rate-limit` and `sys/quotas/config`. `tests/e2e/quotas.rs` tests the enforcement.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let (one, config) = ("sys/quotas/rate-limit/database", "sys/quotas/config");
    let quota = json!({ "path": "database", "rate": 100_000.5, "interval": "2s" });
    let settings = json!({ "rate_limit_exempt_paths": ["sys/metrics"] });
    vec![
        row("sys-quotas-rate-limit-name.write", one, quota, 204),
        row("sys-quotas-rate-limit-name.read", one, Value::Null, 200),
        row("sys-quotas-rate-limit.list", "sys/quotas/rate-limit", Value::Null, 200),
        row("sys-quotas-rate-limit-name.delete", one, Value::Null, 204),
        row("sys-quotas-config.write", config, settings, 204),
        row("sys-quotas-config.read", config, Value::Null, 200),
    ]
}
