//! Tests of due work: order, limits, and a cost that ignores the backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::testing::{ScratchDirectory, edit, plan, put_indexed};
use crate::{IndexColumns, Store};

/// Puts leases in 3 lanes (no lease of `quiet` is ever due), and a timer and a token without a
/// lane.
async fn sample(scratch: &ScratchDirectory) -> Arc<Store> {
    let store = scratch.open().await;
    for (space, key, due, lane) in [
        (Space::Lease, "late", Some(300), "orders"),
        (Space::Lease, "early", Some(100), "orders"),
        (Space::Lease, "other", Some(200), "stock"),
        (Space::Timer, "timer", Some(150), ""),
        (Space::Token, "token", Some(120), ""),
        (Space::Lease, "never", None, "orders"),
        (Space::Lease, "not at all", None, "quiet"),
    ] {
        put_due(&store, Address::new(space, key), due, lane).await;
    }
    store
}

async fn put_due(store: &Arc<Store>, address: Address, due: Option<u64>, lane: &str) {
    let index = IndexColumns { due, lane: lane.into(), owner: String::new() };
    put_indexed(store, address, "x", index).await;
}

/// A name after all lanes.
const END: &str = "~";

async fn lanes(store: &Store, space: Space, until: u64) -> Vec<String> {
    let (mut all, mut next) = (Vec::new(), Some(String::new()));
    while let Some(first) = next {
        let found = store.due_lanes(space, (&first, END), until).await.unwrap();
        all.extend(found.lanes);
        next = found.next;
    }
    all
}

async fn keys(store: &Store, lane: (Space, &str), until: u64, limit: u32) -> Vec<String> {
    let found = store.due_in_lane(lane, until, limit).await.unwrap();
    found.into_iter().map(|due| due.address.key).collect()
}

#[tokio::test]
async fn due_lanes_are_found_by_kind_and_time() {
    let scratch = ScratchDirectory::new();
    let store = sample(&scratch).await;
    assert_eq!(lanes(&store, Space::Lease, u64::MAX).await, ["orders", "stock"]);
    assert_eq!(lanes(&store, Space::Lease, 199).await, ["orders"]);
    assert!(lanes(&store, Space::Lease, 99).await.is_empty());
    assert_eq!(lanes(&store, Space::Timer, 150).await, [""]);
    assert!(lanes(&store, Space::Reservation, u64::MAX).await.is_empty());
    for lane in 0..600 {
        let address = Address::new(Space::Reservation, lane.to_string());
        put_due(&store, address, Some(lane % 2), &format!("lane {lane:03}")).await;
    }
    assert_eq!(lanes(&store, Space::Reservation, 1).await.len(), 600);
    assert_eq!(lanes(&store, Space::Reservation, 0).await.len(), 300);
}

#[tokio::test]
async fn due_records_of_a_lane_come_oldest_first() {
    let scratch = ScratchDirectory::new();
    let store = sample(&scratch).await;
    let orders = (Space::Lease, "orders");
    assert_eq!(keys(&store, orders, u64::MAX, 9).await, ["early", "late"]);
    assert_eq!(keys(&store, orders, u64::MAX, 1).await, ["early"]);
    assert_eq!(keys(&store, orders, 299, 9).await, ["early"]);
    assert!(keys(&store, orders, 99, 9).await.is_empty());
    assert!(keys(&store, orders, u64::MAX, 0).await.is_empty());
    assert_eq!(keys(&store, (Space::Token, ""), 120, 9).await, ["token"]);
}

#[tokio::test]
async fn lane_records_are_counted_up_to_limit() {
    let scratch = ScratchDirectory::new();
    let store = sample(&scratch).await;
    let count =
        async |lane, at_most| store.count_in_lane((Space::Lease, lane), at_most).await.unwrap();
    assert_eq!(count("orders", 9).await, 2, "rows without a due time are not counted");
    assert_eq!(count("orders", 1).await, 1);
    assert_eq!(count("orders", 0).await, 0);
    assert_eq!(count("stock", 9).await, 1);
    assert_eq!(count("quiet", 9).await, 0);
    assert_eq!(store.count_in_lane((Space::Timer, ""), 9).await.unwrap(), 1);
}

