//! `sys/internal/counters` and `sys/monitor`. `host/api/tests/service/counters.rs` tests the
//! numbers, and `tests/e2e/logs.rs` the lines of a monitor.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let read = |golden, path, status| row(golden, path, Value::Null, status);
    let settings = json!({ "retention_months": 24, "enabled": "enable" });
    vec![
        read("sys-internal-counters-tokens.read", "sys/internal/counters/tokens", 200),
        read("sys-internal-counters-entities.read", "sys/internal/counters/entities", 200),
        read("sys-internal-counters-requests.read", "sys/internal/counters/requests", 404),
        read("sys-internal-counters-activity.read", "sys/internal/counters/activity", 200),
        read(
            "sys-internal-counters-activity-monthly.read",
            "sys/internal/counters/activity/monthly",
            200,
        ),
        row("sys-internal-counters-config.write", "sys/internal/counters/config", settings, 204),
        read("sys-internal-counters-config.read", "sys/internal/counters/config", 200),
        read("sys-monitor.read", "sys/monitor?log_level=loud", 400),
    ]
}
