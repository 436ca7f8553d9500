//! Tests of the figures: each act moves the figures that describe the act, and no other figure.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::testing::{ScratchDirectory, body, data, put};
use crate::{Address, IndexColumns, Space, Store, StoreFault, Unit};

async fn opened() -> (ScratchDirectory, Arc<Store>) {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    (scratch, store)
}

fn writing(store: &Arc<Store>, keys: &[&str]) -> Unit {
    let mut unit = store.begin();
    keys.iter().for_each(|key| unit.put(data(key), b"1".to_vec(), IndexColumns::default()));
    unit
}

#[tokio::test]
async fn commits_count_units_rows_and_flush_times() {
    let (_scratch, store) = opened().await;
    let before = store.activity();
    writing(&store, &["a", "b"]).commit().await.unwrap();
    let mut unit = store.begin();
    unit.delete(data("a"));
    unit.commit().await.unwrap();
    store.begin().commit().await.unwrap();
    let after = store.activity();
    assert_eq!((after.commits - before.commits, after.flushes - before.flushes), (2, 2));
    assert_eq!(after.rows_written - before.rows_written, 3);
    assert_eq!(after.flush_time.count - before.flush_time.count, 2);
    assert!(after.flush_time.sum > before.flush_time.sum, "{:?}", after.flush_time);
    assert_eq!((after.conflicts, store.commits()), (0, after.commits));
}

#[tokio::test]
async fn group_counts_shared_flush_and_row_once() {
    let (_scratch, store) = opened().await;
    let before = store.activity();
    let units = (0..5).map(|_| writing(&store, &["shared"]).commit());
    let outcomes = futures_util::future::join_all(units).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let after = store.activity();
    let flushes = after.flushes - before.flushes;
    assert_eq!(after.commits - before.commits, 5);
    assert_eq!(after.rows_written - before.rows_written, flushes, "a row in each group");
    assert!(flushes < 5, "{flushes} flushes");
}

#[tokio::test]
async fn refused_writes_checks_and_repeated_reads_are_conflicts() {
    let (_scratch, store) = opened().await;
    put(&store, data("a"), "1").await;
    let (mut writer, mut checked) = (store.begin(), store.begin());
    let mut repeated = store.begin();
    for unit in [&mut writer, &mut checked, &mut repeated] {
        unit.get(&data("a")).await.unwrap();
    }
    checked.get(&data("b")).await.unwrap();
    put(&store, data("a"), "2").await;
    let before = store.activity();
    writer.put(data("b"), b"1".to_vec(), IndexColumns::default());
    assert_eq!(writer.commit().await, Err(StoreFault::Conflict));
    assert_eq!(store.activity().conflicts - before.conflicts, 1);
    assert_eq!(checked.commit().await, Err(StoreFault::Conflict));
    assert_eq!(store.activity().conflicts - before.conflicts, 2);
    assert_eq!(repeated.get(&data("a")).await.err(), Some(StoreFault::Conflict));
    assert_eq!(repeated.commit().await, Err(StoreFault::Conflict));
    let after = store.activity();
    assert_eq!(after.conflicts - before.conflicts, 3, "a spoiled unit counts once");
    assert_eq!((after.commits, after.flushes), (before.commits, before.flushes));
}

#[tokio::test]
async fn reads_count_cache_hits_misses_and_queries() {
    let (_scratch, store) = opened().await;
    put(&store, data("a"), "1").await;
    let before = store.activity();
    for _ in 0..3 {
        body(&store, &data("a")).await.unwrap();
    }
    let after = store.activity();
    let (hits, misses) =
        (after.cache_hits - before.cache_hits, after.cache_misses - before.cache_misses);
    assert_eq!((hits, misses, after.read_queries - before.read_queries), (2, 1, 1));
    assert_eq!(after.cache_entries, before.cache_entries + 1);
    assert!(after.cache_bytes > before.cache_bytes);
    store.count(Space::Lease, "", 9).await.unwrap();
    assert_eq!(store.activity().read_queries, after.read_queries + 1);
    let lease = Address::new(Space::Lease, "a");
    for _ in 0..2 {
        assert_eq!(body(&store, &lease).await, None);
    }
    assert_eq!(store.activity().cache_misses, after.cache_misses + 2, "leases are not cached");
    assert_eq!(store.activity().cache_entries, after.cache_entries);
}

#[tokio::test]
async fn sizes_match_files_and_closed_log() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let before = store.activity();
    assert!(before.database_bytes.is_some_and(|bytes| bytes > 0));
    put(&store, data("a"), &"x".repeat(100_000)).await;
    let after = store.activity();
    assert!(after.log_bytes >= before.log_bytes.map(|bytes| bytes + 100_000), "{after:?}");
    let files = scratch.files();
    let size = |name: &str| files.get(name).map(|content| content.len() as u64);
    assert_eq!(after.database_bytes, size("bulkhead.db"));
    assert_eq!(after.log_bytes, size("bulkhead.db-wal"));
    store.close().await;
    assert_eq!(store.activity().log_bytes, Some(0), "the log ends with the last connection");
}

#[tokio::test]
async fn queued_requests_are_counted_until_they_leave() {
    let (_scratch, store) = opened().await;
    put(&store, data("a"), "1").await;
    let ticket = store.queue_ticket();
    let mut unit = store.begin().with_ticket(&ticket);
    unit.get(&data("a")).await.unwrap();
    put(&store, data("a"), "2").await;
    unit.put(data("a"), b"3".to_vec(), IndexColumns::default());
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    assert_eq!(store.activity().queued_requests, 0, "nothing waits before the retry");
    assert!(ticket.wait(Instant::now() + Duration::from_secs(9)).await);
    assert_eq!(store.activity().queued_requests, 1);
    drop(ticket);
    assert_eq!(store.activity().queued_requests, 0);
}
