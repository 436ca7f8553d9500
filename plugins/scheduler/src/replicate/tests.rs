//! Rounds of replication against an authoritative region on the test bed.

use super::{FAILING, REFUSED};
use crate::Scheduler;
use crate::fixture::{
    AUTHORITY, LOCAL, answer, call, get, lists, prove, replica, role, role_id, role_names,
};
use bulkhead_sdk::testbed::TestBed;
use serde_json::{Value, json};

fn round(bed: &TestBed<Scheduler>, table: &str) {
    bed.host.advance(1);
    bed.wake(&format!("replicate/{table}"), 1).unwrap();
}

fn failing(bed: &TestBed<Scheduler>) -> bool {
    bed.host.metric(&FAILING, "roles") > 0.5
}

#[test]
fn roles_are_created_changed_renamed_and_deleted() {
    let bed = replica(&[]);
    prove(&bed, "management");
    lists(&bed, "roles", 0, 5, &json!([role(1, "a"), role(2, "b")]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a", "b"]);
    lists(&bed, "roles", 5, 6, &json!([role(1, "c")]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["c"]);
    assert_eq!(get(&bed, "v1/acl/role/name/a"), (404, "ACL role not found".to_owned()));
    assert_eq!(get(&bed, "v1/acl/role/name/c").0, 200);
    assert!(bed.host.timer("replicate/roles").is_some() && !failing(&bed));
}

#[test]
fn nothing_is_deleted_for_a_token_that_sees_little() {
    let bed = replica(&["a", "b"]);
    lists(&bed, "roles", 0, 5, &json!([]));
    round(&bed, "roles");
    prove(&bed, "client");
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a", "b"]);
    assert!(failing(&bed));
    assert!(bed.host.metric(&REFUSED, "") > 0.5);
    assert!(bed.host.steps().iter().any(|step| step.contains("replication-failed")));
}

#[test]
fn nothing_is_deleted_if_the_token_is_weakened_during_the_listing() {
    let bed = replica(&["a", "b"]);
    prove(&bed, "management");
    prove(&bed, "client");
    lists(&bed, "roles", 0, 5, &json!([]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a", "b"]);
    assert!(failing(&bed));
    prove(&bed, "management");
    prove(&bed, "management");
    round(&bed, "roles");
    round(&bed, "roles");
    assert_eq!(role_names(&bed), Vec::<String>::new());
    assert!(!failing(&bed));
}

#[test]
fn most_of_a_table_is_not_deleted_by_a_list_that_did_not_change() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let all: Vec<Value> = (0..30).map(|number| role(number, &format!("r-{number}"))).collect();
    lists(&bed, "roles", 0, 5, &json!(all));
    round(&bed, "roles");
    lists(&bed, "roles", 5, 5, &json!([]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed).len(), 30);
    assert!(failing(&bed));
}

#[test]
fn names_are_exchanged_in_one_round() {
    let bed = replica(&[]);
    prove(&bed, "management");
    lists(&bed, "roles", 0, 5, &json!([role(1, "a"), role(2, "b"), role(3, "c")]));
    round(&bed, "roles");
    lists(&bed, "roles", 5, 9, &json!([role(1, "b"), role(2, "c"), role(3, "a")]));
    round(&bed, "roles");
    for (name, number) in [("b", 1), ("c", 2), ("a", 3)] {
        let (status, body) = get(&bed, &format!("v1/acl/role/name/{name}"));
        assert_eq!(status, 200);
        assert!(body.contains(&role_id(number)), "{name}: {body}");
    }
    // The role was deleted and created again under the same name.
    lists(&bed, "roles", 9, 12, &json!([role(4, "a"), role(1, "b"), role(2, "c")]));
    round(&bed, "roles");
    assert!(get(&bed, "v1/acl/role/name/a").1.contains(&role_id(4)));
}

#[test]
fn a_region_that_was_restored_converges() {
    let bed = replica(&[]);
    prove(&bed, "management");
    lists(&bed, "roles", 0, 50, &json!([role(1, "new"), role(2, "b")]));
    round(&bed, "roles");
    lists(&bed, "roles", 50, 20, &json!([role(1, "old")]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["old"]);
    lists(&bed, "roles", 20, 21, &json!([role(1, "old"), role(3, "c")]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["c", "old"]);
}

#[test]
fn ten_thousand_roles_take_three_requests() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let all: Vec<Value> = (0..10_000).map(|number| role(number, &format!("r-{number}"))).collect();
    lists(&bed, "roles", 0, 5, &json!(all));
    bed.host.requests();
    round(&bed, "roles");
    assert_eq!(role_names(&bed).len(), 10_000);
    assert!(bed.host.requests().len() <= 3);
    let commits = bed.host.steps().iter().filter(|step| step.starts_with("checkpoint")).count();
    assert!((10..100).contains(&commits), "{commits}");
}

#[test]
fn a_policy_is_asked_for_only_where_it_differs() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let rules = "namespace \"default\" { policy = \"write\" }";
    let stub = |hash: Option<&str>| json!([{"Name": "q", "Description": "d", "Hash": hash}]);
    let whole = json!({"Name": "q", "Description": "d", "Rules": rules});
    let asked = format!("GET {AUTHORITY}/v1/acl/policy/q?region=global");
    bed.host.answer(&asked, answer(200, 7, &whole));
    lists(&bed, "policies", 0, 5, &stub(None));
    round(&bed, "policies");
    let (_, shown) = get(&bed, "v1/acl/policy/q");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["Rules"], rules);
    assert_eq!(get(&bed, "v1/acl/policy/p").0, 404);
    lists(&bed, "policies", 5, 6, &stub(shown["Hash"].as_str()));
    bed.host.requests();
    round(&bed, "policies");
    assert!(!bed.host.requests().iter().any(|request| request.url.contains("/policy/")));
    // A missing hash causes a fetch in each round, but no write.
    let before = shown["ModifyIndex"].clone();
    lists(&bed, "policies", 6, 7, &stub(None));
    round(&bed, "policies");
    let shown: Value = serde_json::from_str(&get(&bed, "v1/acl/policy/q").1).unwrap();
    assert_eq!(shown["ModifyIndex"], before);
}

fn remote_token(secret: &str) -> Value {
    json!({
        "AccessorID": role_id(9), "SecretID": secret, "Name": "t", "Type": "client",
        "Policies": ["p"], "Roles": null, "Global": true, "Hash": "h",
        "CreateTime": "2030-01-01T00:00:00.5Z", "ExpirationTime": null,
    })
}

#[test]
fn global_tokens_hold_here_and_local_ones_stay() {
    let bed = replica(&[]);
    let local = json!({"Name": "l", "Type": "client", "Policies": ["p"]});
    assert_eq!(call(&bed, "POST", "v1/acl/token", &local).status, 200);
    prove(&bed, "management");
    let secret = "77777777-2222-4333-8444-555555555555";
    // The bootstrap token of this region is global and stays in the list.
    let own: Value = serde_json::from_str(&get(&bed, "v1/acl/token/self").1).unwrap();
    let asked = |accessor: &str| format!("GET {AUTHORITY}/v1/acl/token/{accessor}?region=global");
    bed.host.answer(&asked(&role_id(9)), answer(200, 7, &remote_token(secret)));
    bed.host.answer(&asked(own["AccessorID"].as_str().unwrap()), answer(200, 7, &own));
    lists(&bed, "tokens", 0, 5, &json!([remote_token(""), own]));
    round(&bed, "tokens");
    let mut request = bed.raw_request("GET", "v1/acl/token/self", "");
    request.headers = vec![("x-nomad-token".to_owned(), secret.to_owned())];
    assert_eq!(bed.serve(&request).unwrap().status, 200);
    bed.host.requests();
    lists(&bed, "tokens", 5, 6, &json!([remote_token(""), own]));
    round(&bed, "tokens");
    assert!(!bed.host.requests().iter().any(|request| request.url.contains(&role_id(9))));
    lists(&bed, "tokens", 6, 8, &json!([own]));
    round(&bed, "tokens");
    assert_eq!(bed.serve(&request).unwrap().status, 403);
    let tokens: Vec<Value> = serde_json::from_str(&get(&bed, "v1/acl/tokens").1).unwrap();
    assert_eq!(tokens.len(), 2);
}

#[test]
fn a_replica_is_not_an_authoritative_region() {
    let bed = replica(&["a"]);
    let age = ("x-scheduler-replicationage".to_owned(), "5".to_owned());
    let mut own = answer(200, 1, &json!({"Type": "management"}));
    own.headers.push(age);
    bed.host.answer(&format!("GET {AUTHORITY}/v1/acl/token/self?region=global"), own);
    lists(&bed, "roles", 0, 5, &json!([]));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a"]);
    let steps = bed.host.steps().join("\n");
    assert!(steps.contains("replication-failed"), "{steps}");
    assert!(!steps.contains(LOCAL));
}

#[test]
fn the_age_of_a_replica_is_told_and_bounded() {
    let bed = replica(&["a"]);
    prove(&bed, "management");
    lists(&bed, "roles", 0, 5, &json!([role(1, "a")]));
    round(&bed, "roles");
    bed.host.advance(7);
    let reply = call(&bed, "GET", "v1/acl/roles", &Value::Null);
    for name in ["X-Nomad-ReplicationAge", "X-Scheduler-ReplicationAge"] {
        let age = reply.headers.iter().find(|(known, _)| known == name);
        assert_eq!(age.map(|(_, value)| value.as_str()), Some("7000"));
    }
    bed.write("config", &json!({"max_stale": "5s"})).unwrap();
    let (status, text) = get(&bed, "v1/acl/roles");
    assert_eq!(status, 500);
    assert!(text.contains("7000 ms old"), "{text}");
    bed.delete("config").unwrap();
    let reply = call(&bed, "GET", "v1/acl/roles", &Value::Null);
    assert!(!reply.headers.iter().any(|(name, _)| name.contains("Age")));
}
