//! Concurrency: two servers on a cluster, each with its mount, 64 clients and 500 leases.

use super::ClusterStage;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const CLIENTS: usize = 64;
const LEASES: usize = 500;

#[test]
fn tokens_of_two_concurrent_servers_work_and_end() {
    let stage = ClusterStage::with_rights(2);
    let other = Bulkhead::start();
    let roots = [stage.bulkhead.root(), other.root()];
    let kubernetes = stage.namespace.kubernetes;
    let config = json!({
        "kubernetes_host": kubernetes.url, "kubernetes_ca_cert": kubernetes.authority,
        "service_account_jwt": stage.token,
    });
    let role = json!({
        "allowed_kubernetes_namespaces": stage.namespace.name, "kubernetes_role_name": "pods",
    });
    roots[1].write("sys/mounts/k8s", &json!({"type": "kubernetes"})).expect(204);
    for (root, mount) in roots.iter().zip(["cluster", "k8s"]) {
        root.write(&format!("{mount}/config"), &config).expect(204);
        root.write(&format!("{mount}/roles/two"), &role).expect(204);
    }
    let given: Vec<(String, String)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (root, mount) = (&roots[client % 2], ["cluster", "k8s"][client % 2]);
                let stage = &stage;
                let ask = move || {
                    let answer = root.write(&format!("{mount}/creds/two"), &json!({})).expect(200);
                    let token = answer.text("service_account_token").to_owned();
                    assert_eq!(stage.tries(&token), [200, 403]);
                    (answer.text("service_account_name").to_owned(), token)
                };
                let mine = LEASES / CLIENTS + usize::from(client < LEASES % CLIENTS);
                scope.spawn(move || (0..mine).map(|_| ask()).collect::<Vec<_>>())
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client panics")).collect()
    });
    let names: BTreeSet<&String> = given.iter().map(|(name, _)| name).collect();
    assert_eq!((given.len(), names.len()), (LEASES, LEASES), "no two have one name");
    for (root, mount) in roots.iter().zip(["cluster", "k8s"]) {
        let path = format!("sys/leases/revoke-prefix/{mount}");
        root.write(&path, &json!({"sync": true})).expect(204);
    }
    until_true("nothing is left", Duration::from_secs(60), || stage.namespace.made().is_empty());
}
