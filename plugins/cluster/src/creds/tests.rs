//! Tests of issuing tokens on the test bed: the requests to the API server, their order, and the
//! cleanup after a refusal.

use crate::Cluster;
use crate::fixture::{
    OWN, accounts, answer, bindings, bound, bound_but, created, generated, generated_but, jwt,
    ready, refusal, roles, status_of, token,
};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::TestBed;
use bulkhead_sdk::{Failure, FailureKind, RevocationReason};
use serde_json::{Value, json};

fn body(sent: &[u8]) -> Value {
    serde_json::from_slice(sent).unwrap()
}

#[test]
fn mode_1_requests_token_and_nothing_else() {
    let bed = ready("one", &json!({"service_account_name": "app", "token_default_ttl": "15m"}));
    bed.host.answer(&format!("POST {}/app/token", accounts()), token(900));
    let reply = bed.write("creds/one", &json!({"audiences": "x, y"})).unwrap();
    assert_eq!(
        Value::Object(reply.data),
        json!({
            "service_account_name": "app", "service_account_namespace": "apps",
            "service_account_token": jwt(900),
        })
    );
    assert_eq!((reply.ttl, reply.lease, reply.warnings.len()), (900, None, 0));
    let sent = bed.host.requests();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        body(&sent[0].body)["spec"],
        json!({"audiences": ["x", "y"], "expirationSeconds": 900})
    );
    assert!(sent[0].safe && sent[0].secrets == [OWN]);
    assert!(sent[0].headers.contains(&("authorization".to_owned(), format!("Bearer {OWN}"))));
}

#[test]
fn mode_2_records_each_object_before_creation() {
    let bed = bound();
    let reply = bed.write("creds/two", &json!({})).unwrap();
    let (first, second) = (bindings(), accounts());
    let expected = vec![
        "reserve v-1 in https://api.example:6443".to_owned(),
        "checkpoint".to_owned(),
        format!("send POST {first}"),
        "amend v-1".to_owned(),
        "amend v-1".to_owned(),
        "checkpoint".to_owned(),
        format!("send POST {second}"),
        "amend v-1".to_owned(),
        "amend v-1".to_owned(),
        "checkpoint".to_owned(),
        format!("send POST {second}/v-1/token"),
    ];
    assert_eq!(bed.host.steps(), expected);
    assert_eq!((reply.ttl, reply.lease.as_deref()), (3_600, Some("v-1")));
    let sent = bed.host.requests();
    assert_eq!(body(&sent[0].body)["roleRef"]["name"], "pods");
    assert_eq!(body(&sent[1].body)["metadata"]["ownerReferences"][0]["uid"], "u-binding");
    let lease_data: Value = serde_json::from_str(&bed.lease("v-1").unwrap().internal).unwrap();
    assert_eq!(lease_data["objects"][0]["uid"], "u-binding");
    assert_eq!(lease_data["objects"][1]["uid"], "u-account");
}

#[test]
fn mode_3_creates_role_first_as_owner() {
    let bed = generated();
    bed.write("creds/three", &json!({})).unwrap();
    let sent = bed.host.requests();
    let urls: Vec<String> = sent.iter().map(|request| request.url.clone()).collect();
    assert_eq!(urls, [roles(), bindings(), accounts(), format!("{}/v-1/token", accounts())]);
    for dependent in &sent[1..3] {
        let owner = &body(&dependent.body)["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Role"), &json!("u-role")));
    }
    assert_eq!(body(&sent[1].body)["roleRef"]["name"], "v-1");
}

#[test]
fn refusal_between_objects_removes_created_objects_by_uid() {
    let forbidden = refusal(403, "serviceaccounts is forbidden: User \"x\" cannot create");
    let bed = generated_but(&[(format!("POST {}", accounts()), forbidden)]);
    let refused = bed.write("creds/three", &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("ServiceAccount apps/v-1: serviceaccounts is forbidden"));
    assert!(bed.host.lease_tags().is_empty());
    let removed = [(bindings(), "u-binding"), (roles(), "u-role")];
    assert_eq!(deleted(&bed), removed.map(|(path, uid)| (format!("{path}/v-1"), uid.to_owned())));
}

#[test]
fn a_refused_token_leaves_nothing() {
    let refused = refusal(403, "cannot create resource \"serviceaccounts/token\"");
    let bed = bound_but(&[(format!("POST {}/v-1/token", accounts()), refused)]);
    assert_eq!(bed.write("creds/two", &json!({})).err().unwrap().kind, FailureKind::InvalidRequest);
    assert!(bed.host.lease_tags().is_empty());
    assert_eq!(deleted(&bed).len(), 2);
}

#[test]
fn refused_first_object_is_neither_searched_nor_removed() {
    for (status, kind) in [
        (401, FailureKind::InvalidRequest),
        (403, FailureKind::InvalidRequest),
        (404, FailureKind::InvalidRequest),
        (409, FailureKind::InvalidRequest),
        (422, FailureKind::InvalidRequest),
        (429, FailureKind::RateLimited),
    ] {
        let bed = bound_but(&[(format!("POST {}", bindings()), refusal(status, "no"))]);
        assert_eq!(bed.write("creds/two", &json!({})).err().unwrap().kind, kind, "{status}");
        assert_eq!(bed.host.requests().len(), 1, "{status}");
        assert!(bed.host.lease_tags().is_empty(), "{status}");
    }
}

