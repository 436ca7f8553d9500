//! Every endpoint, in the order in which an operator would use them: refused without a token, refused with
//! a weak one, served with the right one, and the answer compared with its golden file.
//!
//! `tidy` fails when a route has no row here. A row's name is its golden file: the path with its captures'
//! names, and the operation.

use crate::world::{CREATION, World};
use bulkhead_tests::Client;
use bulkhead_tests::golden::assert_golden;
use bulkhead_tests::operators::{self, Operators, seal_status};
use serde_json::{Value, json};

/// One endpoint. `{lease}` and `{token}` in path and body stand for the latest ones that were given.
struct Row {
    golden: &'static str,
    path: &'static str,
    body: Value,
    status: u16,
}

fn row(golden: &'static str, path: &'static str, body: Value, status: u16) -> Row {
    Row { golden, path, body, status }
}

impl Row {
    fn method(&self) -> &'static str {
        match self.golden.rsplit_once('.') {
            Some((_, "read")) => "GET",
            Some((_, "write")) => "POST",
            Some((_, "list")) => "LIST",
            Some((_, "delete")) => "DELETE",
            _ => panic!("{} does not end in its operation", self.golden),
        }
    }

    /// Served to everyone.
    fn is_open(&self) -> bool {
        let open = ["sys-health", "sys-seal-status", "sys-init", "sys-unseal", "sys-leader"];
        self.golden.rsplit_once('.').is_some_and(|(name, _)| open.contains(&name))
    }

    /// About the caller's own token, which the root token is not meant for.
    fn is_about_self(&self) -> bool {
        self.golden.contains("-self.")
    }
}

/// The latest lease and token, filled in where a row names them.
#[derive(Default)]
struct Latest {
    lease: String,
    token: String,
}

impl Latest {
    fn fill(&self, text: &str) -> String {
        text.replace("{lease}", &self.lease).replace("{token}", &self.token)
    }

    fn remember(&mut self, body: &Value) {
        let texts = [(&mut self.lease, &body["lease_id"]), (&mut self.token, &body["auth"]["client_token"])];
        for (slot, found) in texts {
            if let Some(found) = found.as_str().filter(|found| !found.is_empty()) {
                *slot = found.to_owned();
            }
        }
    }
}

fn send(client: &Client, row: &Row, latest: &Latest) -> bulkhead_tests::Answer {
    let body = if row.body.is_null() { String::new() } else { latest.fill(&row.body.to_string()) };
    client.send(row.method(), &latest.fill(row.path), body.as_bytes())
}

fn database_rows(world: &World) -> Vec<Row> {
    let role = json!({ "db_name": "orders", "creation_statements": CREATION, "default_ttl": "1h", "max_ttl": "24h" });
    vec![
        row("database-config-name.write", "database/config/orders", world.connection(), 200),
        row("database-config-name.read", "database/config/orders", Value::Null, 200),
        row("database-config.list", "database/config", Value::Null, 200),
        row("database-reset-name.write", "database/reset/orders", json!({}), 204),
        row("database-roles-name.write", "database/roles/reader", role, 204),
        row("database-roles-name.read", "database/roles/reader", Value::Null, 200),
        row("database-roles.list", "database/roles", Value::Null, 200),
        row("database-creds-name.read", "database/creds/reader", Value::Null, 200),
        row("sys-leases-lookup.write", "sys/leases/lookup", json!({ "lease_id": "{lease}" }), 200),
        row("sys-leases-renew.write", "sys/leases/renew", json!({ "lease_id": "{lease}", "increment": 7200 }), 200),
        row("sys-renew.write", "sys/renew", json!({ "lease_id": "{lease}" }), 200),
        row("sys-leases-renew-id.write", "sys/leases/renew/{lease}", json!({}), 200),
        row("sys-renew-id.write", "sys/renew/{lease}", json!({ "increment": "3h" }), 200),
        row("sys-leases-revoke.write", "sys/leases/revoke", json!({ "lease_id": "{lease}" }), 204),
        row("sys-revoke.write", "sys/revoke", json!({ "lease_id": "{lease}" }), 204),
        row("sys-leases-revoke-id.write", "sys/leases/revoke/{lease}", json!({ "sync": true }), 204),
        row("sys-revoke-id.write", "sys/revoke/{lease}", json!({}), 204),
        row("database-roles-name.delete", "database/roles/reader", Value::Null, 204),
        row("database-config-name.delete", "database/config/orders", Value::Null, 204),
    ]
}

