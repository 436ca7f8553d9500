//! Tokens of the scheduler: links, expiry, uploads and the bootstrap.

use super::{assert_refused, bed, role, secret, token};
use bulkhead_tests::scheduler::Scheduler;
use serde_json::{Value, json};

#[test]
fn a_second_bootstrap_needs_an_operators_reset() {
    let scheduler = Scheduler::start();
    let again = |body: &Value| scheduler.ask("PUT", "/v1/acl/bootstrap", "", body);
    assert_refused(&again(&Value::Null), 400, "ACL bootstrap already done (reset index: 1)");
    let weak = scheduler.server.client(None);
    weak.write("acl/bootstrap-reset", &json!({})).expect(403);
    scheduler.server.root().write("acl/bootstrap-reset", &json!({})).expect(204);
    let bad = again(&json!({ "BootstrapSecret": "nope" }));
    assert_refused(&bad, 400, "invalid acl token");
    let chosen = "cccccccc-0000-4000-8000-000000000001";
    let made = again(&json!({ "BootstrapSecret": chosen }));
    assert_eq!(made.json()["SecretID"], chosen);
    assert_eq!(again(&Value::Null).status, 400);
    scheduler.manage("GET", "/v1/acl/tokens", &Value::Null);
}

#[test]
fn links_follow_their_roles_and_a_deleted_role_grants_nothing() {
    let scheduler = bed();
    let made = role(&scheduler, "made");
    let client = token(&scheduler, &[&made]);
    assert_eq!(client["Roles"], json!([{ "ID": made["ID"], "Name": "made" }]));
    let path = format!("/v1/acl/role/{}", made["ID"].as_str().expect("an identifier"));
    let mut renamed = made.clone();
    renamed["Name"] = json!("renamed");
    scheduler.manage("PUT", &path, &renamed);
    let own = scheduler.ask("GET", "/v1/acl/token/self", secret(&client), &Value::Null);
    assert_eq!(own.json()["Roles"][0]["Name"], "renamed");
    scheduler.manage("DELETE", &path, &Value::Null);
    let own = scheduler.ask("GET", "/v1/acl/token/self", secret(&client), &Value::Null);
    assert_eq!(own.json()["Roles"], json!([]));
    let read = scheduler.ask("GET", &path, secret(&client), &Value::Null);
    assert_refused(&read, 403, "Permission denied");
}

#[test]
fn a_token_keeps_its_expiry_and_an_upload_refuses_a_used_secret() {
    let scheduler = bed();
    let given = json!({ "Name": "n", "Type": "client", "Policies": ["readonly"],
                        "ExpirationTTL": "10m" });
    let made = scheduler.manage("PUT", "/v1/acl/token", &given).json();
    assert_eq!(made["ExpirationTTL"], "10m0s");
    let accessor = made["AccessorID"].as_str().expect("an accessor");
    let path = format!("/v1/acl/token/{accessor}");
    let update = json!({ "AccessorID": accessor, "Name": "m", "Type": "client",
                         "Policies": ["readonly"] });
    let updated = scheduler.manage("PUT", &path, &update).json();
    assert_eq!(updated["ExpirationTime"], made["ExpirationTime"], "a missing field is unchanged");
    let upload = json!({ "AccessorID": "aaaaaaaa-0000-4000-8000-000000000001",
                         "SecretID": made["SecretID"], "Name": "u", "Type": "client",
                         "Policies": ["readonly"] });
    let answer = scheduler.ask("PUT", "/v1/acl/token", &scheduler.management, &upload);
    assert_eq!(answer.status, 400, "{}", answer.text());
    for (ttl, text) in
        [("25h", "more than 24h0m0s"), ("3s", "less than 1m0s"), ("soon", "not a duration")]
    {
        let mut given = given.clone();
        given["ExpirationTTL"] = json!(ttl);
        let answer = scheduler.ask("PUT", "/v1/acl/token", &scheduler.management, &given);
        assert!(answer.status == 400 && answer.text().contains(text), "{}", answer.text());
    }
}
