//! The three modes: rights of a token, and objects before and after.

use super::{ClusterStage, RULES};
use bulkhead_tests::kubernetes::TOKEN_CACHE;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest time until a removed binding has no effect.
const AT_ONCE: Duration = Duration::from_secs(5);

#[test]
fn mode_1_gives_existing_account_token_creating_nothing() {
    let stage = ClusterStage::with_rights(1);
    stage.role("one", json!({"service_account_name": "app"}));
    let given = stage.give("one", json!({"ttl": "20m"}));
    assert_eq!((given.name.as_str(), stage.tries(&given.token)), ("app", [403, 403]));
    let body = &given.answer.body;
    assert_eq!((&body["lease_duration"], &body["renewable"]), (&json!(1200), &json!(false)));
    assert!(stage.namespace.made().is_empty());
    let renewal = json!({"lease_id": given.lease});
    assert_eq!(stage.root.write("sys/leases/renew", &renewal).status, 400);
    stage.revoke(&given.lease);
    assert_eq!(stage.tries(&given.token), [403, 403], "the token stays valid, as documented");
    stage.assert_silent(&given.token);
    stage.assert_silent(&stage.token);
}

/// Asserts that a token has the granted rights, then no rights, and is then invalid.
#[track_caller]
fn lives_and_ends(stage: &ClusterStage, role: &str, body: Value, objects: usize) {
    let given = stage.give(role, body);
    assert_eq!(stage.tries(&given.token), [200, 403]);
    let paths = stage.namespace.made();
    assert_eq!(paths.len(), objects, "{paths:?}");
    assert!(paths.iter().all(|object| object.ends_with(&format!("/{}", given.name))), "{paths:?}");
    stage.revoke(&given.lease);
    until_true("its rights are gone", AT_ONCE, || stage.tries(&given.token)[0] != 200);
    until_true("nothing is left", AT_ONCE, || stage.namespace.made().is_empty());
    until_true("it is not a token any more", TOKEN_CACHE, || {
        stage.tries(&given.token) == [401, 401]
    });
    stage.assert_silent(&given.token);
}

#[test]
fn mode_2_gives_new_account_role_during_lease() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    lives_and_ends(&stage, "two", json!({}), 2);
}

#[test]
fn mode_3_gives_new_account_generated_role_rights() {
    let stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    lives_and_ends(&stage, "three", json!({}), 3);
}

#[test]
fn cluster_wide_rights_are_granted_and_revoked() {
    let stage = ClusterStage::with_rights(4);
    let wide = json!({"generated_role_rules": RULES, "cluster_role_type": "ClusterRole"});
    stage.role("wide", wide);
    lives_and_ends(&stage, "wide", json!({}), 3);
    lives_and_ends(&stage, "wide", json!({"cluster_role_binding": true}), 3);
    let given = stage.give("wide", json!({"cluster_role_binding": true}));
    let all =
        stage.namespace.kubernetes.ask_as(&given.token, "GET", "api/v1/configmaps", &Value::Null);
    assert_eq!(all.0, 200, "{}", all.1);
    stage.revoke(&given.lease);
    stage.role(
        "existing",
        json!({
            "cluster_role_name": stage.namespace.name, "cluster_role_ref_type": "ClusterRole",
        }),
    );
    let given = stage.give("existing", json!({}));
    assert_eq!(stage.namespace.try_as(&given.token, "GET", "serviceaccounts/app"), 200);
    stage.revoke(&given.lease);
}

#[test]
fn a_namespace_may_be_chosen_by_its_labels() {
    let stage = ClusterStage::with_rights(4);
    let selected = |team: &str| {
        json!({
            "allowed_cluster_namespaces": "", "service_account_name": "app",
            "allowed_cluster_namespace_selector": format!("matchLabels: {{team: {team}}}"),
        })
    };
    stage.role("blue", selected("blue"));
    stage.role("red", selected("red"));
    let listed = stage.root.read("cluster/roles?list=true").expect(200);
    assert_eq!(listed.body["data"]["keys"], json!(["blue", "red"]));
    let body = json!({"kubernetes_namespace": stage.namespace.name});
    stage.give("blue", body.clone());
    let refused = stage.root.write("cluster/creds/red", &body).expect(400);
    assert!(refused.errors().contains("match"), "{}", refused.errors());
    let absent = json!({"cluster_namespace": "there-is-none-of-this-name"});
    stage.root.write("cluster/creds/blue", &absent).expect(400);
    stage.root.write("cluster/creds/blue", &json!({})).expect(400);
}

