//! The standard requests, and the mounts, roles and tokens for them.
#![allow(dead_code, reason = "benchmarks and budgets use a part each")]

use crate::load::{self, AnswerLengths};
use bulkhead_tests::Client;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::cloud_b::now;
use bulkhead_tests::signer::Signer;
use serde_json::{Value, json};

/// A request that is measured.
pub struct StandardRequest {
    pub name: &'static str,
    pub request: fn(&Prepared) -> Vec<u8>,
    pub lengths: AnswerLengths,
    /// Number of connections, if not the usual one.
    pub connections: Option<usize>,
    /// Maximum microseconds of processor time.
    pub goal: Option<f64>,
}

const fn row(
    name: &'static str,
    request: fn(&Prepared) -> Vec<u8>,
    goal: Option<f64>,
) -> StandardRequest {
    StandardRequest { name, request, lengths: AnswerLengths::Declared, connections: None, goal }
}

/// The eight requests, then their variants.
pub const STANDARD: [StandardRequest; 13] = [
    row("health", |_| load::get("sys/health", ""), None),
    row("look-up of the caller's token", |on| on.get("auth/token/lookup-self"), None),
    row("kv 1 read", |on| on.get("first/orders"), Some(45.0)),
    row("kv 2 read", |on| on.get("second/data/orders"), None),
    row("role read", |on| on.get("database/roles/reader"), Some(50.0)),
    row(
        "service token",
        |_| load::post("auth/token/create", ROOT, r#"{"policies":["reader"],"ttl":"1h"}"#),
        None,
    ),
    row("batch login, AppRole", |on| on.login("approle", &on.approle[1]), Some(80.0)),
    row("batch login, JWT", |on| on.login("jwt", &on.jwt[1]), Some(110.0)),
    row("service login, AppRole", |on| on.login("approle", &on.approle[0]), Some(130.0)),
    row("service login, JWT", |on| on.login("jwt", &on.jwt[0]), Some(160.0)),
    row("kv 1 read, reused instance", |on| on.get("first-reuse/orders"), Some(40.0)),
    row("role read, reused instance", |on| on.get("database-reuse/roles/reader"), Some(40.0)),
    StandardRequest {
        name: "kv 1 write of one record, 64 connections",
        request: |on| load::post("first/contended", &on.token, r#"{"password":"correct horse"}"#),
        lengths: AnswerLengths::Declared,
        connections: Some(64),
        goal: Some(150.0),
    },
];

/// A server with the mounts, and the callers of the requests.
pub struct Prepared {
    /// A token that may send the requests, and nothing else.
    token: String,
    /// Bodies of the logins for a service token and for a batch token.
    approle: [Value; 2],
    jwt: [Value; 2],
}

impl Prepared {
    pub fn of(root: &Client) -> Self {
        mounts(root);
        let token = token(root);
        Self { token, approle: approle(root), jwt: jwt(root) }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        load::get(path, &self.token)
    }

    fn login(&self, mount: &str, body: &Value) -> Vec<u8> {
        load::post(&format!("auth/{mount}/login"), "", &body.to_string())
    }
}

/// Enables the mounts, and writes what the requests read.
fn mounts(root: &Client) {
    let secret = json!({ "user": "orders", "password": "correct horse battery staple" });
    for (path, version, reuse) in
        [("first", "1", "fresh"), ("second", "2", "fresh"), ("first-reuse", "1", "bounded")]
    {
        let options = json!({ "version": version, "instance_reuse": reuse });
        root.write(&format!("sys/mounts/{path}"), &json!({ "type": "kv", "options": options }))
            .expect(204);
    }
    root.write("first/orders", &secret).expect(204);
    root.write("first-reuse/orders", &secret).expect(204);
    root.write("second/data/orders", &json!({ "data": secret })).expect(200);
    let reusing = json!({ "type": "database", "options": { "instance_reuse": "bounded" } });
    root.write("sys/mounts/database-reuse", &reusing).expect(204);
    let statement =
        r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#;
    let role =
        json!({ "db_name": "orders", "creation_statements": [statement], "default_ttl": "1h" });
    for mount in ["database", "database-reuse"] {
        assert!(root.write(&format!("{mount}/roles/reader"), &role).status < 300);
    }
}

fn token(root: &Client) -> String {
    let rules = r#"path "first/*" { capabilities = ["read", "create", "update"] }
        path "first-reuse/*" { capabilities = ["read"] }
        path "second/data/*" { capabilities = ["read"] }
        path "database/roles/*" { capabilities = ["read"] }
        path "database-reuse/roles/*" { capabilities = ["read"] }"#;
    root.write("sys/policies/acl/reader", &json!({ "policy": rules })).expect(204);
    let token_request = json!({ "policies": ["reader"], "ttl": "10h" });
    let answer = root.write("auth/token/create", &token_request).expect(200);
    answer.body["auth"]["client_token"].as_str().expect("a token").to_owned()
}

/// Writes a role of `approle` for each kind of token, and returns a login of each role. The secret
/// ids have no limit of uses, so that a login writes only its token.
pub fn approle(root: &Client) -> [Value; 2] {
    ["service", "batch"].map(|kind| {
        let role = format!("auth/approle/role/{kind}");
        root.write(&role, &json!({ "token_type": kind, "token_ttl": "1h" })).expect(204);
        let role_id = root.read(&format!("{role}/role-id")).expect(200);
        let secret_id = root.write(&format!("{role}/secret-id"), &json!({})).expect(200);
        json!({
            "role_id": role_id.body["data"]["role_id"],
            "secret_id": secret_id.body["data"]["secret_id"],
        })
    })
}

/// Writes a key and a role of `jwt` for each kind of token, and returns a login of each role.
pub fn jwt(root: &Client) -> [Value; 2] {
    let signer = Signer::new("k1");
    let config = json!({ "jwt_validation_pubkeys": signer.certificate() });
    root.write("auth/jwt/config", &config).expect(204);
    let claims = json!({ "sub": "web", "aud": "bulkhead", "iat": now(), "exp": now() + 86_400 });
    let token = signer.token(&claims);
    ["service", "batch"].map(|kind| {
        let role = json!({
            "user_claim": "sub", "bound_audiences": "bulkhead", "token_type": kind,
            "token_ttl": "1h",
        });
        root.write(&format!("auth/jwt/role/{kind}"), &role).expect(204);
        json!({ "role": kind, "jwt": token })
    })
}
