//! Tests of group commit: shared flushes, individual refusals, and the state after errors.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::*;
use crate::testing::{ScratchDirectory, body, close_readers, data, edit, hold_writer, put};
use crate::{IndexColumns, Space, Store, Unit};

type Commit = Pin<Box<dyn Future<Output = CommitOutcome> + Send>>;

fn writing(store: &Arc<Store>, key: &str, body: impl Into<Vec<u8>>) -> Unit {
    let mut unit = store.begin();
    unit.put(data(key), body.into(), IndexColumns::default());
    unit
}

/// Submits the unit without waiting.
fn submit(unit: Unit) -> Commit {
    let mut commit: Commit = Box::pin(unit.commit());
    assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    commit
}

/// A write in progress: the only writing connection is taken until `end`.
struct OtherWrite {
    end: oneshot::Sender<()>,
    written: tokio::task::JoinHandle<()>,
}

impl OtherWrite {
    async fn begin(store: &Arc<Store>) -> OtherWrite {
        let (begun, has_begun) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let written = tokio::spawn(hold_writer(Arc::clone(store), begun, ended));
        has_begun.await.unwrap();
        OtherWrite { end, written }
    }

    async fn end(self) {
        self.end.send(()).unwrap();
        self.written.await.unwrap();
    }
}

/// Submits the unit during another write, and returns once the unit forms a group of its own that
/// waits for the connection. Without the other write, a quick commit would end unseen.
async fn submit_alone(store: &Arc<Store>, key: &str) -> (OtherWrite, Commit) {
    let other = OtherWrite::begin(store).await;
    let commit = submit(writing(store, key, "x"));
    while !store.cache().is_being_written(&data(key)) {
        tokio::task::yield_now().await;
    }
    (other, commit)
}

/// Submits a unit with the key `first` and then all `units` while another write is in progress, and
/// returns the outcomes of `units`. The unit `first` forms its own group, because the committer
/// takes that unit before the others arrive.
async fn together(store: &Arc<Store>, units: Vec<Unit>) -> Vec<CommitOutcome> {
    let (other, first) = submit_alone(store, "first").await;
    let commits: Vec<Commit> = units.into_iter().map(submit).collect();
    other.end().await;
    first.await.unwrap();
    let mut outcomes = Vec::new();
    for commit in commits {
        outcomes.push(commit.await);
    }
    outcomes
}

/// Returns the bodies of these records, in order.
async fn bodies(store: &Arc<Store>, keys: &[&str]) -> Vec<Option<String>> {
    let mut bodies = Vec::new();
    for key in keys {
        bodies.push(body(store, &data(key)).await);
    }
    bodies
}

#[tokio::test]
async fn lone_client_gets_one_flush_per_write() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let before = (store.commits(), store.flushes());
    for number in 0..20 {
        writing(&store, "a", number.to_string()).commit().await.unwrap();
    }
    assert_eq!((store.commits() - before.0, store.flushes() - before.1), (20, 20));
}

#[tokio::test]
async fn units_that_wait_meanwhile_share_one_flush() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let before = (store.commits(), store.flushes());
    let units =
        (0..50).map(|number| writing(&store, &format!("k{number}"), number.to_string())).collect();
    assert_eq!(together(&store, units).await, vec![Ok(None); 50]);
    assert_eq!((store.commits() - before.0, store.flushes() - before.1), (51, 2));
    for number in 0..50 {
        assert_eq!(body(&store, &data(&format!("k{number}"))).await.unwrap(), number.to_string());
    }
}

#[tokio::test]
async fn overwrites_of_one_record_share_one_flush() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    writing(&store, "a", "x").commit().await.unwrap();
    let mut units = Vec::new();
    for number in 0..50 {
        let mut unit = writing(&store, "b", number.to_string());
        assert!(unit.is_present(&data("a")).await.unwrap());
        unit.put(data("a"), number.to_string().into_bytes(), IndexColumns::default());
        units.push(unit);
    }
    let flushes = store.flushes();
    assert_eq!(together(&store, units).await, vec![Ok(None); 50]);
    assert_eq!(store.flushes() - flushes, 2);
    let written = body(&store, &data("a")).await;
    assert!(written.is_some() && written == body(&store, &data("b")).await, "{written:?}");
}

