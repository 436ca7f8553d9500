//! AppRole logins with role ids and secret ids, with the requests of published clients.

use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// Refusal of each login that proves nothing.
const INVALID: &str = "invalid role or secret ID";
/// Refusal of an accessor that the role does not have.
const NO_ACCESSOR: &str = "has no secret id with this secret_id_accessor";
/// Refusal of a login from an address outside of the bound networks.
const NOT_FROM_HERE: &str = "this login may not come from your address";

/// A dev server with the method at `auth/approle` and the role `web`.
struct AppRoleStage {
    server: Bulkhead,
    root: Client,
    role_id: String,
}

impl AppRoleStage {
    fn new(role: &Value) -> Self {
        let server = Bulkhead::start();
        let root = server.root();
        root.write("auth/approle/role/web", role).expect(204);
        let shown = root.read("auth/approle/role/web/role-id").expect(200);
        let role_id = shown.text("role_id").to_owned();
        Self { server, root, role_id }
    }

    fn secret_id(&self, fields: &Value) -> Answer {
        self.root.write("auth/approle/role/web/secret-id", fields).expect(200)
    }

    fn login(&self, secret_id: &str) -> Answer {
        log_in(&self.server.client(None), &self.role_id, secret_id)
    }
}

fn log_in(stranger: &Client, role_id: &str, secret_id: &str) -> Answer {
    let body = json!({ "role_id": role_id, "secret_id": secret_id });
    stranger.write("auth/approle/login", &body)
}

