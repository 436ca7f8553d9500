//! A node that the database does not reach for a while: a network that carries nothing, or a
//! process that is paused. The node refuses requests, and is back without an operator.

use super::proxied_nodes::ProxiedNodes;
use super::{SOON, round_of, write_round};
use bulkhead_tests::database_nodes::NodeSeal;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// The refusal of a node that does not know the changes of the others.
const OUTDATED: &str = "has not read the changes of other nodes for too long";

#[test]
fn cut_off_node_refuses_and_rejoins_by_itself() {
    let place = ProxiedNodes::start(NodeSeal::Shares);
    let [one, other] = [0, 1].map(|index| place.group.root(index));
    write_round(&one, "secret/a", 1);
    let (holder, token) = place.holder();
    holder.read("secret/a").expect(200);
    let is_refused = AtomicBool::new(false);
    thread::scope(|scope| {
        place.cut_off(1);
        until_true("the cut-off node refuses", SOON, || {
            // A request that waits for the database keeps no other request waiting.
            scope.spawn(|| {
                let answer = holder.read("secret/a");
                is_refused.fetch_or(answer.errors().contains(OUTDATED), Ordering::SeqCst);
            });
            is_refused.load(Ordering::SeqCst)
        });
        one.write("auth/token/revoke", &json!({ "token": token })).expect(204);
        write_round(&one, "secret/a", 2);
        let writing = scope.spawn(|| other.write("secret/a", &json!({ "round": 3 })));
        holder.read("secret/a").refused(503, OUTDATED);
        writing.join().expect("no panic").expect(503);
        place.proxies[1].heal();
    });
    until_true("the node serves again", SOON, || other.read("secret/a").status == 200);
    assert_eq!(round_of(&other, "secret/a"), 2);
    holder.read("secret/a").expect(403);
    write_round(&other, "secret/b", 1);
    until_true("the others see it", SOON, || one.read("secret/b").status == 200);
    other.read("sys/health").expect(200);
    assert!(!place.group.nodes[1].printed().contains("database-claim-lost"));
}

/// A token that is revoked on another node at the moment of the cut is accepted by no request that
/// begins after the answer.
#[test]
fn token_revoked_during_cut_is_never_accepted() {
    let place = ProxiedNodes::start(NodeSeal::Shares);
    let one = place.group.root(0);
    write_round(&one, "secret/a", 1);
    for _ in 0..2 {
        let (holder, token) = place.holder();
        let [refused, after] = [const { AtomicU32::new(0) }; 2];
        thread::scope(|scope| {
            let ask = |is_after: bool| {
                let (holder, refused, after) = (&holder, &refused, &after);
                scope.spawn(move || {
                    let status = holder.read("secret/a").status;
                    if is_after {
                        assert_ne!(status, 200, "a revoked token was accepted");
                        after.fetch_add(1, Ordering::SeqCst);
                    }
                    refused.fetch_add(u32::from(status == 503), Ordering::SeqCst);
                });
            };
            holder.read("secret/a").expect(200);
            (0..8).for_each(|_| ask(false));
            place.cut_off(1);
            (0..8).for_each(|_| ask(false));
            one.write("auth/token/revoke", &json!({ "token": token })).expect(204);
            until_true("the cut-off node refuses", SOON, || {
                ask(true);
                refused.load(Ordering::SeqCst) > 8
            });
            place.proxies[1].heal();
            until_true("the token is refused", SOON, || {
                ask(true);
                holder.read("secret/a").status == 403
            });
        });
        assert!(after.load(Ordering::SeqCst) > 8);
    }
}

#[test]
fn node_without_claim_commits_nothing_and_rejoins() {
    let place = ProxiedNodes::start(NodeSeal::Shares);
    let [one, other] = [0, 1].map(|index| place.group.root(index));
    write_round(&other, "secret/a", 1);
    place.group.nodes[1].signal("STOP");
    place.group.lose_claim(&place.database, (1, 0));
    write_round(&one, "secret/a", 2);
    place.group.nodes[1].signal("CONT");
    let refused = other.write("secret/a", &json!({ "round": 3 }));
    assert_eq!(refused.status, 503, "{refused:?}");
    place.group.nodes[1].wait_for_print("database-claim-lost");
    place.group.nodes[1].wait_for_print("without a sign of life");
    assert_eq!(round_of(&one, "secret/a"), 2);
    // Nobody gives the node a share of its key.
    until_true("the node serves again", SOON, || other.read("secret/a").status == 200);
    assert_eq!(round_of(&other, "secret/a"), 2);
    write_round(&other, "secret/a", 4);
    until_true("the other node reads it", SOON, || round_of(&one, "secret/a") == 4);
}