#[tokio::test]
async fn presence_is_checked_after_earlier_units_of_group() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    writing(&store, "a", "x").commit().await.unwrap();
    let reading = async |is_present: bool| {
        let mut unit = store.begin();
        assert_eq!(unit.is_present(&data("a")).await, Ok(is_present));
        unit.put(data("a"), b"y".to_vec(), IndexColumns::default());
        unit
    };
    let deleting = || {
        let mut unit = store.begin();
        unit.delete(data("a"));
        unit
    };
    let units =
        vec![deleting(), reading(true).await, writing(&store, "a", "z"), reading(true).await];
    let outcomes = together(&store, units).await;
    assert_eq!(outcomes, [Ok(None), Err(StoreFault::Conflict), Ok(None), Ok(None)]);
    deleting().commit().await.unwrap();
    let units = vec![reading(false).await, reading(false).await, deleting(), reading(false).await];
    let outcomes = together(&store, units).await;
    assert_eq!(outcomes, [Ok(None), Err(StoreFault::Conflict), Ok(None), Ok(None)]);
}

#[tokio::test]
async fn group_is_bounded_and_oversize_unit_commits_alone() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let groups = async |units: Vec<Unit>| {
        let (before, count) = (store.flushes(), units.len());
        assert_eq!(together(&store, units).await, vec![Ok(None); count]);
        store.flushes() - before - 1
    };
    let small = |number: usize| writing(&store, &format!("k{number}"), "x");
    let large = |bytes: usize| writing(&store, &format!("k{bytes}"), vec![b'x'; bytes]);
    assert_eq!(groups((0..MOST_UNITS).map(small).collect()).await, 1);
    assert_eq!(groups((0..2 * MOST_UNITS + 1).map(small).collect()).await, 3);
    assert_eq!(groups(vec![large(400_001), large(400_002), large(400_003)]).await, 2);
    assert_eq!(groups(vec![small(1), large(3 << 20), small(2)]).await, 3);
}

#[tokio::test]
async fn later_write_of_key_in_group_wins() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("gone"), "x").await;
    let (mut removal, mut removal_of_new) = (store.begin(), store.begin());
    removal.delete(data("gone"));
    removal_of_new.delete(data("new"));
    let units = vec![
        writing(&store, "a", "1"),
        removal,
        writing(&store, "new", "x"),
        writing(&store, "a", "2"),
        removal_of_new,
        writing(&store, "gone", "back"),
    ];
    assert_eq!(together(&store, units).await, vec![Ok(None); 6]);
    let expected = [Some("2".to_owned()), None, Some("back".to_owned())];
    assert_eq!(bodies(&store, &["a", "new", "gone"]).await, expected);
}

#[tokio::test]
async fn conflicting_unit_is_dropped_from_group_alone() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for key in ["changed", "deleted", "list/a", "list/b"] {
        put(&store, data(key), "old").await;
    }
    let reading = async |key: &str| {
        let mut unit = writing(&store, &format!("by a reader of {key}"), "x");
        unit.get(&data(key)).await.unwrap();
        unit
    };
    let listing = async |after: &str, limit: u32| {
        let mut unit = writing(&store, &format!("by a lister after {after}, {limit}"), "x");
        unit.keys(Space::Data, "list/", after, limit).await.unwrap();
        unit
    };
    let mut earlier = writing(&store, "changed", "new");
    earlier.put(data("absent"), b"new".to_vec(), IndexColumns::default());
    earlier.put(data("list/c"), b"new".to_vec(), IndexColumns::default());
    earlier.delete(data("deleted"));
    earlier.delete(data("list/a"));
    earlier.delete(data("never there"));
    let units = vec![
        earlier,
        reading("changed").await,
        reading("absent").await,
        reading("deleted").await,
        reading("list/b").await,
        reading("never there").await,
        listing("", 9).await,
        listing("", 1).await,
        listing("list/a", 1).await,
        listing("list/a", 2).await,
    ];
    let outcomes: Vec<bool> = together(&store, units).await.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, false, false, true, true, false, false, true, false]);
    assert_eq!(body(&store, &data("by a reader of absent")).await, None);
    assert_eq!(body(&store, &data("by a reader of list/b")).await.unwrap(), "x");
}

