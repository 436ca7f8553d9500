//! An unreachable, unresponsive or refusing cluster, and callers without permission: a clear
//! answer, and no object left behind.

use super::{ClusterStage, RULES};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Kubernetes};
use serde_json::json;
use std::time::Duration;

#[test]
fn forbidden_requests_are_400_and_create_nothing() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    stage.role("star", json!({"cluster_role_name": "pods", "allowed_cluster_namespaces": "*"}));
    let elsewhere = format!("{}/serviceaccounts/app", stage.namespace.name);
    for (role, body) in [
        ("none", json!({})),
        ("two", json!({"cluster_namespace": "kube-system"})),
        ("two", json!({"cluster_role_binding": true})),
        ("star", json!({})),
        ("star", json!({"cluster_namespace": "kube-system"})),
        ("star", json!({"cluster_namespace": elsewhere})),
        ("star", json!({"cluster_namespace": "x%2Fsecrets"})),
        ("star", json!({"cluster_namespace": "../secrets"})),
        ("star", json!({"cluster_namespace": "there-is-none-of-this-name"})),
        ("two", json!({"ttl": "soon"})),
        ("two", json!({"kubernetes_namespace": "a", "cluster_namespace": "b"})),
    ] {
        let refused = stage.root.write(&format!("cluster/creds/{role}"), &body).expect(400);
        assert!(!refused.errors().is_empty(), "{body}");
    }
    assert!(stage.namespace.made().is_empty());
    stage.assert_silent(&stage.token);
}

#[test]
fn unreachable_or_wrong_cluster_is_502_leaving_nothing() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let down = json!({
        "cluster_host": "https://127.0.0.1:1", "service_account_jwt": stage.token,
    });
    stage.root.write("cluster/config", &down).expect(204);
    stage.root.write("cluster/creds/two", &json!({})).expect(502);
    // With a missing or wrong authority, the engine sends nothing to the cluster.
    let kubernetes = stage.namespace.kubernetes;
    let unknown = json!({
        "cluster_host": kubernetes.url, "cluster_ca_cert": "", "service_account_jwt": stage.token,
    });
    stage.root.write("cluster/config", &unknown).expect(204);
    let refused = stage.root.write("cluster/creds/two", &json!({})).expect(502);
    assert!(refused.errors().contains("give cluster_ca_cert"), "{}", refused.errors());
    assert!(stage.namespace.made().is_empty());
    stage.configure().expect(204);
    stage.give("two", json!({}));
}

#[test]
fn invalid_engine_token_is_400_and_replacement_revokes() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let given = stage.give("two", json!({}));
    let forged = json!({"service_account_jwt": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln"});
    stage.root.write("cluster/config", &forged).expect(204);
    let refused = stage.root.write("cluster/creds/two", &json!({})).expect(400);
    assert!(refused.errors().contains("service_account_jwt"), "{}", refused.errors());
    let revoked = stage.root.write("sys/leases/revoke", &json!({"lease_id": given.lease}));
    assert_eq!(revoked.status, 503, "{revoked:?}");
    assert_eq!(stage.namespace.made().len(), 2);
    stage.configure().expect(204);
    stage.revoke(&given.lease);
    until_true("nothing is left", Duration::from_secs(5), || stage.namespace.made().is_empty());
}

#[test]
fn leases_end_after_configuration_removal_or_cluster_change() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let (first, second) = (stage.give("two", json!({})), stage.give("two", json!({})));
    let elsewhere =
        json!({"cluster_host": "https://127.0.0.1:1", "service_account_jwt": stage.token});
    stage.root.write("cluster/config", &elsewhere).expect(204);
    stage.revoke(&first.lease);
    stage.configure().expect(204);
    let deleted = stage.root.delete("cluster/config").expect(200);
    assert!(deleted.warnings().contains("revocation"), "{}", deleted.warnings());
    stage.revoke(&second.lease);
    until_true("nothing is left", Duration::from_secs(5), || stage.namespace.made().is_empty());
}

#[test]
fn revocation_accepts_missing_and_keeps_recreated_objects() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let given = stage.give("two", json!({}));
    stage.namespace.remove("rolebindings", &given.name);
    let theirs = json!({
        "metadata": {"name": given.name, "labels": {"bulkhead/mount": "of-another"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"},
    });
    stage.namespace.make("rolebindings", &theirs);
    stage.revoke(&given.lease);
    let left = format!("rolebindings/{}", given.name);
    until_true("theirs alone is left", Duration::from_secs(5), || {
        stage.namespace.made() == [left.clone()]
    });
}

#[test]
fn taken_object_name_is_400_keeping_object() {
    let stage = ClusterStage::with_rights(2);
    let fixed = json!({"cluster_role_name": "pods", "name_template": "always-the-same"});
    stage.role("fixed", fixed);
    let first = stage.give("fixed", json!({}));
    let refused = stage.root.write("cluster/creds/fixed", &json!({})).expect(400);
    assert!(refused.errors().contains("exists"), "{}", refused.errors());
    assert_eq!(stage.namespace.made().len(), 2);
    assert_eq!(stage.tries(&first.token), [200, 403]);
}

#[test]
fn late_objects_of_unresponsive_api_server_are_removed() {
    let stage = ClusterStage::of(Kubernetes::own(), 3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    let paused = stage.namespace.kubernetes.pause();
    stage.root.write("cluster/creds/three", &json!({})).expect(502);
    drop(paused);
    until_true("nothing is left", Duration::from_secs(120), || stage.namespace.made().is_empty());
    stage.give("three", json!({}));
    stage.assert_silent(&stage.token);
}

#[test]
fn mount_granted_other_server_sends_nothing_to_cluster() {
    let stage = ClusterStage::with_rights(1);
    stage.role("one", json!({"service_account_name": "app"}));
    let other = json!({"grants": ["http:https://other.example:6443"]});
    stage.root.write("sys/mounts/cluster/tune", &other).expect(204);
    let refused = stage.root.write("cluster/creds/one", &json!({})).expect(403);
    assert!(refused.errors().contains("http:https://127.0.0.1"), "{}", refused.errors());
}

#[test]
fn deeply_nested_and_huge_documents_are_400() {
    let bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a]\nrules: [*b,*b,*b,*b]\n";
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(5_000), close.repeat(5_000));
    for text in [
        bomb.to_owned(),
        nested("[", "]"),
        format!("{{\"rules\":{}}}", nested("[", "]")),
        nested("{\"a\":", "}"),
        nested("- ", ""),
        nested("? ", ""),
        format!("rules: [{}]", "{verbs: [a]},".repeat(3_000)),
        "x".repeat(70_000),
        "rules: !!binary eA==".to_owned(),
        "{\"rules\":[],\"rules\":[]}".to_owned(),
    ] {
        for field in ["generated_role_rules", "allowed_cluster_namespace_selector"] {
            let mut role = json!({ field: text });
            if field != "generated_role_rules" {
                role["service_account_name"] = "app".into();
            }
            let began = std::time::Instant::now();
            let refused = root.write("cluster/roles/x", &role);
            let shown: String = text.chars().take(40).collect();
            assert_eq!(refused.status, 400, "{field} {shown}: {refused:?}");
            assert!(refused.errors().len() < 500, "{field} {shown}: it is quoted");
            assert!(began.elapsed() < Duration::from_secs(5), "{field} {shown}");
        }
    }
    root.read("cluster/roles/x").expect(404);
}
