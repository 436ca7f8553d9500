//! `sys/storage/snapshot` and the paths of published tools. `tests/e2e/snapshots.rs` and
//! `tests/e2e/restores.rs` test the content.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-storage-snapshot.read", "sys/storage/snapshot", Value::Null, 200),
        row("sys-storage-raft-snapshot.read", "sys/storage/raft/snapshot", Value::Null, 200),
        row("sys-storage-snapshot.write", "sys/storage/snapshot", json!({}), 400),
        row("sys-storage-raft-snapshot.write", "sys/storage/raft/snapshot", json!({}), 400),
        row("sys-storage-snapshot-force.write", "sys/storage/snapshot-force", json!({}), 400),
        row(
            "sys-storage-raft-snapshot-force.write",
            "sys/storage/raft/snapshot-force",
            json!({}),
            400,
        ),
    ]
}