fn token_rows() -> Vec<Row> {
    let child =
        json!({ "policies": ["operator"], "ttl": "1h", "display_name": "night shift", "meta": { "team": "ops" } });
    vec![
        row("auth-token-create.write", "auth/token/create", child, 200),
        row("auth-token-lookup-self.read", "auth/token/lookup-self", Value::Null, 200),
        row("auth-token-lookup-self.write", "auth/token/lookup-self", json!({}), 200),
        row("auth-token-lookup.read", "auth/token/lookup", Value::Null, 200),
        row("auth-token-lookup.write", "auth/token/lookup", json!({ "token": "{token}" }), 200),
        row("auth-token-renew.write", "auth/token/renew", json!({ "token": "{token}", "increment": "3h" }), 200),
        row("auth-token-revoke.write", "auth/token/revoke", json!({ "token": "{token}" }), 204),
        row("sys-capabilities-self.write", "sys/capabilities-self", json!({ "paths": ["database/config/x"] }), 200),
        row("auth-token-renew-self.write", "auth/token/renew-self", json!({ "increment": "2h" }), 200),
        row("auth-token-revoke-self.write", "auth/token/revoke-self", json!({}), 204),
    ]
}

fn system_rows() -> Vec<Row> {
    let policy = json!({ "policy": r#"path "database/creds/reader" { capabilities = ["read"] }"# });
    let rules = json!({ "rules": r#"path "database/roles/*" { capabilities = ["create", "update"] }"# });
    vec![
        row("sys-health.read", "sys/health", Value::Null, 200),
        row("sys-seal-status.read", "sys/seal-status", Value::Null, 200),
        row("sys-mounts.read", "sys/mounts", Value::Null, 200),
        row("sys-mounts-path.write", "sys/mounts/warehouse", json!({ "type": "database" }), 204),
        row("sys-mounts-path.read", "sys/mounts/warehouse", Value::Null, 200),
        row("sys-policies-acl-name.write", "sys/policies/acl/readers", policy, 204),
        row("sys-policies-acl-name.read", "sys/policies/acl/readers", Value::Null, 200),
        row("sys-policies-acl.list", "sys/policies/acl", Value::Null, 200),
        row("sys-policies-acl-name.delete", "sys/policies/acl/readers", Value::Null, 204),
        row("sys-policy-name.write", "sys/policy/writers", rules, 204),
        row("sys-policy-name.read", "sys/policy/writers", Value::Null, 200),
        row("sys-policy.read", "sys/policy", Value::Null, 200),
        row("sys-policy.list", "sys/policy", Value::Null, 200),
        row("sys-policy-name.delete", "sys/policy/writers", Value::Null, 204),
    ]
}

/// Of a server that is open; the last one closes it.
fn operator_rows() -> Vec<Row> {
    vec![
        row("sys-leader.read", "sys/leader", Value::Null, 200),
        row("sys-key-status.read", "sys/key-status", Value::Null, 200),
        row("sys-rotate.write", "sys/rotate", json!({}), 204),
        row("sys-rotate-keyring.write", "sys/rotate/keyring", json!({}), 204),
        row("sys-step-down.write", "sys/step-down", json!({}), 204),
        row("sys-seal.write", "sys/seal", json!({}), 204),
    ]
}

/// A token that may do everything by policy, not by being root.
const OPERATOR: &str = r#"path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }"#;

fn walk(world: &World, rows: &[Row]) {
    let nobody = world.bulkhead.client(None);
    let weak = world.weak();
    let operator = world.client_with("operator", OPERATOR);
    let mut latest = Latest::default();
    for row in rows {
        if !row.is_open() {
            for (who, client) in [("no token", &nobody), ("a weak token", &weak)] {
                let refused = send(client, row, &latest);
                assert_eq!(refused.status, 403, "{} with {who}: {refused:?}", row.golden);
                assert!(refused.errors().contains("permission denied"), "{} with {who}: {refused:?}", row.golden);
            }
        }
        let served = send(if row.is_about_self() { &operator } else { &world.root }, row, &latest);
        let served = served.expect(row.status);
        assert_golden(row.golden, &served);
        latest.remember(&served.body);
    }
}

#[test]
fn the_database_engine_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &database_rows(&world));
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn tokens_answer_as_agreed() {
    let world = World::empty();
    walk(&world, &token_rows());
}

#[test]
fn the_system_answers_as_agreed() {
    let world = World::empty();
    walk(&world, &system_rows());
}

#[test]
fn what_operators_ask_of_an_open_server_is_answered_as_agreed() {
    let world = World::empty();
    walk(&world, &operator_rows());
    assert_eq!(seal_status(&world.bulkhead)["sealed"], true);
}

/// The rows that make a server: nobody has a token yet.
#[test]
fn a_server_is_initialised_and_opened_with_the_answers_agreed() {
    let server = operators::uninitialised();
    let nobody = server.client(None);
    let ask = |row: &Row| {
        let served = send(&nobody, row, &Latest::default()).expect(row.status);
        assert_golden(row.golden, &served);
        served
    };
    ask(&row("sys-init.read", "sys/init", Value::Null, 200));
    let numbers = json!({ "secret_shares": 3, "secret_threshold": 2 });
    let operators = Operators::of(&ask(&row("sys-init.write", "sys/init", numbers, 200)).body, 2);
    ask(&row("sys-unseal.write", "sys/unseal", json!({ "key": operators.keys[0] }), 200));
}

#[test]
fn put_writes_as_post_does_and_get_lists_on_request() {
    let world = World::new();
    let body = json!({ "default_ttl": "2h" }).to_string();
    world.root.send("PUT", "database/roles/reader", body.as_bytes()).expect(204);
    assert_eq!(world.root.read("database/roles/reader").body["data"]["default_ttl"], 7200);
    let by_verb = world.root.list("database/roles").expect(200).body["data"].clone();
    let by_query = world.root.read("database/roles?list=true").expect(200).body["data"].clone();
    assert_eq!(by_verb, json!({ "keys": ["reader"] }));
    assert_eq!(by_query, by_verb);
}

#[test]
fn what_is_absent_is_404_without_a_word() {
    let world = World::empty();
    for path in ["database/config/nowhere", "database/roles/nobody"] {
        assert_eq!(world.root.read(path).expect(404).body, json!({ "errors": [] }));
        world.root.delete(path).expect(204);
    }
    for path in ["database/config", "database/roles"] {
        assert_eq!(world.root.list(path).expect(404).body, json!({ "errors": [] }));
    }
}

#[test]
fn an_update_keeps_what_it_does_not_name() {
    let world = World::new();
    world.root.write("database/roles/reader", &json!({ "max_ttl": "8h" })).expect(204);
    let role = world.root.read("database/roles/reader").expect(200);
    assert_eq!(role.body["data"]["default_ttl"], 3600);
    assert_eq!(role.body["data"]["max_ttl"], 8 * 3600);
    assert_eq!(role.body["data"]["creation_statements"], json!([CREATION]));
    let only_roles = json!({ "allowed_roles": ["reader"] });
    assert!(world.root.write("database/config/demo", &only_roles).status < 300);
    let connection = world.root.read("database/config/demo").expect(200);
    assert_eq!(connection.body["data"]["allowed_roles"], json!(["reader"]));
    assert_eq!(connection.body["data"]["connection_details"]["username"], "bulkhead");
    world.credential("reader");
}
