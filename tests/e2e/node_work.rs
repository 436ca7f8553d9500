//! Two servers on one PostgreSQL database: things that happen once happen once over both nodes, and
//! the work of a killed node is done by the other.

use crate::node_faults::connect;
use crate::postgres_nodes::Pair;
use bulkhead_tests::concurrent_requests::at_once;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::time::Duration;

/// Longest wait for the end of a lease, and of the claim of a killed node.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn wrapped_answer_is_unwrapped_once_over_nodes() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    one.write("secret/a", &json!({ "a": 1 })).expect(204);
    for _ in 0..10 {
        let wrapped = one.wrapping("60").read("secret/a").expect(200);
        let token = json!({ "token": wrapped.body["wrap_info"]["token"] });
        let roots = [pair.operators.root(&pair.nodes[0]), pair.operators.root(&pair.nodes[1])];
        let statuses =
            at_once(&roots, 4, |root, _| root.write("sys/wrapping/unwrap", &token).status);
        let opened = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(opened, 1, "{statuses:?}");
    }
    other.read("sys/mounts").expect(200);
}

#[test]
fn uses_of_token_count_over_nodes() {
    let pair = Pair::start();
    let [one, _] = pair.roots();
    let policy =
        json!({ "policy": "path \"secret/*\" { capabilities = [\"create\", \"update\"] }" });
    one.write("sys/policies/acl/writer", &policy).expect(204);
    let limited = json!({ "policies": ["writer"], "num_uses": 5, "no_default_policy": true });
    let holders = || {
        let created = one.write("auth/token/create", &limited).expect(200);
        let token = created.body["auth"]["client_token"].clone();
        [0, 1].map(|index| pair.nodes[index].client(token.as_str()))
    };
    let write = |holder: &Client| holder.write("secret/a", &json!({ "a": 1 }));
    for _ in 0..5 {
        let statuses: Vec<_> =
            holders().iter().cycle().take(8).map(|holder| write(holder).status).collect();
        assert_eq!(statuses, [204, 204, 204, 204, 204, 403, 403, 403]);
        // The last use ends the token, also for a request that still runs on the other node.
        let statuses = at_once(&holders(), 8, |holder, _| write(holder).status);
        let done = statuses.iter().filter(|status| **status == 204).count();
        assert!((1..=5).contains(&done), "{statuses:?}");
    }
}

#[test]
fn leases_of_killed_node_end_on_other() {
    let mut pair = Pair::start();
    let target = Postgres::start();
    let [one, other] = pair.roots();
    connect(&one, &target);
    let role = json!({
        "db_name": "orders",
        "creation_statements":
            ["CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"],
        "default_ttl": "8s",
        "max_ttl": "1h",
    });
    other.write("database/roles/reader", &role).expect_success();
    for root in [&one, &other, &one, &other] {
        root.read("database/creds/reader").expect(200);
    }
    assert_eq!(target.users().len(), 4);
    pair.nodes[0].kill();
    until_true("every user is dropped", SOON, || target.users().is_empty());
    other.read("database/creds/reader").expect(200);
    until_true("the lost node leaves the list", SOON, || {
        let nodes = other.read("sys/ha-status").expect(200).body;
        nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1)
    });
    pair.nodes[0].start_again();
    pair.operators.unseal(&pair.nodes[0]);
    let [one, _] = pair.roots();
    one.read("database/creds/reader").expect(200);
    one.write("sys/leases/revoke-prefix/database", &json!({})).expect(204);
    assert_eq!(target.users(), Vec::<String>::new());
}

#[test]
fn rotated_key_serves_both_nodes_and_a_restart() {
    let mut pair = Pair::start();
    let [one, other] = pair.roots();
    for round in 0..6 {
        let (rotating, reading) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let path = format!("secret/{round}");
        rotating.write("sys/rotate", &json!({})).expect_success();
        rotating.write(&path, &json!({ "round": round })).expect(204);
        assert_eq!(reading.read(&path).expect(200).body["data"]["round"], round);
    }
    let statuses = at_once(&pair.roots(), 1, |root, _| root.write("sys/rotate", &json!({})).status);
    assert!(statuses.iter().all(|status| [200, 204, 400, 503].contains(status)), "{statuses:?}");
    for index in 0..2 {
        pair.nodes[index].kill();
        pair.nodes[index].start_again();
        pair.operators.unseal(&pair.nodes[index]);
    }
    for root in pair.roots() {
        for round in 0..6 {
            let read = root.read(&format!("secret/{round}")).expect(200);
            assert_eq!(read.body["data"]["round"], round);
        }
    }
}
