//! `identity/oidc`: keys, the issuer, and what is published.

use super::{Row, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<Row> {
    let issuer = json!({ "issuer": "https://bulkhead.example.com:8200" });
    let key = json!({ "algorithm": "EdDSA", "rotation_period": "1h", "verification_ttl": "2h" });
    let (config, team) = ("identity/oidc/config", "identity/oidc/key/team");
    let (role, nothing) = ("identity/oidc/role/web", || Value::Null);
    vec![
        row("identity-oidc-config.write", config, issuer, 200),
        row("identity-oidc-config.read", config, nothing(), 200),
        row(
            "identity-oidc-.well-known-openid-configuration.read",
            "identity/oidc/.well-known/openid-configuration",
            nothing(),
            200,
        ),
        row(
            "identity-oidc-.well-known-keys.read",
            "identity/oidc/.well-known/keys",
            nothing(),
            200,
        ),
        row("identity-oidc-key-name.write", team, key, 204),
        row("identity-oidc-key-name.read", team, nothing(), 200),
        row("identity-oidc-key.list", "identity/oidc/key", nothing(), 200),
        row(
            "identity-oidc-key-name-rotate.write",
            "identity/oidc/key/team/rotate",
            json!({ "verification_ttl": "1h" }),
            204,
        ),
        row(
            "identity-oidc-plugins-.well-known-openid-configuration.read",
            "identity/oidc/plugins/.well-known/openid-configuration",
            nothing(),
            200,
        ),
        row(
            "identity-oidc-role-name.write",
            role,
            json!({ "key": "team", "client_id": "web" }),
            204,
        ),
        row("identity-oidc-role-name.read", role, nothing(), 200),
        row("identity-oidc-role.list", "identity/oidc/role", nothing(), 200),
        // The root token stands for no entity.
        row("identity-oidc-token-name.read", "identity/oidc/token/web", nothing(), 400),
        row(
            "identity-oidc-introspect.write",
            "identity/oidc/introspect",
            json!({ "token": "no.token.this" }),
            200,
        ),
        row("identity-oidc-role-name.delete", role, nothing(), 204),
        row("identity-oidc-key-name.delete", team, nothing(), 204),
        row(
            "identity-oidc-plugins-.well-known-keys.read",
            "identity/oidc/plugins/.well-known/keys",
            nothing(),
            200,
        ),
    ]
}