#[test]
fn lifetime_is_shortest_of_request_role_and_cluster() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods", "token_max_ttl": "48h"}));
    let seconds = |body: Value| {
        let given = stage.give("two", body);
        (given.answer.body["lease_duration"].as_u64().expect("seconds"), given)
    };
    assert_eq!(seconds(json!({})).0, 600);
    let (short, given) = seconds(json!({"ttl": 60}));
    assert!(short == 60 && given.answer.warnings().contains("ends with the lease"));
    assert_eq!(seconds(json!({"ttl": 3_607})).0, 3_607, "no token of ours is extended to a year");
    let (cut, given) = seconds(json!({"ttl": "72h"}));
    assert!(cut <= 172_800 && given.answer.warnings().contains("max_ttl"), "{cut}");
    // The clusters of these tests issue tokens for at most a day; other clusters have no such
    // limit.
    if stage.namespace.kubernetes.is_ours() {
        let (long, given) = seconds(json!({"ttl": "36h"}));
        assert!(long == 86_400 && given.answer.warnings().contains("capped"), "{long}");
        assert_eq!(cut, 86_400);
    }
}

#[test]
fn token_audiences_come_from_request_or_role_default() {
    let stage = ClusterStage::with_rights(1);
    let role =
        json!({"service_account_name": "app", "token_default_audiences": "https://a.example"});
    stage.role("one", role);
    for (body, expected) in [(json!({}), "https://a.example"), (json!({"audiences": "b"}), "b")] {
        let given = stage.give("one", body);
        let review = json!({"spec": {"token": given.token, "audiences": [expected]}});
        let path = "apis/authentication.k8s.io/v1/tokenreviews";
        let reviewed = stage.namespace.kubernetes.must("POST", path, &review);
        assert_eq!(reviewed["status"]["authenticated"], true, "{reviewed}");
        assert_eq!(stage.tries(&given.token), [401, 401], "the API server refuses the token");
    }
}

#[test]
fn objects_have_role_labels_without_forged_bulkhead_labels() {
    let stage = ClusterStage::with_rights(2);
    let forged = json!({
        "app.kubernetes.io/managed-by": "forged", "bulkhead/lease": "forged",
        "bulkhead/mount": "forged", "team": "blue",
    });
    let annotations = json!({"kubernetes.io/enforce-mountable-secrets": "true", "why": "test"});
    let role = json!({
        "cluster_role_name": "pods", "extra_labels": forged, "extra_annotations": annotations,
    });
    stage.role("two", role);
    let given = stage.give("two", json!({}));
    let binding = stage.namespace.read("rolebindings", &given.name);
    let account = stage.namespace.read("serviceaccounts", &given.name);
    for object in [&binding, &account] {
        let labels = &object["metadata"]["labels"];
        assert_eq!(
            (&labels["team"], &object["metadata"]["annotations"]),
            (&json!("blue"), &annotations)
        );
        assert_eq!(labels["app.kubernetes.io/managed-by"], "bulkhead");
        assert!(labels["bulkhead/lease"] != "forged" && labels["bulkhead/mount"] != "forged");
    }
    let owner = &account["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], binding["metadata"]["uid"]);
    stage.namespace.remove("rolebindings", &given.name);
    until_true("the cluster removes what the binding owned", Duration::from_secs(10), || {
        stage.namespace.made().is_empty()
    });
    stage.revoke(&given.lease);
}

#[test]
fn lease_ends_by_itself_after_its_lifetime() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let given = stage.give("two", json!({"ttl": 1}));
    until_true("nothing is left", Duration::from_secs(20), || stage.namespace.made().is_empty());
    until_true("it is not a token any more", TOKEN_CACHE, || {
        stage.tries(&given.token) == [401, 401]
    });
}
