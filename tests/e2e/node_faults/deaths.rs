//! A node is killed after it changed a target and before it stored the outcome: the other node
//! completes the rotation, or removes the user.

use super::SOON;
use super::proxied_nodes::ProxiedNodes;
use super::target_gate::{ClosedGate, PASSAGE, connect};
use bulkhead_tests::database_nodes::NodeSeal;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::thread;

/// Password of the account before the takeover.
const FIRST: &str = "Qd7-Vm3-Wx5-Bn8";

/// Two nodes and a target.
fn nodes_and_target() -> (ProxiedNodes, Postgres) {
    let (place, target) = (ProxiedNodes::start(NodeSeal::StaticKey), Postgres::start());
    connect(&place.group.root(0), &target);
    (place, target)
}

fn static_role(target: &Postgres, root: &Client, period: &str) {
    target.query(&format!("CREATE ROLE app LOGIN PASSWORD '{FIRST}'"));
    let role = json!({
        "db_name": "orders", "username": "app", "rotation_period": period,
        "rotation_statements": [PASSAGE, "ALTER ROLE \"{{name}}\" PASSWORD '{{password}}'"],
    });
    root.write("database/static-roles/app", &role).expect(204);
}

#[track_caller]
fn shown(root: &Client) -> String {
    root.read("database/static-creds/app").expect(200).text("password").to_owned()
}

fn logs_in(target: &Postgres, password: &str) -> bool {
    target.login("app", password, "SELECT 1").is_ok()
}

/// The first node has changed the password, and is killed before it stores the outcome.
#[track_caller]
fn kill_after_change(place: &mut ProxiedNodes, target: &Postgres, gate: ClosedGate<'_>) {
    let before = shown(&place.group.root(0));
    gate.wait_for_caller();
    place.cut_off(0);
    gate.open();
    until_true("the password is changed", SOON, || !logs_in(target, &before));
    place.group.nodes[0].kill();
}

/// Two nodes and a target, after the death of the first node in a requested rotation.
#[track_caller]
fn nodes_after_killed_rotation() -> (ProxiedNodes, Postgres) {
    let (mut place, target) = nodes_and_target();
    let one = place.group.root(0);
    static_role(&target, &one, "1h");
    let gate = ClosedGate::close(&target);
    let rotating = thread::spawn(move || one.attempt("POST", "database/rotate-role/app", b"{}"));
    kill_after_change(&mut place, &target, gate);
    rotating.join().expect("no panic").expect_err("the node was killed");
    (place, target)
}

#[test]
fn killed_nodes_rotation_is_completed_by_next_request() {
    let (place, target) = nodes_after_killed_rotation();
    let other = place.group.root(1);
    place.lose_claim(0);
    until_true("a rotation by the other node", SOON, || {
        other.write("database/rotate-role/app", &json!({})).status == 204
    });
    assert!(logs_in(&target, &shown(&other)));
}

#[test]
fn rotation_of_killed_node_ends_after_its_restart() {
    let (mut place, target) = nodes_after_killed_rotation();
    let other = place.group.root(1);
    assert!(!logs_in(&target, &shown(&other)), "the outcome is not stored");
    place.proxies[0].heal();
    place.group.start_again(0);
    until_true("the displayed password logs in", SOON, || logs_in(&target, &shown(&other)));
}

#[test]
fn user_of_killed_node_is_removed_by_other() {
    let (mut place, target) = nodes_and_target();
    let [one, other] = [0, 1].map(|index| place.group.root(index));
    let creation = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'";
    let role = json!({
        "db_name": "orders", "creation_statements": [PASSAGE, creation], "default_ttl": "1h",
    });
    one.write("database/roles/reader", &role).expect_success();
    let gate = ClosedGate::close(&target);
    let creating = thread::spawn(move || one.attempt("GET", "database/creds/reader", b""));
    gate.wait_for_caller();
    place.cut_off(0);
    gate.open();
    until_true("the user is created", SOON, || target.users().len() == 1);
    place.group.nodes[0].kill();
    creating.join().expect("no panic").expect_err("the node was killed");
    place.lose_claim(0);
    // By itself the user is removed a minute after the deadline of the call.
    other.write("sys/leases/revoke-prefix/database/creds/reader", &json!({})).expect(204);
    until_true("the user is dropped", SOON, || target.users().is_empty());
    other.read("database/creds/reader").expect(200);
    assert_eq!(target.users().len(), 1);
}
