//! `sys/internal/ui/mounts`.

use super::{EndpointCall, row};
use serde_json::Value;

pub(super) fn rows() -> Vec<EndpointCall> {
    vec![
        row("sys-internal-ui-mounts.read", "sys/internal/ui/mounts", Value::Null, 200),
        row(
            "sys-internal-ui-mounts-path.read",
            "sys/internal/ui/mounts/sys/policies",
            Value::Null,
            200,
        ),
    ]
}
