//! Tests of store time across processes, with clocks that are set in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::tests::TestClock;
use crate::testing::{ScratchDirectory, data, edit, put};
use crate::{ClockBehind, DataDirectory, SealConfig, SealKey, SecretHasher, Store};

/// Opens the data as the next process does, with the clocks of `hands`.
async fn next_process(
    scratch: &ScratchDirectory,
    hands: &TestClock,
) -> (Arc<DataDirectory>, Arc<Store>) {
    let directory = DataDirectory::hold_by(scratch.options(), hands.clock()).await.unwrap();
    let store = directory.open(SealKey::from_bytes([1; 32])).await.unwrap();
    (directory, store)
}

/// Initialises data and opens them as a process does.
async fn first_process(
    scratch: &ScratchDirectory,
    hands: &TestClock,
) -> (Arc<DataDirectory>, Arc<Store>) {
    let directory = DataDirectory::hold_by(scratch.options(), hands.clock()).await.unwrap();
    directory
        .initialise(
            crate::FirstKeys::of_holders(SealConfig::SINGLE, &SealKey::from_bytes([1; 32])),
            |_: &SecretHasher| Ok(Vec::new()),
        )
        .await
        .unwrap();
    drop(directory);
    next_process(scratch, hands).await
}

const TWO_HOURS: i64 = 7_200_000;
const TEN_YEARS: i64 = 315_360_000_000;

#[tokio::test]
async fn restart_with_clock_set_back_keeps_store_time() {
    let (scratch, hands) = (ScratchDirectory::of_files(), TestClock::new());
    let (directory, store) = first_process(&scratch, &hands).await;
    hands.pass(30_000);
    put(&store, data("bears a time"), "x").await;
    let reached = store.now();
    // The process is killed: nothing more is written.
    let crashed = scratch.crashed();
    drop((directory, store));
    hands.set(-TWO_HOURS);
    let (directory, store) = next_process(&crashed, &hands).await;
    assert_eq!((store.now(), directory.now()), (reached, reached));
    let system = reached - TWO_HOURS as u64;
    let behind = ClockBehind { system, store: reached };
    assert_eq!((store.take_clock_behind(), store.take_clock_behind()), (Some(behind), None));
    assert_eq!(store.clock_jump(), None, "a jump is reported once");
    hands.pass(5_000);
    assert_eq!(store.now(), reached + 5_000);
}

#[tokio::test]
async fn mark_request_marks_idle_or_closed_store_once() {
    let (scratch, hands) = (ScratchDirectory::new(), TestClock::new());
    let (directory, store) = first_process(&scratch, &hands).await;
    hands.pass(59_000);
    let minute = Duration::from_secs(60);
    store.mark_time(minute).await.unwrap();
    let first = store.now();
    hands.pass(59_000);
    store.mark_time(minute).await.unwrap();
    let flushed = store.flushes();
    assert_eq!(flushed, 1, "the mark is 59 s old");
    hands.pass(1_000);
    store.mark_time(minute).await.unwrap();
    assert_eq!(store.flushes(), flushed + 1);
    hands.pass(100);
    store.mark_time(Duration::ZERO).await.unwrap();
    store.close().await;
    drop((directory, store));
    hands.set(-TWO_HOURS);
    let (_directory, store) = next_process(&scratch, &hands).await;
    assert_eq!(store.now(), first + 60_100);
}

#[tokio::test]
async fn future_mark_never_stops_time_and_is_removable() {
    let (scratch, hands) = (ScratchDirectory::new(), TestClock::new());
    hands.set(TEN_YEARS);
    let (directory, store) = first_process(&scratch, &hands).await;
    let wrong = store.now();
    store.close().await;
    drop((directory, store));
    hands.set(-TEN_YEARS);
    let (directory, store) = next_process(&scratch, &hands).await;
    assert_eq!(store.now(), wrong);
    hands.pass(5_000);
    assert_eq!(store.now(), wrong + 5_000);
    edit(&store, "DELETE FROM meta WHERE name = 'time'").await;
    store.close().await;
    drop((directory, store));
    let (directory, store) = next_process(&scratch, &hands).await;
    assert_eq!(store.now(), wrong + 5_000 - TEN_YEARS as u64);
    edit(&store, "INSERT INTO meta VALUES ('time', x'00')").await;
    store.close().await;
    drop((directory, store));
    let refused = DataDirectory::hold(scratch.options()).await.err().unwrap().to_string();
    assert!(refused.contains("\"time\""), "{refused}");
}

#[tokio::test]
async fn commits_mark_time_each_second_without_extra_flush() {
    let (scratch, hands) = (ScratchDirectory::new(), TestClock::new());
    let (_directory, store) = first_process(&scratch, &hands).await;
    let mut marks = BTreeSet::new();
    for number in 0..20 {
        put(&store, data(&number.to_string()), "x").await;
        let rows = store.database().identity_rows().await.unwrap();
        let mark: u64 = String::from_utf8(rows["time"].clone()).unwrap().parse().unwrap();
        assert!((store.now() - 999..=store.now()).contains(&mark), "{mark}");
        marks.insert(mark);
        hands.pass(100);
    }
    assert_eq!((marks.len(), store.flushes()), (2, 20));
}
