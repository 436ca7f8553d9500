//! The auth method for users with passwords.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let user = json!({ "password": "open sesame", "policies": "dev", "ttl": "10m" });
    let changed = json!({ "password": "open wheat, too" });
    let policies = json!({ "token_policies": "ops" });
    let bob = "auth/userpass/users/bob";
    vec![
        row("auth-userpass-users-username.write", bob, user, 204),
        row("auth-userpass-users-username.read", bob, Value::Null, 200),
        row("auth-userpass-users.list", "auth/userpass/users", Value::Null, 200),
        row(
            "auth-userpass-users-username-password.write",
            "auth/userpass/users/bob/password",
            changed.clone(),
            204,
        ),
        row(
            "auth-userpass-users-username-policies.write",
            "auth/userpass/users/bob/policies",
            policies,
            204,
        ),
        row("auth-userpass-login-username.write", "auth/userpass/login/bob", changed, 200),
        row("auth-userpass-users-username.delete", bob, Value::Null, 204),
    ]
}