#[test]
fn machine_logs_in_and_token_follows_role() {
    let stage = AppRoleStage::new(&json!({ "token_policies": "dev", "token_ttl": "1h" }));
    let answer = stage.secret_id(&json!({ "metadata": r#"{"owner": "web-canary"}"# }));
    let login = stage.login(answer.text("secret_id")).expect(200);
    let auth = &login.body["auth"];
    assert_eq!(auth["policies"], json!(["default", "dev"]));
    assert_eq!(auth["metadata"], json!({ "owner": "web-canary", "role_name": "web" }));
    let machine = stage.server.client(auth["client_token"].as_str());
    let shown = machine.read("auth/token/lookup-self").expect(200).body["data"].clone();
    assert_eq!(
        (&shown["display_name"], &shown["path"]),
        (&json!("approle"), &json!("auth/approle/login"))
    );
    machine.write("auth/token/renew-self", &json!({})).expect(200);
    stage.root.write("auth/approle/role/web/policies", &json!({ "policies": "ops" })).expect(204);
    let renewal = machine.write("auth/token/renew-self", &json!({}));
    renewal.refused(400, "the policies of this login have changed");
    stage.root.delete("auth/approle/role/web").expect(204);
    let renewal = machine.write("auth/token/renew-self", &json!({}));
    renewal.refused(400, "role \"web\" does not exist");
    assert_eq!(stage.login(answer.text("secret_id")).expect(400).errors(), INVALID);
    let audit = std::fs::read_to_string(stage.server.data().join("audit.log"));
    let audit = audit.expect("dev mode audits to its folder");
    assert!(audit.contains("auth/approle/login") && !audit.contains(answer.text("secret_id")));
}

#[test]
fn fifty_concurrent_logins_consume_exactly_ten_uses() {
    let stage = AppRoleStage::new(&json!({ "secret_id_num_uses": 10 }));
    let answer = stage.secret_id(&json!({}));
    let secret_id = answer.text("secret_id");
    let login = || stage.login(secret_id);
    let answers: Vec<Answer> = thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(login)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let (served, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(served.len(), 10);
    refused.into_iter().for_each(|refused| drop(refused.refused(400, INVALID)));
    stage.root.list("auth/approle/role/web/secret-id").expect(404);
}

#[test]
fn expired_secret_id_is_refused_and_removed_automatically() {
    let stage = AppRoleStage::new(&json!({ "secret_id_ttl": 1 }));
    let answer = stage.secret_id(&json!({}));
    let listed = || stage.root.list("auth/approle/role/web/secret-id").status;
    until_true("the secret id is removed", Duration::from_secs(30), || listed() == 404);
    stage.login(answer.text("secret_id")).refused(400, INVALID);
    let accessor = json!({ "secret_id_accessor": answer.text("secret_id_accessor") });
    let path = "auth/approle/role/web/secret-id-accessor/lookup";
    stage.root.write(path, &accessor).refused(404, NO_ACCESSOR);
}

#[test]
fn role_cannot_read_or_remove_foreign_secret_id() {
    let stage = AppRoleStage::new(&json!({}));
    stage.root.write("auth/approle/role/ops", &json!({})).expect(204);
    let answer = stage.secret_id(&json!({}));
    let accessor = json!({ "secret_id_accessor": answer.text("secret_id_accessor") });
    let secret_id = json!({ "secret_id": answer.text("secret_id") });
    for act in ["lookup", "destroy"] {
        let by = |how| format!("auth/approle/role/ops/{how}/{act}");
        stage.root.write(&by("secret-id-accessor"), &accessor).refused(404, NO_ACCESSOR);
        stage.root.write(&by("secret-id"), &secret_id).expect(204);
    }
    stage.login(answer.text("secret_id")).expect(200);
    let path = "auth/approle/role/web/secret-id-accessor/destroy";
    stage.root.write(path, &accessor).expect(204);
    stage.login(answer.text("secret_id")).refused(400, INVALID);
}

#[test]
fn secret_id_bound_to_other_networks_is_refused() {
    let stage = AppRoleStage::new(&json!({}));
    let elsewhere = stage.secret_id(&json!({ "cidr_list": ["192.0.2.0/24"], "num_uses": 1 }));
    stage.login(elsewhere.text("secret_id")).refused(403, NOT_FROM_HERE);
    let here = stage.secret_id(&json!({ "cidr_list": ["127.0.0.0/8", "::1"], "num_uses": 1 }));
    stage.login(here.text("secret_id")).expect(200);
    stage.login(here.text("secret_id")).refused(400, INVALID);
}

#[test]
fn narrowed_role_binds_earlier_secret_ids_and_tokens() {
    let stage = AppRoleStage::new(&json!({}));
    let fields = json!({ "token_bound_cidrs": ["127.0.0.0/8", "192.0.2.0/24"] });
    let answer = stage.secret_id(&fields);
    let login = || stage.login(answer.text("secret_id"));
    let machine = stage.server.client(login().expect(200).body["auth"]["client_token"].as_str());
    let role = |networks: &str| {
        let narrowed = json!({ "token_bound_cidrs": networks });
        stage.root.write("auth/approle/role/web", &narrowed).expect(204);
    };
    role("127.0.0.1/32,10.0.0.0/8");
    machine.write("auth/token/renew-self", &json!({})).expect(200);
    let shown = machine.read("auth/token/lookup-self").expect(200);
    assert_eq!(shown.body["data"]["bound_cidrs"], json!(["127.0.0.1"]));
    role("192.0.2.0/24");
    login().refused(403, NOT_FROM_HERE);
    let renewal = machine.write("auth/token/renew-self", &json!({}));
    renewal.refused(400, "no address is in both");
    role("10.0.0.0/8");
    let refused = login().expect(403);
    assert!(refused.errors().contains("outside of the role's token_bound_cidrs"), "{refused:?}");
}

#[test]
fn guesses_do_not_lock_a_role() {
    let stage = AppRoleStage::new(&json!({}));
    let answer = stage.secret_id(&json!({}));
    for _ in 0..8 {
        stage.login("9b0f2a70-0000-4000-8000-000000000000").refused(400, INVALID);
    }
    stage.login(answer.text("secret_id")).expect(200);
}

pub(super) fn bad_role_settings_are_refused_and_not_stored() {
    let stage = AppRoleStage::new(&json!({ "secret_id_num_uses": 2, "secret_id_ttl": 60 }));
    let before = stage.root.read("auth/approle/role/web").expect(200).body["data"].clone();
    for (path, body, status, says) in [
        ("role/bad", json!({ "bind_secret_id": false }), 400, "at least one constraint"),
        ("role/bad", json!({ "secret_id_bound_cidrs": "here" }), 400, "secret_id_bound_cidrs"),
        ("role/bad", json!({ "secret_id_num_uses": "many" }), 400, "secret_id_num_uses"),
        ("role/bad", json!({ "role_id": stage.role_id }), 400, "in use by another role"),
        ("role/WEB", json!({ "token_ttl": 1 }), 400, "lower case"),
        ("role/web", json!({ "local_secret_ids": true }), 400, "when the role is created"),
        ("role/web/secret-id", json!({ "num_uses": 3 }), 400, "num_uses cannot be 3"),
        ("role/web/secret-id", json!({ "ttl": 0 }), 400, "ttl cannot be 0"),
        ("role/web/secret-id", json!({ "metadata": [1] }), 400, "metadata"),
        ("role/web/secret-id", json!({ "cidr_list": "10.0.0.0/33" }), 400, "cidr_list"),
        ("role/web/custom-secret-id", json!({ "secret_id": "short" }), 400, "5 bytes"),
        ("role/none/secret-id", json!({}), 404, "there is no role"),
        ("role/web/secret-id/lookup", json!({}), 400, "secret_id is required"),
        ("login", json!({}), 400, "role_id is required"),
        ("login", json!({ "role_id": [["a"]] }), 400, "role_id"),
        ("login", json!({ "role_id": stage.role_id }), 400, "invalid role or secret ID"),
        ("login", json!({ "role_id": "../web", "secret_id": "a" }), 400, "invalid role"),
    ] {
        let answer = stage.root.write(&format!("auth/approle/{path}"), &body);
        answer.refused(status, says);
    }
    assert_eq!(stage.root.list("auth/approle/role").body["data"]["keys"], json!(["web"]));
    assert_eq!(stage.root.read("auth/approle/role/web").body["data"], before);
    stage.root.list("auth/approle/role/web/secret-id").expect(404);
}
