//! Rights that the engine lacks, one by one: what was made before the refusal is gone when the
//! answer is there.

use super::{Harbour, RULES};
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

/// The rights of mode 3, in single verbs: kind and verb.
const RIGHTS: [(&str, &str, &str); 9] = [
    ("rbac.authorization.k8s.io", "roles", "create"),
    ("rbac.authorization.k8s.io", "roles", "escalate"),
    ("rbac.authorization.k8s.io", "roles", "bind"),
    ("rbac.authorization.k8s.io", "roles", "delete"),
    ("rbac.authorization.k8s.io", "rolebindings", "create"),
    ("rbac.authorization.k8s.io", "rolebindings", "delete"),
    ("", "serviceaccounts", "create"),
    ("", "serviceaccounts", "delete"),
    ("", "serviceaccounts/token", "create"),
];

/// Leaves the engine all rights of mode 3 but one; none lacks nothing.
fn lack(harbour: &Harbour, lacked: Option<usize>) {
    let left = RIGHTS.iter().enumerate().filter(|(index, _)| Some(*index) != lacked);
    let rules: Vec<Value> = left
        .map(|(_, (group, kind, verb))| {
            json!({"apiGroups": [group], "resources": [kind], "verbs": [verb]})
        })
        .collect();
    let name = &harbour.namespace.name;
    let path = format!("apis/rbac.authorization.k8s.io/v1/namespaces/{name}/roles/{name}");
    let role = json!({"metadata": {"name": name}, "rules": rules});
    harbour.namespace.kubernetes.must("PUT", &path, &role);
}

#[test]
fn a_right_that_is_lacked_half_way_leaves_nothing_behind() {
    let harbour = Harbour::with_rights(3);
    harbour.role("three", json!({"generated_role_rules": RULES}));
    for (index, (_, kind, verb)) in
        RIGHTS.iter().enumerate().filter(|(_, (.., verb))| *verb != "delete")
    {
        lack(&harbour, Some(index));
        let refused = harbour.root.write("cluster/creds/three", &json!({})).expect(400);
        assert!(!refused.errors().is_empty(), "{verb} {kind}");
        assert!(
            harbour.namespace.made().is_empty(),
            "{verb} {kind}: {:?}",
            harbour.namespace.made()
        );
    }
}

#[test]
fn a_lease_whose_end_is_refused_stays_and_ends_once_the_right_is_there_again() {
    let harbour = Harbour::with_rights(3);
    harbour.role("three", json!({"generated_role_rules": RULES}));
    for (index, (_, kind, _)) in
        RIGHTS.iter().enumerate().filter(|(_, (.., verb))| *verb == "delete")
    {
        lack(&harbour, None);
        let given = harbour.give("three", json!({}));
        lack(&harbour, Some(index));
        let asked = json!({"lease_id": given.lease});
        let refused = harbour.root.write("sys/leases/revoke", &asked).expect(400);
        assert!(refused.errors().contains(kind), "{}", refused.errors());
        harbour.root.write("sys/leases/lookup", &asked).expect(200);
        lack(&harbour, None);
        harbour.revoke(&given.lease);
        until_true("nothing is left", Duration::from_secs(5), || {
            harbour.namespace.made().is_empty()
        });
    }
}
