//! `sys/auth`. The answer of a read lists the built-in methods; `tests/e2e/logins.rs` uploads
//! another method.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let tuned =
        json!({ "default_lease_ttl": "1h", "audit_non_hmac_request_keys": ["display_name"] });
    vec![
        row("sys-auth.read", "sys/auth", Value::Null, 200),
        row("sys-auth-path.write", "sys/auth/staff", json!({ "type": "radius" }), 400),
        row("sys-auth-path.read", "sys/auth/token", Value::Null, 200),
        row("sys-auth-path-tune.write", "sys/auth/token/tune", tuned, 204),
        row("sys-auth-path-tune.read", "sys/auth/token/tune", Value::Null, 200),
        row("sys-auth-path.delete", "sys/auth/staff", Value::Null, 204),
    ]
}
