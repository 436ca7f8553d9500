//! `sys/metrics`. `host/api/tests/service/metrics.rs` tests the metrics of mounts, and
//! `tests/e2e/directory/metrics.rs` the text format.

use super::{EndpointCall, row};
use serde_json::Value;

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![row("sys-metrics.read", "sys/metrics", Value::Null, 200)]
}
