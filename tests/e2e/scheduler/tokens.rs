//! Tokens of the scheduler: links, expiry, uploads and the bootstrap.

use super::{assert_refused, bed, role, secret, token};
use bulkhead_tests::scheduler::Scheduler;
use serde_json::{Value, json};

#[test]
fn a_second_bootstrap_needs_an_operators_reset() {
    let scheduler = Scheduler::start();
    let again = |body: &Value| scheduler.ask("PUT", "/v1/acl/bootstrap", "", body);
    assert_refused(&again(&Value::Null), 400, &already_done(&scheduler));
    let weak = scheduler.server.client(None);
    weak.write("acl/bootstrap-reset", &json!({})).expect(403);
    scheduler.server.root().write("acl/bootstrap-reset", &json!({})).expect(204);
    let bad = again(&json!({ "BootstrapSecret": "nope" }));
    assert_refused(&bad, 400, "invalid acl token");
    let chosen = "cccccccc-0000-4000-8000-000000000001";
    let answer = again(&json!({ "BootstrapSecret": chosen }));
    assert_eq!(answer.json()["SecretID"], chosen);
    assert!(answer.index() > 2, "the second bootstrap follows the first and the reset");
    let text = format!("ACL bootstrap already done (reset index: {})", answer.index());
    assert_refused(&again(&Value::Null), 400, &text);
    scheduler.manage("GET", "/v1/acl/tokens", &Value::Null);
}

/// Returns the refusal of a second bootstrap, with the index of the first management token.
fn already_done(scheduler: &Scheduler) -> String {
    let own = scheduler.manage("GET", "/v1/acl/token/self", &Value::Null).json();
    format!("ACL bootstrap already done (reset index: {})", own["CreateIndex"])
}

#[test]
fn refused_bootstrap_names_the_index_of_the_first() {
    let scheduler = Scheduler::before_bootstrap();
    let config = json!({ "region": "west" });
    scheduler.server.root().write("acl/config", &config).expect(204);
    let bootstrap = || scheduler.ask("PUT", "/v1/acl/bootstrap", "", &Value::Null);
    let first = bootstrap();
    assert!(first.index() > 1, "the configuration was written before: {}", first.index());
    assert_eq!(first.json()["CreateIndex"], first.index());
    let secret = first.json()["SecretID"].as_str().expect("a secret").to_owned();
    let policy = json!({ "Name": "p", "Rules": super::RULES });
    assert_eq!(scheduler.ask("PUT", "/v1/acl/policy/p", &secret, &policy).status, 200);
    let text = format!("ACL bootstrap already done (reset index: {})", first.index());
    assert_refused(&bootstrap(), 400, &text);
}

#[test]
fn pages_continue_after_deletion_of_named_token() {
    let scheduler = bed();
    for _ in 0..5 {
        token(&scheduler, &[]);
    }
    let listed = |query: &str| {
        let path = format!("/v1/acl/tokens?{query}");
        let page = scheduler.manage("GET", &path, &Value::Null);
        let stubs = page.json().as_array().expect("a list").clone();
        let accessor = |stub: &Value| stub["AccessorID"].as_str().expect("an id").to_owned();
        let next = page.header("x-nomad-nexttoken").map(str::to_owned);
        (stubs.iter().map(accessor).collect::<Vec<_>>(), next)
    };
    let own = scheduler.manage("GET", "/v1/acl/token/self", &Value::Null).json();
    for order in ["stale", "reverse=true", "global=true"] {
        for _ in 0..3 {
            let global = json!({ "Name": "g", "Type": "client", "Policies": ["readonly"],
                                 "Global": true });
            scheduler.manage("PUT", "/v1/acl/token", &global);
        }
        let (accessors, _) = listed(order);
        // The second page begins with a token that the test may delete.
        let size = if own["AccessorID"] == accessors[2] { 3 } else { 2 };
        let next = listed(&format!("{order}&per_page={size}")).1.expect("a second page");
        let named = &accessors[size];
        assert!(next.ends_with(named.as_str()), "{next} names {named}");
        scheduler.manage("DELETE", &format!("/v1/acl/token/{named}"), &Value::Null);
        let (rest, _) = listed(&format!("{order}&next_token={next}"));
        assert_eq!(rest, accessors[size + 1..], "{order}");
    }
    assert_eq!(listed("next_token=zzz").0, Vec::<String>::new());
}

#[test]
fn links_follow_roles_and_deleted_role_grants_nothing() {
    let scheduler = bed();
    let created_role = role(&scheduler, "made");
    let client = token(&scheduler, &[&created_role]);
    assert_eq!(client["Roles"], json!([{ "ID": created_role["ID"], "Name": "made" }]));
    let path = format!("/v1/acl/role/{}", created_role["ID"].as_str().expect("an identifier"));
    let mut renamed = created_role.clone();
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
fn token_keeps_expiry_and_upload_refuses_used_secret() {
    let scheduler = bed();
    let given = json!({ "Name": "n", "Type": "client", "Policies": ["readonly"],
                        "ExpirationTTL": "10m" });
    let created_token = scheduler.manage("PUT", "/v1/acl/token", &given).json();
    assert_eq!(created_token["ExpirationTTL"], "10m0s");
    let accessor = created_token["AccessorID"].as_str().expect("an accessor");
    let path = format!("/v1/acl/token/{accessor}");
    let update = json!({ "AccessorID": accessor, "Name": "m", "Type": "client",
                         "Policies": ["readonly"] });
    let updated = scheduler.manage("PUT", &path, &update).json();
    assert_eq!(
        updated["ExpirationTime"], created_token["ExpirationTime"],
        "a missing field is unchanged"
    );
    let upload = json!({ "AccessorID": "aaaaaaaa-0000-4000-8000-000000000001",
                         "SecretID": created_token["SecretID"], "Name": "u", "Type": "client",
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
