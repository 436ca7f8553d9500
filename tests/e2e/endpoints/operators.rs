//! Endpoints that operators use on an unsealed server.

use super::{EndpointCall, row};
use serde_json::{Value, json};

/// The rows of an unsealed server; the last row seals it.
pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-health.read", "sys/health", Value::Null, 200),
        row("sys-seal-status.read", "sys/seal-status", Value::Null, 200),
        row("sys-leader.read", "sys/leader", Value::Null, 200),
        row("sys-ha-status.read", "sys/ha-status", Value::Null, 200),
        row("sys-host-info.read", "sys/host-info", Value::Null, 200),
        row("sys-in-flight-req.read", "sys/in-flight-req", Value::Null, 200),
        row("sys-version-history.list", "sys/version-history", Value::Null, 200),
        row("sys-loggers.read", "sys/loggers", Value::Null, 200),
        row("sys-loggers.write", "sys/loggers", json!({ "level": "loud" }), 400),
        row("sys-loggers.delete", "sys/loggers", Value::Null, 204),
        row("sys-loggers-name.read", "sys/loggers/server", Value::Null, 200),
        row("sys-loggers-name.write", "sys/loggers/server", json!({ "level": "info" }), 204),
        row("sys-loggers-name.delete", "sys/loggers/absent", Value::Null, 404),
        row("sys-config-state-sanitized.read", "sys/config/state/sanitized", Value::Null, 200),
        row("sys-internal-help-path.read", "sys/internal/help/sys/key-status", Value::Null, 200),
        row(
            "sys-internal-ui-resultant-acl.read",
            "sys/internal/ui/resultant-acl",
            Value::Null,
            200,
        ),
        row("sys-key-status.read", "sys/key-status", Value::Null, 200),
        row("sys-rotate.write", "sys/rotate", json!({}), 204),
        row("sys-rotate-keyring.write", "sys/rotate/keyring", json!({}), 204),
        row("sys-release.write", "sys/release", json!({}), 204),
        row("sys-step-down.write", "sys/step-down", json!({}), 204),
        row("sys-seal.write", "sys/seal", json!({}), 204),
    ]
}

/// The rows that initialise and unseal a server.
pub(super) fn rows_before_opening() -> Vec<EndpointCall> {
    let numbers = json!({ "secret_shares": 3, "secret_threshold": 2 });
    vec![
        row("sys-init.read", "sys/init", Value::Null, 200),
        row("sys-init.write", "sys/init", numbers, 200),
        row("sys-unseal.write", "sys/unseal", json!({}), 200),
    ]
}
