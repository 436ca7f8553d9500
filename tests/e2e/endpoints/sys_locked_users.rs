//! `sys/locked-users`. `host/api/tests/service/lockouts.rs` tests locking and unlocking.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-locked-users.read", "sys/locked-users", Value::Null, 200),
        row(
            "sys-locked-users-mount_accessor-unlock-alias_identifier.write",
            "sys/locked-users/userpass_0123abcd/unlock/eve",
            json!({}),
            400,
        ),
    ]
}
