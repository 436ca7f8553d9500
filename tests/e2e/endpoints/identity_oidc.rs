//! `identity/oidc`: keys, the issuer and published documents.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    [keys(), roles(), published_last()].into_iter().flatten().collect()
}

const TEAM: &str = "identity/oidc/key/team";

fn bodyless_row(golden: &'static str, path: &'static str, status: u16) -> EndpointCall {
    row(golden, path, Value::Null, status)
}

/// The issuer, the documents before there is a key, and a key.
fn keys() -> Vec<EndpointCall> {
    let issuer = json!({ "issuer": "https://bulkhead.example.com:8200" });
    let key = json!({ "algorithm": "EdDSA", "rotation_period": "1h", "verification_ttl": "2h" });
    let (config, rotate) = ("identity/oidc/config", "identity/oidc/key/team/rotate");
    let discovery = "identity/oidc/.well-known/openid-configuration";
    vec![
        row("identity-oidc-config.write", config, issuer, 200),
        bodyless_row("identity-oidc-config.read", config, 200),
        bodyless_row("identity-oidc-.well-known-openid-configuration.read", discovery, 200),
        bodyless_row("identity-oidc-.well-known-keys.read", "identity/oidc/.well-known/keys", 200),
        row("identity-oidc-key-name.write", TEAM, key, 204),
        bodyless_row("identity-oidc-key-name.read", TEAM, 200),
        bodyless_row("identity-oidc-key.list", "identity/oidc/key", 200),
        row("identity-oidc-key-name-rotate.write", rotate, json!({ "verification_ttl": 60 }), 204),
    ]
}

/// A role, and a malformed token. The root token has no entity.
fn roles() -> Vec<EndpointCall> {
    let role = "identity/oidc/role/web";
    let written = json!({ "key": "team", "client_id": "web" });
    let token = json!({ "token": "no.token.this" });
    vec![
        row("identity-oidc-role-name.write", role, written, 204),
        bodyless_row("identity-oidc-role-name.read", role, 200),
        bodyless_row("identity-oidc-role.list", "identity/oidc/role", 200),
        bodyless_row("identity-oidc-token-name.read", "identity/oidc/token/web", 400),
        row("identity-oidc-introspect.write", "identity/oidc/introspect", token, 200),
        bodyless_row("identity-oidc-role-name.delete", role, 204),
    ]
}

/// The documents for verifiers of mounts' tokens, without a key.
fn published_last() -> Vec<EndpointCall> {
    let discovery = "identity/oidc/plugins/.well-known/openid-configuration";
    let keys = "identity/oidc/plugins/.well-known/keys";
    vec![
        bodyless_row("identity-oidc-plugins-.well-known-openid-configuration.read", discovery, 200),
        bodyless_row("identity-oidc-key-name.delete", TEAM, 204),
        bodyless_row("identity-oidc-plugins-.well-known-keys.read", keys, 200),
    ]
}
