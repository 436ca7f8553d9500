//! `sys/metrics`. What mounts show there is in `host/core/tests/core/metrics.rs`, and the text
//! format where an engine has figures (`tests/e2e/directory/metrics.rs`).

use super::{Row, row};
use serde_json::Value;

pub(super) fn rows() -> Vec<Row> {
    vec![row("sys-metrics.read", "sys/metrics", Value::Null, 200)]
}