#[test]
fn possible_objects_are_found_by_mark_and_removed() {
    for lost in [
        answer(500, &json!({})),
        answer(504, &json!({"message": "Timeout"})),
        answer(302, &json!({})),
        answer(201, &json!([])),
        answer(201, &json!({"metadata": {"name": "v-1"}})),
        answer(201, &json!({"metadata": {"name": "v-1", "uid": "a b"}})),
        answer(201, &json!({"metadata": {"name": "v-1", "uid": "u".repeat(129)}})),
        answer(201, &json!({"metadata": {"name": "v-2", "uid": "u-1"}})),
        answer(201, &json!({"metadata": {"name": "v-1", "namespace": "x", "uid": "u-1"}})),
        Response { status: 201, body: b"<html>".to_vec(), ..Response::default() },
    ] {
        let found = there("u-found", MARK);
        let bed = bound_but(&[
            (format!("POST {}", bindings()), lost),
            (format!("GET {}/v-1", bindings()), answer(200, &found)),
        ]);
        let failed = bed.write("creds/two", &json!({})).err().unwrap();
        assert_eq!(failed.kind, FailureKind::Unreachable, "{}", failed.message);
        assert!(!failed.message.contains("html"), "{}", failed.message);
        assert_eq!(deleted(&bed), [(format!("{}/v-1", bindings()), "u-found".to_owned())]);
        assert!(bed.host.lease_tags().is_empty());
    }
}

#[test]
fn foreign_object_with_same_name_is_left_alone() {
    let theirs = there("u-theirs", "other");
    let bed = bound_but(&[
        (format!("POST {}", bindings()), answer(500, &json!({}))),
        (format!("GET {}/v-1", bindings()), answer(200, &theirs)),
    ]);
    assert!(bed.write("creds/two", &json!({})).is_err());
    assert!(deleted(&bed).is_empty() && bed.host.lease_tags().is_empty());
}

#[test]
fn unanswered_creation_is_searched_until_no_longer_possible() {
    let bed = bound_but(&[(
        format!("GET {}/v-1", bindings()),
        refusal(404, "rolebindings \"v-1\" not found"),
    )]);
    bed.host.refuse("send", Failure::new(FailureKind::TimedOut, "no answer"));
    assert_eq!(bed.write("creds/two", &json!({})).err().unwrap().kind, FailureKind::TimedOut);
    let waits = bed.revoke("v-1", RevocationReason::Undo).err().unwrap();
    assert_eq!(waits.kind, FailureKind::Unavailable);
    assert!(waits.retry_after.is_some_and(|after| after <= 65_000));
    bed.host.advance(65);
    bed.revoke("v-1", RevocationReason::Undo).unwrap();
    assert!(bed.host.lease_tags().is_empty());
}

#[test]
fn undo_after_crash_between_objects_removes_created_objects() {
    for (step, expected) in [("send", 1), ("amend", 1)] {
        let found = there("u-binding", MARK);
        let bed = bound_but(&[(format!("GET {}/v-1", bindings()), answer(200, &found))]);
        bed.host.die_after(step);
        assert!(bed.write("creds/two", &json!({})).is_err());
        for tag in bed.host.lease_tags() {
            bed.revoke(&tag, RevocationReason::Undo).unwrap();
        }
        assert_eq!(deleted(&bed).len(), expected, "{step}");
    }
}

