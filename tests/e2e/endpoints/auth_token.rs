//! `auth/token`, and a token's requests about itself.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    [children(), roles(), ends()].into_iter().flatten().collect()
}

fn children() -> Vec<EndpointCall> {
    let child = json!({
        "policies": ["operator"], "ttl": "1h", "display_name": "night shift",
        "meta": { "team": "ops" },
    });
    let by_accessor = json!({ "accessor": "{accessor}" });
    let renewal = json!({ "accessor": "{accessor}", "increment": "3h" });
    vec![
        row("auth-token-create.write", "auth/token/create", child, 200),
        row("auth-token-lookup-self.read", "auth/token/lookup-self", Value::Null, 200),
        row("auth-token-lookup-self.write", "auth/token/lookup-self", json!({}), 200),
        row("auth-token-lookup.read", "auth/token/lookup", Value::Null, 200),
        row("auth-token-lookup.write", "auth/token/lookup", json!({ "token": "{token}" }), 200),
        row("auth-token-lookup-accessor.write", "auth/token/lookup-accessor", by_accessor, 200),
        row("auth-token-accessors.list", "auth/token/accessors", Value::Null, 200),
        row(
            "auth-token-renew.write",
            "auth/token/renew",
            json!({ "token": "{token}", "increment": "3h" }),
            200,
        ),
        row("auth-token-renew-accessor.write", "auth/token/renew-accessor", renewal, 200),
        row("auth-token-revoke.write", "auth/token/revoke", json!({ "token": "{token}" }), 204),
    ]
}

fn roles() -> Vec<EndpointCall> {
    let role =
        json!({ "allowed_policies": ["operator"], "token_period": "2h", "path_suffix": "nightly" });
    vec![
        row("auth-token-roles-role_name.write", "auth/token/roles/worker", role, 204),
        row("auth-token-roles-role_name.read", "auth/token/roles/worker", Value::Null, 200),
        row("auth-token-roles.list", "auth/token/roles", Value::Null, 200),
        row(
            "auth-token-create-role_name.write",
            "auth/token/create/worker",
            json!({ "num_uses": 9 }),
            200,
        ),
        row(
            "auth-token-revoke-accessor.write",
            "auth/token/revoke-accessor",
            json!({ "accessor": "{accessor}" }),
            204,
        ),
        row("auth-token-roles-role_name.delete", "auth/token/roles/worker", Value::Null, 204),
    ]
}

fn ends() -> Vec<EndpointCall> {
    let orphan = json!({ "policies": ["operator"], "period": "1h" });
    vec![
        row("auth-token-create-orphan.write", "auth/token/create-orphan", orphan, 200),
        row(
            "auth-token-revoke-orphan.write",
            "auth/token/revoke-orphan",
            json!({ "token": "{token}" }),
            204,
        ),
        row("auth-token-tidy.write", "auth/token/tidy", json!({}), 202),
        row(
            "sys-capabilities-self.write",
            "sys/capabilities-self",
            json!({ "paths": ["database/config/x"] }),
            200,
        ),
        row(
            "auth-token-renew-self.write",
            "auth/token/renew-self",
            json!({ "increment": "2h" }),
            200,
        ),
        row("auth-token-revoke-self.write", "auth/token/revoke-self", json!({}), 204),
    ]
}
