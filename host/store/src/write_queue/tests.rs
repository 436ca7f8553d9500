//! Tests of turns: order, giving way, and that no request waits for ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Waker};

use super::*;
use crate::testing::{ScratchDirectory, body, data, put};
use crate::{IndexColumns, Space, Store, StoreFault};

type Wait<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

fn record(key: &str) -> ContendedKey {
    ContendedKey::Record(data(key))
}

fn turn(turns: &Arc<WriteQueue>, met: &[ContendedKey]) -> QueueTicket {
    turn_of(TURN_TIME, turns, met)
}

fn turn_of(time: Duration, turns: &Arc<WriteQueue>, met: &[ContendedKey]) -> QueueTicket {
    let turn = QueueTicket::new(turns, time);
    met.iter().for_each(|one| turn.state().report(one.clone()));
    turn
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn is_waiting(wait: &mut Wait<'_>) -> bool {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn gives_way(turn: &QueueTicket, key: &str) -> bool {
    turn.state().yield_to_others([&data(key)].into_iter()).is_some()
}

#[tokio::test]
async fn write_turns_follow_arrival_order() {
    let turns = Arc::default();
    let [first, second, third] = [(); 3].map(|()| turn(&turns, &[record("a")]));
    assert!(first.wait(later()).await);
    let mut second_waits: Wait<'_> = Box::pin(second.wait(later()));
    let mut third_waits: Wait<'_> = Box::pin(third.wait(later()));
    assert!(is_waiting(&mut second_waits) && is_waiting(&mut third_waits));
    drop(first);
    assert!(is_waiting(&mut third_waits), "behind the second");
    assert!(!is_waiting(&mut second_waits));
    drop(second_waits);
    drop(second);
    assert!(third_waits.await);
}

#[tokio::test]
async fn a_request_that_met_nothing_waits_for_nothing() {
    let turns = Arc::default();
    let (busy, idle) = (turn(&turns, &[record("a")]), turn(&turns, &[]));
    assert!(busy.wait(later()).await);
    assert!(!idle.wait(later()).await);
}

#[tokio::test]
async fn only_turn_holder_writes_contended_keys() {
    let turns = Arc::default();
    let listing = ContendedKey::Listing(KeyRange::new(Space::Data, "list/", ""));
    let (first, second) = (turn(&turns, &[record("a"), listing]), turn(&turns, &[]));
    assert!(!gives_way(&second, "a"), "no turn has begun");
    assert!(first.wait(later()).await);
    assert!(gives_way(&second, "a") && gives_way(&second, "list/x"));
    assert!(second.state().take_yielded() && !second.state().take_yielded(), "asked once");
    assert!(!gives_way(&second, "b") && !gives_way(&first, "a") && !gives_way(&first, "list/x"));
    drop(first);
    assert!(!gives_way(&second, "a") && !gives_way(&second, "list/x"));
    assert!(turns.lock().lines.is_empty() && turns.lock().ranges.is_empty());
}

#[tokio::test]
async fn units_queueing_in_opposite_order_do_not_deadlock() {
    let turns = Arc::default();
    let one = turn(&turns, &[record("a"), record("b")]);
    let other = turn(&turns, &[record("b"), record("a")]);
    assert!(one.wait(later()).await);
    let mut waits: Wait<'_> = Box::pin(other.wait(later()));
    assert!(is_waiting(&mut waits));
    // `one` meets a conflict for which it must queue again, behind `other`.
    one.state().report(record("c"));
    let mut again: Wait<'_> = Box::pin(one.wait(later()));
    assert!(is_waiting(&mut again), "the other one's turn came");
    assert!(!is_waiting(&mut waits));
    drop(waits);
    drop(other);
    assert!(again.await);
}

#[tokio::test]
async fn one_that_waits_no_longer_is_passed_over() {
    let turns = Arc::default();
    let [first, second, third] = [(); 3].map(|()| turn(&turns, &[record("a")]));
    assert!(first.wait(later()).await);
    let mut second_waits: Wait<'_> = Box::pin(second.wait(later()));
    let mut third_waits: Wait<'_> = Box::pin(third.wait(later()));
    assert!(is_waiting(&mut second_waits) && is_waiting(&mut third_waits));
    drop(second_waits);
    drop(second);
    drop(first);
    assert!(third_waits.await);
}

#[tokio::test]
async fn overlong_turn_blocks_no_other_unit() {
    let turns = Arc::default();
    let (slow, next) = (turn(&turns, &[record("a")]), turn(&turns, &[record("a")]));
    assert!(slow.wait(later()).await);
    let began = Instant::now();
    assert!(next.wait(later()).await);
    assert!(began.elapsed() >= TURN_TIME);
    assert!(gives_way(&slow, "a") && !gives_way(&next, "a"), "the turn of the slow unit is over");
}

#[tokio::test]
async fn due_work_blocks_due_work_longer_than_requests() {
    let turns = Arc::default();
    let due = || turn_of(DUE_TURN_TIME, &turns, &[record("a")]);
    let (first, second, third, request) = (due(), due(), due(), turn(&turns, &[record("a")]));
    assert!(first.wait(later()).await);
    let began = Instant::now();
    let until = began + TURN_TIME * 3 / 2;
    assert!(second.wait(until).await);
    assert!(began.elapsed() >= TURN_TIME * 3 / 2, "the turn of the first is not over");
    assert!(gives_way(&third, "a"), "other due work waits for due work");
    assert!(!gives_way(&request, "a"), "a request does not wait for due work");
    assert!(request.wait(later()).await, "the slow are passed over");
    assert!(gives_way(&third, "a"));
}

#[tokio::test]
async fn nobody_waits_longer_than_said() {
    let turns = Arc::default();
    let (slow, next) = (turn(&turns, &[record("a")]), turn(&turns, &[record("a")]));
    assert!(slow.wait(later()).await);
    let began = Instant::now();
    assert!(next.wait(began + TURN_TIME / 2).await);
    assert!(began.elapsed() >= TURN_TIME / 2);
    assert!(
        !gives_way(&slow, "a") && gives_way(&next, "a"),
        "a unit without a turn waits for nothing"
    );
}

/// Increments a number, like a request that retries after conflicts.
async fn increment(store: Arc<Store>, key: &str, tries: &AtomicU32) {
    let turn = store.queue_ticket();
    loop {
        tries.fetch_add(1, Ordering::Relaxed);
        let mut unit = store.begin().with_ticket(&turn);
        let found = unit.get(&data(key)).await.unwrap().unwrap();
        let number: u32 = std::str::from_utf8(&found.body).unwrap().parse().unwrap();
        unit.put(data(key), (number + 1).to_string().into_bytes(), IndexColumns::default());
        match unit.commit().await {
            Ok(_) => return,
            Err(fault) => assert_eq!(fault, StoreFault::Conflict),
        }
        assert!(turn.wait(later()).await, "the loser queues for the contended key");
    }
}

#[tokio::test]
async fn all_writers_of_record_succeed_with_few_restarts() {
    const WRITERS: u32 = 200;
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("n"), "0").await;
    let tries = Arc::new(AtomicU32::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, tries) = (Arc::clone(&store), Arc::clone(&tries));
            tokio::spawn(async move { increment(store, "n", &tries).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(body(&store, &data("n")).await.unwrap(), WRITERS.to_string());
    // A first try that meets the others, a second try in turn, and a few tries that met a unit in
    // progress.
    let tries = tries.load(Ordering::Relaxed);
    assert!(tries <= 3 * WRITERS, "{tries}");
}

#[tokio::test]
async fn one_that_insists_gives_way_to_no_turn() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "0").await;
    let (holder, other) = (store.queue_ticket(), store.queue_ticket());
    holder.state().report(record("a"));
    assert!(holder.wait(later()).await);
    let write = async |insists: bool| {
        let mut unit = store.begin().with_ticket(&other);
        unit.put(data("a"), b"1".to_vec(), IndexColumns::default());
        if insists {
            unit.mark_effectful();
        }
        unit.commit().await
    };
    assert_eq!(write(false).await, Err(StoreFault::Conflict));
    assert_eq!(write(true).await, Ok(None));
    let mut without_turn = store.begin();
    without_turn.put(data("a"), b"2".to_vec(), IndexColumns::default());
    assert_eq!(without_turn.commit().await, Ok(None));
}

#[tokio::test]
async fn unit_that_gives_way_early_queues_behind_turn() {
    let store = ScratchDirectory::new().open().await;
    let (busy, newcomer) = (store.queue_ticket(), store.queue_ticket());
    busy.state().report(record("a"));
    assert!(busy.wait(later()).await);
    let unit = store.begin().with_ticket(&newcomer);
    assert_eq!(unit.give_way(&data("b")), Ok(()));
    assert!(!newcomer.wait(later()).await, "nothing to wait for");
    assert_eq!(unit.give_way(&data("a")), Err(StoreFault::Conflict));
    let mut waits: Wait<'_> = Box::pin(newcomer.wait(later()));
    assert!(is_waiting(&mut waits));
    drop(busy);
    assert!(!is_waiting(&mut waits));
    assert_eq!(unit.give_way(&data("a")), Ok(()), "the own turn");
}
