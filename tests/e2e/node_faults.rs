//! Two nodes on one PostgreSQL database, under faults: a node is cut off, paused or killed, the
//! database fails over or is set back, and key holders use the wrong node or the wrong shares.

mod cut_off;
mod deaths;
mod failover;
mod formats;
mod key_holders;
mod mount_changes;
mod proxied_nodes;
mod restored;
mod target_gate;

pub(crate) use target_gate::connect;

use bulkhead_tests::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest time for anything that happens by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Returns the member `round` of a secret.
#[track_caller]
fn round_of(root: &Client, path: &str) -> Value {
    root.read(path).expect(200).body["data"]["round"].clone()
}

#[track_caller]
fn write_round(root: &Client, path: &str, round: u32) {
    root.write(path, &json!({ "round": round })).expect(204);
}
