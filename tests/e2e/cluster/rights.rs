//! The engine lacks a right: objects created before the refusal are gone when the caller gets the
//! answer.

use super::{ClusterStage, RULES};
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

/// The rights of mode 3: API group, kind and a single verb.
const RIGHTS: [(&str, &str, &str); 12] = [
    ("rbac.authorization.k8s.io", "roles", "create"),
    ("rbac.authorization.k8s.io", "roles", "escalate"),
    ("rbac.authorization.k8s.io", "roles", "bind"),
    ("rbac.authorization.k8s.io", "roles", "get"),
    ("rbac.authorization.k8s.io", "roles", "delete"),
    ("rbac.authorization.k8s.io", "rolebindings", "create"),
    ("rbac.authorization.k8s.io", "rolebindings", "get"),
    ("rbac.authorization.k8s.io", "rolebindings", "delete"),
    ("", "serviceaccounts", "create"),
    ("", "serviceaccounts", "get"),
    ("", "serviceaccounts", "delete"),
    ("", "serviceaccounts/token", "create"),
];

/// A right, as kind and verb.
type Right = (&'static str, &'static str);

/// Grants the engine all rights of mode 3 except `lacked`.
fn lack(stage: &ClusterStage, lacked: &[Right]) {
    let left = RIGHTS.iter().filter(|(_, kind, verb)| !lacked.contains(&(*kind, *verb)));
    let rules: Vec<Value> = left
        .map(|(group, kind, verb)| {
            json!({"apiGroups": [group], "resources": [kind], "verbs": [verb]})
        })
        .collect();
    let name = &stage.namespace.name;
    let path = format!("apis/rbac.authorization.k8s.io/v1/namespaces/{name}/roles/{name}");
    let role = json!({"metadata": {"name": name}, "rules": rules});
    stage.namespace.kubernetes.must("PUT", &path, &role);
}

#[test]
fn right_missing_at_any_step_leaves_no_object() {
    let stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    let needed = |(.., verb): &(&str, &str, &str)| !["get", "delete"].contains(verb);
    for (_, kind, verb) in RIGHTS.into_iter().filter(needed) {
        lack(&stage, &[(kind, verb)]);
        let refused = stage.root.write("cluster/creds/three", &json!({})).expect(400);
        assert!(!refused.errors().is_empty(), "{verb} {kind}");
        assert!(stage.namespace.made().is_empty(), "{verb} {kind}: {:?}", stage.namespace.made());
    }
}

#[test]
fn refused_revocation_keeps_lease_until_right_returns() {
    let stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    for (_, kind, verb) in RIGHTS.into_iter().filter(|(.., verb)| *verb == "delete") {
        lack(&stage, &[]);
        let given = stage.give("three", json!({}));
        lack(&stage, &[(kind, verb)]);
        let lease = json!({"lease_id": given.lease});
        let refused = stage.root.write("sys/leases/revoke", &lease).expect(400);
        assert!(refused.errors().contains(kind), "{}", refused.errors());
        stage.root.write("sys/leases/lookup", &lease).expect(200);
        lack(&stage, &[]);
        stage.revoke(&given.lease);
        until_true("nothing is left", Duration::from_secs(5), || stage.namespace.made().is_empty());
    }
}

/// The missing rights: to create a service account, the third object, and to remove any object.
const HALF_WAY: [Right; 4] = [
    ("serviceaccounts", "create"),
    ("serviceaccounts", "delete"),
    ("rolebindings", "delete"),
    ("roles", "delete"),
];

#[test]
fn refused_call_objects_are_removed_once_right_returns() {
    let mut stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    for dies in [false, true] {
        lack(&stage, &HALF_WAY);
        stage.root.write("cluster/creds/three", &json!({})).expect(400);
        assert_eq!(stage.namespace.made().len(), 2, "the role and its binding");
        if dies {
            stage.bulkhead.kill();
            stage.bulkhead.start_again();
            stage.root = stage.bulkhead.root();
        }
        lack(&stage, &[]);
        until_true("nothing is left", Duration::from_secs(30), || {
            stage.namespace.made().is_empty()
        });
    }
}

/// `get` is only needed to find objects after a crash.
#[test]
fn a_lease_ends_without_the_right_to_get() {
    let stage = ClusterStage::with_rights(3);
    stage.role("three", json!({"generated_role_rules": RULES}));
    lack(&stage, &["serviceaccounts", "rolebindings", "roles"].map(|kind| (kind, "get")));
    let given = stage.give("three", json!({}));
    stage.revoke(&given.lease);
    until_true("nothing is left", Duration::from_secs(5), || stage.namespace.made().is_empty());
}

#[test]
fn missing_right_is_named_at_role_write() {
    let stage = ClusterStage::with_rights(3);
    let fields = json!({
        "allowed_cluster_namespaces": stage.namespace.name, "generated_role_rules": RULES,
    });
    stage.root.write("cluster/roles/three", &fields).expect(204);
    let is_checked = |(.., verb): &(&str, &str, &str)| !["bind", "escalate"].contains(verb);
    for (_, kind, verb) in RIGHTS.into_iter().filter(is_checked) {
        lack(&stage, &[(kind, verb)]);
        let warnings = stage.root.write("cluster/roles/three", &fields).expect(200).warnings();
        let right = format!("may not {verb} {kind} in namespace {};", stage.namespace.name);
        assert!(warnings.contains(&right), "{verb} {kind}: {warnings}");
    }
}

/// A binding is effective until the cluster has removed it.
#[test]
fn binding_waiting_for_finalizers_keeps_its_lease() {
    let stage = ClusterStage::with_rights(2);
    stage.role("two", json!({"cluster_role_name": "pods"}));
    let given = stage.give("two", json!({}));
    let namespace = &stage.namespace;
    let hold = |finalizers: Value| {
        let mut binding = namespace.read("rolebindings", &given.name);
        binding["metadata"]["finalizers"] = finalizers;
        let (place, name) = (&namespace.name, &given.name);
        let path =
            format!("apis/rbac.authorization.k8s.io/v1/namespaces/{place}/rolebindings/{name}");
        namespace.kubernetes.must("PUT", &path, &binding);
    };
    hold(json!(["example.com/hold"]));
    let lease = json!({"lease_id": given.lease});
    for _ in 0..2 {
        let refused = stage.root.write("sys/leases/revoke", &lease).expect(503);
        assert!(refused.errors().contains("example.com/hold"), "{}", refused.errors());
        stage.root.write("sys/leases/lookup", &lease).expect(200);
    }
    assert_eq!(namespace.made(), [format!("rolebindings/{}", given.name)]);
    hold(json!([]));
    stage.revoke(&given.lease);
    assert!(namespace.made().is_empty());
}
