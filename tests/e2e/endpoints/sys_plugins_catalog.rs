//! `sys/plugins/catalog`.

use super::{Row, row};
use serde_json::{Value, json};

const PROBE: &str = "sys/plugins/catalog/secret/probe";

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("sys-plugins-catalog-type-name.write", PROBE, json!("probe"), 204),
        row("sys-plugins-catalog.read", "sys/plugins/catalog", Value::Null, 200),
        row("sys-plugins-catalog-type.list", "sys/plugins/catalog/secret", Value::Null, 200),
        row("sys-plugins-catalog-type-name.read", PROBE, Value::Null, 200),
        row("sys-plugins-catalog-type-name.delete", PROBE, Value::Null, 204),
    ]
}
