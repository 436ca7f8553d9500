//! `sys/plugins`: catalog, pins, reloads and runtimes.

use super::{EndpointCall, row};
use serde_json::{Value, json};

const PROBE: &str = "sys/plugins/catalog/secret/probe";
const PIN: &str = "sys/plugins/pins/secret/probe";
const RELOAD: &str = "sys/plugins/reload/secret/probe";
const RUNTIMES: &str = "sys/plugins/runtimes/catalog";
const RUNTIME: &str = "sys/plugins/runtimes/catalog/container/runc";

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-plugins-catalog-type-name.write", PROBE, json!("probe"), 204),
        row("sys-plugins-catalog.read", "sys/plugins/catalog", Value::Null, 200),
        row("sys-plugins-catalog-type.list", "sys/plugins/catalog/secret", Value::Null, 200),
        row("sys-plugins-catalog-type-name.read", PROBE, Value::Null, 200),
        row("sys-plugins-pins-type-name.write", PIN, json!({ "version": "1.0.0" }), 204),
        row("sys-plugins-pins.read", "sys/plugins/pins", Value::Null, 200),
        row("sys-plugins-pins-type-name.read", PIN, Value::Null, 200),
        row("sys-plugins-pins-type-name.delete", PIN, Value::Null, 204),
        row("sys-plugins-reload-type-name.write", RELOAD, json!({}), 200),
        row(
            "sys-plugins-reload-backend.write",
            "sys/plugins/reload/backend",
            json!({ "plugin": "probe" }),
            200,
        ),
        row(
            "sys-plugins-reload-backend-status.read",
            "sys/plugins/reload/backend/status?reload_id={reload}",
            Value::Null,
            200,
        ),
        row("sys-plugins-runtimes-catalog.read", RUNTIMES, Value::Null, 200),
        row("sys-plugins-runtimes-catalog.list", RUNTIMES, Value::Null, 200),
        row("sys-plugins-runtimes-catalog-type-name.read", RUNTIME, Value::Null, 404),
        row("sys-plugins-runtimes-catalog-type-name.write", RUNTIME, json!({}), 400),
        row("sys-plugins-runtimes-catalog-type-name.delete", RUNTIME, Value::Null, 204),
        row("sys-plugins-catalog-type-name.delete", PROBE, Value::Null, 204),
    ]
}