#[tokio::test]
async fn indexed_units_number_in_order_without_dropped_ones() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let put = |key: &str| {
        let mut unit = store.begin_revised("m");
        unit.put(data(key), b"x".to_vec(), IndexColumns::default());
        unit
    };
    let delete = |key: &str| {
        let mut unit = store.begin_revised("m");
        unit.delete(data(key));
        unit
    };
    let mut conflicting = put("m/never");
    conflicting.get(&data("m/a")).await.unwrap();
    let units = vec![
        put("m/a"),
        put("m/b"),
        conflicting,
        put("m/a"),
        delete("m/b"),
        writing(&store, "m/c", "x"),
        put("m/b"),
    ];
    let outcomes = together(&store, units).await;
    let conflict = Err(StoreFault::Conflict);
    assert_eq!(
        outcomes,
        [Ok(Some(1)), Ok(Some(2)), conflict, Ok(Some(3)), Ok(Some(4)), Ok(None), Ok(Some(5))]
    );
    for (key, numbers) in [("m/a", (1, 3)), ("m/b", (5, 5)), ("m/c", (0, 0))] {
        let record = store.begin().get(&data(key)).await.unwrap().unwrap();
        assert_eq!((record.created, record.modified), numbers, "{key}");
    }
    assert_eq!(store.revision("m").await.unwrap(), 5);
}

#[tokio::test]
async fn units_of_failed_group_are_tried_alone() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    edit(
        &store,
        "CREATE TRIGGER no BEFORE INSERT ON record WHEN new.key = 'poison' \
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .await;
    let before = (store.commits(), store.flushes());
    let units = ["a", "poison", "b"].map(|key| writing(&store, key, "x"));
    let outcomes = together(&store, units.into()).await;
    let Err(StoreFault::Unavailable(text)) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
    assert!(text.contains("nothing was acknowledged"), "{text}");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(None), &Ok(None)));
    assert_eq!((store.commits() - before.0, store.flushes() - before.1), (3, 3));
    assert_eq!(
        bodies(&store, &["a", "poison", "b"]).await,
        [Some("x".into()), None, Some("x".into())]
    );
}

#[tokio::test]
async fn commit_refused_at_end_is_never_reported_stored() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    edit(
        &store,
        "CREATE TABLE parent (id INTEGER PRIMARY KEY); \
         CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED); \
         CREATE TRIGGER orphan AFTER INSERT ON record WHEN new.key = 'poison' \
         BEGIN INSERT INTO child VALUES (1); END",
    )
    .await;
    let units = ["a", "poison", "b"].map(|key| writing(&store, key, "x"));
    let outcomes = together(&store, units.into()).await;
    let Err(StoreFault::Unavailable(text)) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
    assert!(text.contains("nothing was stored"), "{text}");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(None), &Ok(None)));
    assert_eq!(
        bodies(&store, &["a", "poison", "b"]).await,
        [Some("x".into()), None, Some("x".into())]
    );
}

#[tokio::test]
async fn closing_awaits_running_group_and_refuses_rest() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (other, under_way) = submit_alone(&store, "a").await;
    let waiting = submit(writing(&store, "b", "x"));
    // A close whose readers are closed queues for the connection at once: behind `a`, before `b`.
    close_readers(&store).await;
    let mut closing = Box::pin(store.close());
    assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    other.end().await;
    closing.await;
    under_way.await.unwrap();
    assert!(matches!(waiting.await, Err(StoreFault::Unavailable(text)) if text.contains("closed")));
    let store = scratch.open().await;
    assert_eq!(bodies(&store, &["a", "b"]).await, [Some("x".into()), None]);
}

/// Needs the feature `fault`: without it no fault can be injected.
#[cfg(feature = "fault")]
#[test]
fn commit_with_lost_answer_is_found_by_stamps() {
    use std::process::Command;
    let run = |plan: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "committer::tests::two_units_are_stored_under_every_injected_fault"]);
        child.env(bulkhead_record::failpoint::VARIABLE, plan).output().unwrap()
    };
    // The schema passes every point first, and the write in progress meanwhile begins and gives up;
    // then come a single unit and a group of two.
    for (point, alone) in [("commit.begin", 3), ("commit.planned", 2), ("commit.flushed", 2)] {
        for nth in [alone, alone + 1] {
            let output = run(&format!("fail@{point}:{nth}"));
            assert!(
                output.status.success(),
                "{point}:{nth}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
        let output = run(&format!("abort@{point}:{alone}"));
        assert!(!output.status.success(), "{point}");
    }
    assert!(!run("abort@nonsense").status.success());
}

#[tokio::test]
async fn two_units_are_stored_under_every_injected_fault() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let units = ["a", "b"].map(|key| writing(&store, key, "x"));
    assert_eq!(together(&store, units.into()).await, [Ok(None), Ok(None)]);
    assert_eq!(store.commits(), 3);
    assert_eq!(
        bodies(&store, &["first", "a", "b"]).await,
        ["x", "x", "x"].map(|body| Some(body.to_owned()))
    );
}