#[test]
fn namespace_is_checked_before_use_in_path() {
    let wide = json!({"allowed_cluster_namespaces": "*", "service_account_name": "app"});
    let bed = ready("one", &wide);
    for namespace in ["x/secrets/y?", "../secrets", "apps%2Fsecrets", "a.b", "A", "*", "."] {
        let body = json!({"cluster_namespace": namespace});
        let refused = bed.write("creds/one", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
    }
    assert!(bed.write("creds/one", &json!({})).err().unwrap().message.contains("is required"));
    assert!(bed.host.requests().is_empty());
}

#[test]
fn namespace_is_allowed_by_list_or_labels() {
    let both = json!({
        "allowed_cluster_namespaces": "apps",
        "allowed_cluster_namespace_selector": "matchLabels: {team: blue}",
        "service_account_name": "app",
    });
    let bed = ready("one", &both);
    let place = |name: &str| format!("https://api.example:6443/api/v1/namespaces/{name}");
    let labelled = |team: &str| answer(200, &json!({"metadata": {"labels": {"team": team}}}));
    bed.host.answer(&format!("GET {}", place("sky")), labelled("blue"));
    bed.host.answer(&format!("GET {}", place("wine")), labelled("red"));
    bed.host
        .answer(&format!("GET {}", place("none")), refusal(404, "namespaces \"none\" not found"));
    for name in ["sky", "apps"] {
        let path = format!("{}/serviceaccounts/app/token", place(name));
        bed.host.answer(&format!("POST {path}"), token(3_600));
        let reply = bed.write("creds/one", &json!({"kubernetes_namespace": name})).unwrap();
        assert_eq!(reply.data["service_account_namespace"], name);
    }
    let reply = bed.write("creds/one", &json!({})).unwrap();
    assert_eq!(reply.data["service_account_namespace"], "apps", "the only one, selector or not");
    for (name, expected) in [("wine", "does not match"), ("none", "not found")] {
        let refused = bed.write("creds/one", &json!({"cluster_namespace": name})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains("match") || refused.message.contains(expected));
    }
}

#[test]
fn cluster_role_binding_requires_cluster_role() {
    let bed = bound();
    let request = json!({"cluster_role_binding": true});
    assert!(bed.write("creds/two", &request).err().unwrap().message.contains("ClusterRole"));
    assert!(bed.host.requests().is_empty());
    bed.write("roles/two", &json!({"cluster_role_type": "ClusterRole"})).unwrap();
    bed.host.requests();
    let place = "https://api.example:6443/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    bed.host.answer(&format!("POST {place}"), created("u-wide"));
    bed.write("creds/two", &request).unwrap();
    assert_eq!(body(&bed.host.requests()[0].body)["roleRef"]["kind"], "ClusterRole");
}

#[test]
fn requested_lifetime_below_cluster_minimum_is_accepted() {
    let bed = bound();
    let reply = bed.write("creds/two", &json!({"ttl": 60})).unwrap();
    assert_eq!(reply.ttl, 60);
    assert_eq!(body(&bed.host.requests()[2].body)["spec"]["expirationSeconds"], 600);
    assert!(reply.warnings[0].contains("ends with the lease"), "{:?}", reply.warnings);
}

#[test]
fn lease_lifetime_follows_token_claims() {
    let long = json!({"status": status_of(&jwt(31_536_000), 3_600)});
    let short = json!({"status": status_of(&jwt(1_800), 3_600)});
    for (status, ttl, expected) in [(long, 3_600, "longer"), (short, 1_800, "capped")] {
        let route = format!("POST {}/v-1/token", accounts());
        let bed = bound_but(&[(route, answer(201, &status))]);
        let reply = bed.write("creds/two", &json!({})).unwrap();
        assert_eq!(reply.ttl, ttl);
        assert!(reply.warnings[0].contains(expected), "{:?}", reply.warnings);
    }
}

#[test]
fn a_token_that_is_none_is_undone() {
    for body in [json!({}), json!({"status": null}), json!({"status": {"token": 1}}), json!("x")] {
        let route = format!("POST {}/v-1/token", accounts());
        let bed = bound_but(&[(route, answer(201, &body))]);
        assert_eq!(
            bed.write("creds/two", &json!({})).err().unwrap().kind,
            FailureKind::Unreachable
        );
        assert!(bed.host.lease_tags().is_empty());
        assert_eq!(deleted(&bed).len(), 2);
    }
}

#[test]
fn role_and_mount_limit_lease_with_warning() {
    let limits = json!({"token_default_ttl": "10m", "token_max_ttl": "1h"});
    let bed = ready("one", &json!({"service_account_name": "app"}));
    bed.write("roles/one", &limits).unwrap();
    bed.host.requests();
    bed.host.answer(&format!("POST {}/app/token", accounts()), token(600));
    assert_eq!(bed.write("creds/one", &json!({})).unwrap().ttl, 600);
    let reply = bed.write("creds/one", &json!({"ttl": "2h"})).unwrap();
    assert!(reply.warnings[0].contains("max_ttl"), "{:?}", reply.warnings);
    let sent = bed.host.requests();
    assert_eq!(body(&sent[1].body)["spec"]["expirationSeconds"], 3_600);
}

/// Returns an existing object with this mark.
fn there(uid: &str, mark: &str) -> Value {
    json!({"metadata": {"name": "v-1", "uid": uid, "labels": {"bulkhead/lease": mark}}})
}

/// The mark from the first sixteen bytes of the test bed's deterministic generator.
const MARK: &str = "0102030405060708090a0b0c0d0e0f10";

fn deleted(bed: &TestBed<Cluster>) -> Vec<(String, String)> {
    let requests = bed.host.requests().into_iter();
    let deleted = requests.filter(|request| request.method == "DELETE");
    let uid = |sent: &[u8]| body(sent)["preconditions"]["uid"].as_str().unwrap().to_owned();
    deleted.map(|request| (request.url, uid(&request.body))).collect()
}

#[test]
fn a_failure_names_the_field_of_the_configuration() {
    for word in ["tls.root-certificates", "root-certificates"] {
        let bed = bound();
        let said =
            Failure::new(FailureKind::Unreachable, format!("unknown authority; give {word}"));
        bed.host.refuse("send", said);
        let refused = bed.write("creds/two", &json!({})).err().unwrap();
        assert!(refused.message.contains("give cluster_ca_cert"), "{refused}");
    }
}
