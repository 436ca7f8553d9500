//! `sys/storage/snapshot` and the path of published tools. `tests/e2e/snapshots.rs` tests the
//! content.

use super::{EndpointCall, row};
use serde_json::Value;

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-storage-snapshot.read", "sys/storage/snapshot", Value::Null, 200),
        row("sys-storage-raft-snapshot.read", "sys/storage/raft/snapshot", Value::Null, 200),
    ]
}
