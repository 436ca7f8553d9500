//! `sys/mounts`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let tuned = json!({
        "max_lease_ttl": "48h", "description": "orders", "options": { "region": "north" },
    });
    let visible = json!({ "listing_visibility": "unauth", "force_no_cache": true });
    let tokens = json!({ "default_lease_ttl": "1h", "max_lease_ttl": 86400 });
    vec![
        row("sys-mounts.read", "sys/mounts", Value::Null, 200),
        row("sys-mounts-path.write", "sys/mounts/warehouse", json!({ "type": "database" }), 204),
        row("sys-mounts-path.read", "sys/mounts/warehouse", Value::Null, 200),
        row("sys-mounts-path-tune.write", "sys/mounts/warehouse/tune", tuned, 204),
        row("sys-mounts-path-tune-warned.write", "sys/mounts/warehouse/tune", visible, 200),
        row("sys-mounts-path-tune.read", "sys/mounts/warehouse/tune", Value::Null, 200),
        row("sys-mounts-auth-path-tune.write", "sys/mounts/auth/token/tune", tokens, 204),
        row("sys-mounts-auth-path-tune.read", "sys/mounts/auth/token/tune", Value::Null, 200),
        row("sys-mounts-path.delete", "sys/mounts/warehouse", Value::Null, 204),
    ]
}
