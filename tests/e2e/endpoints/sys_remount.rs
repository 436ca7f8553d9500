//! `sys/remount`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row(
            "sys-remount.write",
            "sys/remount",
            json!({ "from": "database/", "to": "teams/orders/" }),
            200,
        ),
        row(
            "sys-remount-status-migration_id.read",
            "sys/remount/status/{migration}",
            Value::Null,
            200,
        ),
    ]
}
