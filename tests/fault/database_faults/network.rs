//! A slow, interrupted or refusing network between the server and its database.

use super::place::StorePlace;
use crate::stage::thorough;
use bulkhead_tests::database_proxy::{CutPlace, Direction, MessageChoice};
use bulkhead_tests::wait::until_true;
use std::time::{Duration, Instant};

/// Delay of each message in a slow network.
const SLOW: Duration = Duration::from_millis(200);

/// Longest answer to a write on a connection that carries nothing: the limits of a statement and of
/// a connection, and a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(90);

#[test]
fn slow_network_delays_and_refuses_nothing() {
    let mut place = StorePlace::shared("slow");
    place.proxy.delay(SLOW);
    let start = Instant::now();
    for _ in 0..2 {
        let answer = place.work.step(&place.store.root()).expect("an answer");
        assert!(answer.status < 300, "{answer:?}");
    }
    assert!(start.elapsed() > SLOW * 6, "{:?}", start.elapsed());
    assert_eq!(place.store.conditions(), Vec::<String>::new());
    place.proxy.heal();
    place.assert_nothing_is_lost();
}

#[test]
fn reset_connections_are_replaced_unnoticed() {
    let mut place = StorePlace::shared("resets");
    for _ in 0..3 {
        place.proxy.reset_all();
        place.work_in_peace();
        place.proxy.close_all();
        place.work_in_peace();
    }
    place.assert_nothing_is_lost();
    assert_eq!(place.store.count_lines("health-degraded"), 0);
}

#[test]
fn refused_connections_are_a_condition_until_recovery() {
    let mut place = StorePlace::shared("refusing");
    place.work_in_peace();
    let before = place.store.printed_bytes();
    place.proxy.refuse();
    place.proxy.reset_all();
    let refused = place.store.wait_until_refused("writes-refused");
    place.store.wait_for_cause(&refused, (before, "cannot be reached"));
    place.work.step(&place.store.root()).expect("an answer");
    place.proxy.heal();
    // Nobody writes: the server finds the database by itself.
    place.store.wait_until_healthy();
    place.work_in_peace();
    assert_eq!(place.store.count_lines("health-degraded"), 1);
    assert_eq!(place.store.count_lines("health-restored"), 1);
    place.assert_nothing_is_lost();
}

#[test]
fn stalled_idle_connections_are_given_up_in_time() {
    stall(Direction::ToServer, "stalled");
}

/// The connection stalls within a transaction, which lasts for the limit of a statement.
#[test]
fn stalled_transaction_is_given_up_in_time() {
    if thorough() {
        stall(Direction::ToClient, "stalled_answers");
    }
}

/// Stalls all connections in one direction: nothing closes them. Each write is answered in bounded
/// time, and the service is back after the stall.
fn stall(direction: Direction, name: &str) {
    let mut place = StorePlace::shared(name);
    place.work_in_peace();
    place.proxy.stall(direction);
    let start = Instant::now();
    let refused = place.store.wait_until_refused("writes-refused");
    assert!(start.elapsed() < GIVEN_UP, "{:?}: {refused:?}", start.elapsed());
    place.proxy.heal();
    // The claim of the node may have been in doubt. The server confirms the claim by itself.
    place.store.wait_until_healthy();
    place.work_until_healthy();
    place.assert_nothing_is_lost();
}

/// A commit is cut while no new connection is possible: the outcome is found once the database is
/// back.
#[test]
fn lost_commit_is_found_after_outage() {
    let mut place = StorePlace::shared("outage");
    place.work_in_peace();
    for cut in [CutPlace::Before, CutPlace::After] {
        // Opens connections for the reads, because new connections are refused.
        place.work.check(&place.store.root());
        place.work_in_peace();
        place.proxy.refuse();
        place.proxy.cut(MessageChoice::Query("COMMIT"), cut);
        let (root, proxy, work) = (place.store.root(), &place.proxy, &mut place.work);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| work.step(&root).expect("an answer"));
            until_true("the commit is cut", GIVEN_UP, || proxy.has_cut());
            let refused = proxy.count_refused();
            until_true("the outcome is searched", GIVEN_UP, || proxy.count_refused() > refused + 3);
            proxy.heal();
            let answer = writing.join().expect("the writer ends");
            assert!(answer.status < 300, "{cut:?}: {answer:?}");
        });
    }
    place.assert_nothing_is_lost();
}
