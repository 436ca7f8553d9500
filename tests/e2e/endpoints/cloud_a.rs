//! The Azure auth method without Azure: an unreadable token causes no request.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let config = json!({
        "tenant_id": "11111111-2222-3333-4444-555555555555", "resource": "https://vault.example",
        "environment": "AzurePublicCloud", "rotation_period": 0,
    });
    let role = json!({
        "bound_resource_groups": "apps", "token_policies": "dev", "token_ttl": "1h",
        "max_jwt_exp": "15m",
    });
    let login = json!({ "role": "dev", "jwt": "e30.e30.AAAA" });
    let explained = json!({ "jwt": "e30.e30.AAAA" });
    vec![
        row("auth-cloud-a-config.write", "auth/cloud-a/config", config, 204),
        row("auth-cloud-a-config.read", "auth/cloud-a/config", Value::Null, 200),
        row("auth-cloud-a-role-name.write", "auth/cloud-a/role/dev", role, 200),
        row("auth-cloud-a-role-name.read", "auth/cloud-a/role/dev", Value::Null, 200),
        row("auth-cloud-a-role.list", "auth/cloud-a/role", Value::Null, 200),
        row(
            "auth-cloud-a-role-name-explain.write",
            "auth/cloud-a/role/dev/explain",
            explained,
            200,
        ),
        row("auth-cloud-a-login.write", "auth/cloud-a/login", login, 400),
        row("auth-cloud-a-rotate-root.write", "auth/cloud-a/rotate-root", json!({}), 400),
        row("auth-cloud-a-role-name.delete", "auth/cloud-a/role/dev", Value::Null, 204),
        row("auth-cloud-a-config.delete", "auth/cloud-a/config", Value::Null, 204),
    ]
}
