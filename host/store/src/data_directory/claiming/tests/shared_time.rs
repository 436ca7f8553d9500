//! Tests of the store time of nodes that share a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::shared_database::{Pair, hold_shared_by, open_shared};
use crate::clock::{ClockReadings, StoreClock, system_milliseconds};
use crate::identity;
use crate::testing::{ScratchDirectory, TestDatabase, data, numbers, put};
use crate::{SealKey, StoreFault};
use bulkhead_place::claim_watch::ClaimTimes;
use bulkhead_place::steady_clock::steady_milliseconds;

/// A clock of a machine that is ahead of this machine by the number of milliseconds.
fn clock_ahead(by: &Arc<AtomicI64>) -> StoreClock {
    let by = Arc::clone(by);
    StoreClock::reading(move || ClockReadings {
        system: system_milliseconds().saturating_add_signed(by.load(Ordering::Relaxed)),
        steady: steady_milliseconds(),
    })
}

#[tokio::test]
async fn clock_minute_apart_is_refused_with_both_times() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    scratch.open().await.close().await;
    let beside = scratch.beside();
    let store = open_shared(&beside, ClaimTimes::default()).await.unwrap();
    for by in [60_000, -60_000] {
        let clock = clock_ahead(&Arc::new(AtomicI64::new(by)));
        let directory = hold_shared_by(&scratch, ClaimTimes::default(), clock).await.unwrap();
        let refused = directory.open(SealKey::from_bytes([1; 32])).await.map(drop);
        let Err(StoreFault::Refused(why)) = refused else { panic!("{refused:?}") };
        let times = why.matches("T").count();
        assert!(times >= 2 && why.contains("clock of the database server"), "{why}");
        assert_eq!(store.living_epochs().await.unwrap().len(), 1, "no claim was taken");
    }
}

#[tokio::test]
async fn nodes_with_different_clocks_have_same_time() {
    let pair = Pair::open().await;
    let ahead = Arc::new(AtomicI64::new(5_000));
    let beside = pair.directories.0.beside();
    let directory =
        hold_shared_by(&beside, ClaimTimes::default(), clock_ahead(&ahead)).await.unwrap();
    let third = directory.open(SealKey::from_bytes([1; 32])).await.unwrap();
    let of_database = third.database().read_clock().await.unwrap().unwrap();
    for store in [&pair.one, &pair.other, &third] {
        let apart = store.now().abs_diff(of_database);
        assert!(apart < 2_000, "{apart}");
    }
    // The clock of the machine does not matter while the node runs.
    ahead.store(3_600_000, Ordering::Relaxed);
    third.data().changes.await_next().await.unwrap();
    assert!(third.now().abs_diff(of_database) < 10_000);
    put(&third, data("a"), "1").await;
    let mark = "SELECT CAST(encode(value, 'escape') AS bigint) FROM meta WHERE name = 'time'";
    let mark = u64::try_from(numbers(&pair.one, mark).await[0]).unwrap();
    assert!(mark.abs_diff(of_database) < 10_000, "{mark}");
}

#[tokio::test]
async fn store_time_of_running_node_follows_database() {
    let pair = Pair::open().await;
    let (before, of_database) = (pair.one.now(), pair.one.database().read_clock().await.unwrap());
    // As if the clock of the machine had drifted from the clock of the database.
    pair.one.data().correct_clock(3_000);
    assert!(pair.one.now() >= before + 3_000);
    let mut last = pair.one.now();
    while pair.one.now().saturating_sub(pair.other.now()) > 500 {
        pair.one.data().changes.await_next().await.unwrap();
        assert!(pair.one.now() >= last, "store time went back");
        last = pair.one.now();
    }
    assert!(pair.one.now() >= of_database.unwrap());
}

#[tokio::test]
async fn mark_of_other_node_counts_and_never_falls() {
    let pair = Pair::open().await;
    let mark = pair.one.now() + 60_000;
    let rows = vec![identity::time_row(mark)];
    pair.one.database().change_identity(rows).await.unwrap();
    pair.catch_up().await;
    assert_eq!(pair.other.data().time.due(), None, "one node writes the mark");
    for lower in [mark - 1, 9] {
        let rows = vec![identity::time_row(lower)];
        pair.other.database().change_identity(rows).await.unwrap();
        let rows = pair.one.database().identity_rows().await.unwrap();
        assert_eq!(rows["time"], mark.to_string().into_bytes());
    }
    pair.other.database().change_identity(vec![identity::time_row(mark + 1)]).await.unwrap();
    let rows = pair.one.database().identity_rows().await.unwrap();
    assert_eq!(rows["time"], (mark + 1).to_string().into_bytes());
}
