//! `X-Vault-Index`: an answer of one node names its state, and the other node includes the state
//! before it answers a request that requires the state.

use crate::postgres_nodes::Pair;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::json;

/// Writes a secret, and returns the state that the answer names.
#[track_caller]
fn written(writer: &Client, round: usize) -> String {
    let answer = writer.write("secret/a", &json!({ "round": round })).expect(204);
    answer.state.expect("each node names the state of its answers")
}

#[test]
fn read_on_other_node_includes_required_write() {
    let pair = Pair::start();
    let roots = pair.roots();
    written(&roots[0], 0);
    for round in 1..=100 {
        let (writer, reader) = (&roots[round % 2], &roots[(round + 1) % 2]);
        // The other node then has the earlier version in memory.
        reader.read("secret/a").expect(200);
        let state = written(writer, round);
        let read = reader.requiring(&[state.as_str()]).read("secret/a").expect(200);
        assert_eq!(read.body["data"]["round"], round);
        assert!(read.state.is_some(), "round {round}: each answer names its state");
    }
}

#[test]
fn states_that_cannot_be_required_are_refused() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    let state = written(&one, 1);
    let refused = |state: &str, status: u16, words: &str| {
        other.requiring(&[state]).read("secret/a").refused(status, words);
        other.requiring(&[state]).write("secret/a", &json!({ "round": 2 })).refused(status, words);
    };
    refused("v1", 400, "X-Vault-Index \"v1\" is not a state");
    refused(&state[1..], 400, "is not a state");
    // djE6YTow: "v1:a:0".
    refused("djE6YTow", 400, "is not a state");
    let cluster = one.read("sys/seal-status").expect(200).body["cluster_id"].clone();
    let year_2100 = format!("v1:{}:4102444800000:0:", cluster.as_str().expect("a cluster"));
    refused(&STANDARD.encode(year_2100), 412, "this cluster has not reached that time");
    // A client of two clusters sends the states of both.
    let foreign = STANDARD.encode("v1:another:4102444800000:0:00ff");
    let read = other.requiring(&[&foreign, &state]).read("secret/a").expect(200);
    assert_eq!(read.body["data"]["round"], 1);
}

#[test]
fn server_alone_names_no_state() {
    let server = Bulkhead::start();
    let answer = server.root().requiring(&["any"]).read("sys/mounts").expect(200);
    assert_eq!(answer.state, None);
}
