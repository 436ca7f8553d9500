//! Shares of the key at two nodes: shares of one attempt that two nodes receive, and shares or a
//! seal of another cluster.

use super::{round_of, write_round};
use bulkhead_tests::database_nodes::{NodeSeal, prepared, url_at};
use bulkhead_tests::operators::{give, seal_status};
use bulkhead_tests::{Answer, Client, DatabaseNodes, Postgres};
use serde_json::{Value, json};

fn two_nodes() -> (Postgres, DatabaseNodes) {
    let database = Postgres::start();
    let urls = [0; 2].map(|_| url_at(&database, database.port));
    let group = DatabaseNodes::start(&urls, NodeSeal::Shares);
    (database, group)
}

fn share(client: &Client, path: &str, (key, nonce): (&str, &Value)) -> Answer {
    client.write(path, &json!({ "key": key, "nonce": nonce }))
}

/// Begins the same attempt on both nodes, gives one share to each, and then the share of one node's
/// attempt to the other node. Nothing is complete.
#[track_caller]
fn spread_over_nodes(roots: &[Client; 2], (begin, update): (&str, &str), keys: &[String]) {
    let body = json!({ "secret_shares": 3, "secret_threshold": 2 });
    let nonce = roots[0].write(begin, &body).expect(200).body["nonce"].clone();
    let given = share(&roots[0], update, (&keys[0], &nonce)).expect(200);
    assert_eq!(given.body["progress"], 1, "{given:?}");
    let refused = share(&roots[1], update, (&keys[1], &nonce)).expect(400);
    assert!(refused.errors().contains("in progress"), "{refused:?}");
    let own = roots[1].write(begin, &body).expect(200).body["nonce"].clone();
    assert_ne!(own, nonce);
    let refused = share(&roots[1], update, (&keys[1], &nonce)).expect(400);
    assert!(refused.errors().contains("nonce"), "{refused:?}");
    let given = share(&roots[1], update, (&keys[1], &own)).expect(200);
    assert!(given.body["progress"] == 1 && given.body["complete"] != true, "{given:?}");
    for root in roots {
        assert_eq!(root.read(begin).expect(200).body["progress"], 1);
        root.delete(begin).expect_success();
    }
}

#[test]
fn shares_at_two_nodes_complete_nothing() {
    let (_database, mut group) = two_nodes();
    let roots = [0, 1].map(|index| group.root(index));
    let keys = group.operators.keys.clone();
    spread_over_nodes(&roots, ("sys/rekey/init", "sys/rekey/update"), &keys);
    spread_over_nodes(&roots, ("sys/generate-root/attempt", "sys/generate-root/update"), &keys);
    // The old shares are valid, and so is the old root token.
    assert!(group.nodes[1].stop());
    group.start_again(1);
    write_round(&group.root(1), "secret/a", 1);
    assert_eq!(round_of(&group.root(0), "secret/a"), 1);
}

#[test]
fn shares_and_seal_of_other_cluster_are_refused() {
    let (database, mut group) = two_nodes();
    let (_other_database, other) = two_nodes();
    write_round(&group.root(0), "secret/a", 1);
    assert!(group.nodes[1].stop());
    group.nodes[1].start_again();
    let answers = [0, 1].map(|index| give(&group.nodes[1], &other.operators.keys[index]));
    answers[1].clone().expect(400);
    assert_eq!(seal_status(&group.nodes[1])["sealed"], true);
    // A node with another seal in its configuration neither opens nor changes the seal of the data.
    let mut third = prepared(3, &url_at(&database, database.port), NodeSeal::StaticKey);
    third.start_again();
    let status = seal_status(&third);
    assert_eq!(status["sealed"], true, "{status}");
    let refused = give(&third, &group.operators.keys[0]).expect(400);
    assert!(refused.errors().contains("the data have the seal"), "{refused:?}");
    assert_eq!(seal_status(&third)["sealed"], true);
    group.open(1);
    assert_eq!(round_of(&group.root(1), "secret/a"), 1);
    write_round(&group.root(0), "secret/a", 2);
}