#[tokio::test]
async fn next_due_time_is_earliest_optionally_after_moment() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    assert_eq!(store.next_due().await.unwrap(), None);
    drop(store);
    let scratch = ScratchDirectory::new();
    let store = sample(&scratch).await;
    assert_eq!(store.next_due().await.unwrap(), Some(100));
    assert_eq!(store.next_due_after(100).await.unwrap(), Some(120));
    assert_eq!(store.next_due_after(300).await.unwrap(), None);
    assert_eq!(store.next_due_after(u64::MAX).await.unwrap(), None);
}

#[tokio::test]
async fn record_due_at_time_zero_is_found() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put_due(&store, Address::new(Space::Timer, "t"), Some(0), "").await;
    assert_eq!(store.next_due().await.unwrap(), Some(0));
    assert_eq!(keys(&store, (Space::Timer, ""), 0, 9).await, ["t"]);
}

#[tokio::test]
async fn rows_due_before_1970_are_ignored() {
    let scratch = ScratchDirectory::new();
    let store = sample(&scratch).await;
    edit(&store, "UPDATE record SET due = -5 WHERE key = 'early'").await;
    assert_eq!(keys(&store, (Space::Lease, "orders"), u64::MAX, 9).await, ["late"]);
    assert_eq!(store.next_due().await.unwrap(), Some(120));
}

#[tokio::test]
async fn finding_due_work_walks_over_no_backlog() {
    let scratch = ScratchDirectory::of_files();
    let store = sample(&scratch).await;
    for (statement, seeks) in [
        (NEXT_LANES, "record_by_lane_due (space=? AND lane>? AND lane<?"),
        (NEXT_LANES, "record_by_lane_due (space=? AND lane=?"),
        (IN_LANE, "record_by_lane_due (space=? AND lane=? AND due<?)"),
        (IN_LANE_COUNT, "COVERING INDEX record_by_lane_due (space=? AND lane=?"),
        (NEXT_DUE, "COVERING INDEX record_by_due (due>?)"),
    ] {
        let plan = plan(&store, statement).await;
        assert!(plan.contains(seeks), "{plan}");
        assert!(!plan.contains("SCAN record") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}

/// Puts leases of one lane until there are `backlog`.
async fn fill(store: &Arc<Store>, backlog: u32) {
    let mut written = store.count(Space::Lease, "", backlog).await.unwrap();
    while written < backlog {
        let mut unit = store.begin();
        for _ in 0..1_000 {
            let index = IndexColumns { due: Some(1), lane: "m/l".into(), owner: String::new() };
            let address = Address::new(Space::Lease, format!("{written:06}"));
            unit.put(address, b"x".to_vec(), index);
            written += 1;
        }
        unit.commit().await.unwrap();
    }
}

/// Counts the steps of SQLite's virtual machine on the reading connection, which a store with
/// one reader at a time uses for all reads. A walk over records takes steps for each record.
async fn count_steps(store: &Arc<Store>) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    let set = async move |connection: &mut SqliteConnection| {
        let mut handle = connection.lock_handle().await?;
        handle.set_progress_handler(1, move || {
            counter.fetch_add(1, Ordering::Relaxed);
            true
        });
        Ok::<(), sqlx::Error>(())
    };
    store.database().sqlite().readers().read(set).await.unwrap();
    steps
}

async fn look(store: &Store) {
    assert_eq!(lanes(store, Space::Lease, 9).await, ["m/l"]);
    assert_eq!(keys(store, (Space::Lease, "m/l"), 9, 8).await.len(), 8);
    assert_eq!(store.next_due_after(9).await.unwrap(), None);
}

#[tokio::test]
async fn due_work_search_cost_ignores_backlog_length() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let steps = count_steps(&store).await;
    let mut costs = Vec::new();
    for backlog in [1_000, 10_000] {
        fill(&store, backlog).await;
        // The first look prepares the statements.
        look(&store).await;
        let before = steps.load(Ordering::Relaxed);
        look(&store).await;
        costs.push(steps.load(Ordering::Relaxed) - before);
    }
    assert!(costs[0] > 0, "no step was counted");
    assert!(costs[1] < costs[0] * 2, "steps for 1,000 and 10,000 records: {costs:?}");
}
