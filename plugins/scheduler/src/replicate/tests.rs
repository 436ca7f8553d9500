//! Rounds of replication against an authoritative region on the test bed.

use crate::Scheduler;
use crate::fixture::{
    AUTHORITY, LOCAL, answer, call, continued, get, lists, page_of, prove, replica, replica_config,
    role, role_id, role_names, shows,
};
use crate::replication_round::{FAILING, REFUSED};
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::{Failure, FailureKind};
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
fn restricted_token_listing_deletes_nothing() {
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
fn token_weakened_during_listing_deletes_nothing() {
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
fn unchanged_list_does_not_delete_most_of_table() {
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
    assert!(bed.host.requests().len() <= 3);
    assert_eq!(role_names(&bed).len(), 10_000);
    let commits = bed.host.steps().iter().filter(|step| step.starts_with("checkpoint")).count();
    assert!((10..100).contains(&commits), "{commits}");
}

#[test]
fn policy_is_fetched_only_on_difference() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let rules = "namespace \"default\" { policy = \"write\" }";
    let stub = |hash: Option<&str>| json!([{"Name": "q", "Description": "d", "Hash": hash}]);
    let policy = json!({"Name": "q", "Description": "d", "Rules": rules});
    let route = format!("GET {AUTHORITY}/v1/acl/policy/q?region=global");
    bed.host.answer(&route, answer(200, 7, &policy));
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
    let route = |accessor: &str| format!("GET {AUTHORITY}/v1/acl/token/{accessor}?region=global");
    bed.host.answer(&route(&role_id(9)), answer(200, 7, &remote_token(secret)));
    bed.host.answer(&route(own["AccessorID"].as_str().unwrap()), answer(200, 7, &own));
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
fn replica_age_is_reported_and_bounded() {
    let bed = replica(&["a"]);
    prove(&bed, "management");
    lists(&bed, "roles", 0, 5, &json!([role(1, "a")]));
    round(&bed, "roles");
    bed.host.advance(7);
    let reply = call(&bed, "GET", "v1/acl/roles", &Value::Null);
    for name in ["X-Nomad-ReplicationAge", "X-Scheduler-ReplicationAge"] {
        let age = reply.headers.iter().find(|(key, _)| key == name);
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

/// Lets the region have this many policies, which are fetched one by one.
fn has_policies(bed: &TestBed<Scheduler>, index: u64, count: usize) {
    let name = |number: usize| format!("policy-{number:05}");
    let stubs: Vec<Value> =
        (0..count).map(|number| json!({"Name": name(number), "Hash": "x"})).collect();
    bed.host.answer(&page_of("policies", "", 2_000, ""), answer(200, index, &json!(stubs)));
    for number in 0..count {
        let rules = format!("namespace \"n-{number}\" {{ policy = \"read\" }}");
        let policy = json!({"Name": name(number), "Rules": rules});
        shows(bed, &format!("policy/{}", name(number)), 200, &policy);
    }
}

fn policy_count(bed: &TestBed<Scheduler>) -> usize {
    let listed: Vec<Value> = serde_json::from_str(&get(bed, "v1/acl/policies").1).unwrap();
    listed.len()
}

#[test]
fn policies_above_the_default_limits_arrive_in_rounds() {
    let bed = replica(&[]);
    bed.host.set_limits(CallLimits::DEFAULT);
    prove(&bed, "management");
    has_policies(&bed, 5, 100);
    let mut rounds = 0;
    while policy_count(&bed) < 100 {
        round(&bed, "policies");
        assert!(!failing_of(&bed, "policies"), "round {rounds}");
        rounds += 1;
        assert!(rounds < 9, "{} policies after {rounds} rounds", policy_count(&bed));
    }
    assert!(rounds > 1);
}

#[test]
fn policies_arrive_from_two_addresses_too() {
    let bed = replica(&[]);
    let other = "http://10.0.0.2:4646";
    let config = json!({
        "addresses": [other, AUTHORITY],
        "replication_token": replica_config()["replication_token"],
    });
    bed.write("config", &config).unwrap();
    bed.host.set_limits(CallLimits::DEFAULT);
    bed.host.answer(&format!("GET {AUTHORITY}/v1/status/leader"), answer(200, 1, &json!("")));
    prove(&bed, "management");
    has_policies(&bed, 5, 30);
    bed.host.requests();
    round(&bed, "policies");
    let probes = |url: &str| url.ends_with("/status/leader");
    let requests = bed.host.requests();
    assert_eq!(requests.iter().filter(|request| probes(&request.url)).count(), 2);
    assert!(policy_count(&bed) > 10, "{}", policy_count(&bed));
}

fn failing_of(bed: &TestBed<Scheduler>, table: &str) -> bool {
    bed.host.metric(&FAILING, table) > 0.5
}

#[test]
fn limits_below_one_record_are_a_failure() {
    let bed = replica(&["a"]);
    prove(&bed, "management");
    has_policies(&bed, 5, 3);
    for limits in [
        CallLimits { http_calls: 2, ..CallLimits::DEFAULT },
        CallLimits { http_bytes: 1 << 20, ..CallLimits::DEFAULT },
        CallLimits { storage_bytes: 1 << 20, ..CallLimits::DEFAULT },
    ] {
        bed.host.set_limits(limits);
        bed.host.steps();
        round(&bed, "policies");
        assert!(failing_of(&bed, "policies"), "{limits:?}");
        let steps = bed.host.steps().join("\n");
        assert!(steps.contains("http-calls=") && steps.contains("grant more"), "{steps}");
    }
    bed.host.set_limits(CallLimits { http_calls: 3, ..CallLimits::DEFAULT });
    // The first round removes the policy that the region lacks.
    for _ in 0..4 {
        round(&bed, "policies");
        assert!(!failing_of(&bed, "policies"));
    }
    assert_eq!(policy_count(&bed), 3);
}

#[test]
fn policies_without_a_hash_do_not_starve_others() {
    let bed = replica(&[]);
    bed.host.set_limits(CallLimits { http_calls: 7, ..CallLimits::DEFAULT });
    prove(&bed, "management");
    let name = |number: usize| format!("q-{number:02}");
    let stubs: Vec<Value> = (0..20).map(|number| json!({"Name": name(number)})).collect();
    bed.host.answer(&page_of("policies", "", 2_000, ""), answer(200, 5, &json!(stubs)));
    for number in 0..20 {
        let policy = json!({"Name": name(number), "Rules": ""});
        shows(&bed, &format!("policy/{}", name(number)), 200, &policy);
    }
    for _ in 0..5 {
        round(&bed, "policies");
    }
    assert_eq!(policy_count(&bed), 20);
}

#[test]
fn a_round_that_fails_keeps_its_records() {
    let bed = replica(&[]);
    prove(&bed, "management");
    has_policies(&bed, 5, 350);
    let stubs = |count: usize| -> Vec<Value> {
        let name = |number: usize| json!({"Name": format!("policy-{number:05}"), "Hash": "x"});
        (0..count).map(name).collect()
    };
    let list = answer(200, 5, &json!(stubs(351)));
    bed.host.answer(&page_of("policies", "", 2_000, ""), list);
    round(&bed, "policies");
    bed.host.advance(1);
    // The region does not answer for the last policy.
    round(&bed, "policies");
    assert!(failing_of(&bed, "policies"));
    assert_eq!(policy_count(&bed), 350);
}

#[test]
fn a_stopped_round_counts_as_a_failure() {
    let bed = replica(&[]);
    // A stopped call cannot set the gauge itself: before the first success the gauge is 1.
    bed.host.refuse("scan", Failure::new(FailureKind::Internal, "stopped"));
    prove(&bed, "management");
    lists(&bed, "roles", 0, 5, &json!([]));
    bed.host.advance(1);
    bed.wake("replicate/roles", 1).unwrap_err();
    assert!(failing(&bed));
    bed.wake("replicate/roles", 2).unwrap();
    assert!(!failing(&bed));
    bed.host.advance(1);
    bed.host.refuse("scan", Failure::new(FailureKind::Internal, "stopped"));
    bed.host
        .answer(&page_of("roles", "&index=5&wait=10000ms", 2_000, ""), answer(200, 5, &json!([])));
    bed.wake("replicate/roles", 1).unwrap_err();
    bed.host.refuse("scan", Failure::new(FailureKind::Internal, "stopped"));
    bed.wake("replicate/roles", 2).unwrap_err();
    assert!(failing(&bed));
}

#[test]
fn a_list_in_pages_is_read_whole() {
    let bed = replica(&["gone"]);
    prove(&bed, "management");
    let first = answer(200, 5, &json!([role(1, "a"), role(2, "b")]));
    bed.host.answer(&page_of("roles", "", 2_000, ""), continued(first, &role_id(2)));
    let second = answer(200, 5, &json!([role(3, "c")]));
    bed.host.answer(&page_of("roles", "", 2_000, &role_id(2)), second);
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a", "b", "c"]);
}

#[test]
fn too_large_pages_are_requested_smaller() {
    let bed = replica(&[]);
    prove(&bed, "management");
    bed.host.answer(&page_of("roles", "", 2_000, ""), answer(502, 0, &json!("too large")));
    bed.host.answer(&page_of("roles", "", 200, ""), answer(200, 5, &json!([role(1, "a")])));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["a"]);
}

#[test]
fn moving_lists_delete_only_records_that_are_gone() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let all: Vec<Value> = (1..4).map(|number| role(number, &format!("r-{number}"))).collect();
    lists(&bed, "roles", 0, 5, &json!(all));
    round(&bed, "roles");
    let wait = "&index=5&wait=10000ms";
    let first = answer(200, 6, &json!([role(1, "r-1")]));
    bed.host.answer(&page_of("roles", wait, 2_000, ""), continued(first, &role_id(1)));
    bed.host.answer(&page_of("roles", "", 2_000, &role_id(1)), answer(200, 7, &json!([])));
    shows(&bed, &format!("role/{}", role_id(2)), 404, &Value::Null);
    shows(&bed, &format!("role/{}", role_id(3)), 200, &role(3, "r-3"));
    round(&bed, "roles");
    assert_eq!(role_names(&bed), ["r-1", "r-3"]);
}

#[test]
fn a_list_without_an_end_is_a_failure() {
    let bed = replica(&["a"]);
    prove(&bed, "management");
    for begin in ["", "x"] {
        let page = continued(answer(200, 5, &json!([])), "x");
        bed.host.answer(&page_of("roles", "", 2_000, begin), page);
    }
    round(&bed, "roles");
    assert!(failing(&bed));
    assert_eq!(role_names(&bed), ["a"]);
}

#[test]
fn expired_token_is_not_fetched_each_round() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let own: Value = serde_json::from_str(&get(&bed, "v1/acl/token/self").1).unwrap();
    shows(&bed, &format!("token/{}", own["AccessorID"].as_str().unwrap()), 200, &own);
    let mut token = remote_token("77777777-2222-4333-8444-555555555555");
    token["ExpirationTime"] = json!("2030-01-01T00:10:00Z");
    shows(&bed, &format!("token/{}", role_id(9)), 200, &token);
    lists(&bed, "tokens", 0, 5, &json!([token, own]));
    round(&bed, "tokens");
    assert!(bed.host.stored(&format!("token/{}", role_id(9))).is_some());
    // An hour after its creation the token is removed here; the region lists the token longer.
    bed.host.advance(3_700);
    bed.wake(&format!("expire/{}", role_id(9)), 1).unwrap();
    lists(&bed, "tokens", 5, 6, &json!([token, own]));
    bed.host.requests();
    round(&bed, "tokens");
    assert!(!bed.host.requests().iter().any(|request| request.url.contains(&role_id(9))));
    assert_eq!(bed.host.stored(&format!("token/{}", role_id(9))), None);
    lists(&bed, "tokens", 6, 7, &json!([own]));
    round(&bed, "tokens");
    assert_eq!(bed.host.stored(&format!("replica-token/{}", role_id(9))), None);
}

#[test]
fn thousands_of_tokens_replicate_within_commit_limits() {
    let bed = replica(&[]);
    prove(&bed, "management");
    let own: Value = serde_json::from_str(&get(&bed, "v1/acl/token/self").1).unwrap();
    shows(&bed, &format!("token/{}", own["AccessorID"].as_str().unwrap()), 200, &own);
    let mut all = vec![own];
    for number in 0..2_500 {
        let mut token = remote_token(&format!("77777777-2222-4333-8444-{number:012}"));
        token["AccessorID"] = json!(role_id(number));
        shows(&bed, &format!("token/{}", role_id(number)), 200, &token);
        all.push(token);
    }
    bed.host.answer(&page_of("tokens", "", 2_000, ""), answer(200, 5, &json!(all)));
    for _ in 0..3 {
        round(&bed, "tokens");
        assert!(!failing_of(&bed, "tokens"));
    }
    let tokens: Vec<Value> = serde_json::from_str(&get(&bed, "v1/acl/tokens").1).unwrap();
    assert_eq!(tokens.len(), 2_501);
    bed.host.answer(
        &page_of("tokens", "&index=5&wait=10000ms", 2_000, ""),
        answer(200, 6, &json!([all[0].clone()])),
    );
    round(&bed, "tokens");
    let tokens: Vec<Value> = serde_json::from_str(&get(&bed, "v1/acl/tokens").1).unwrap();
    assert_eq!(tokens.len(), 1);
}
