//! Tests of units of work: visible state, and reasons to refuse a commit.

use super::finish::MOST_ATTEMPTS;
use super::*;
use crate::testing::{ScratchDirectory, body, data, edit, put};

fn write(unit: &mut Unit, key: &str, body: &str) {
    unit.put(data(key), body.as_bytes().to_vec(), IndexColumns::default());
}

async fn listed(unit: &mut Unit, prefix: &str, after: &str, limit: u32) -> Vec<String> {
    unit.keys(Space::Data, prefix, after, limit).await.unwrap()
}

#[tokio::test]
async fn second_update_of_same_state_is_conflict() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("counter"), "1").await;
    let (mut first, mut second) = (store.begin(), store.begin());
    for unit in [&mut first, &mut second] {
        unit.get(&data("counter")).await.unwrap();
    }
    write(&mut first, "counter", "first");
    write(&mut second, "counter", "second");
    first.commit().await.unwrap();
    assert_eq!(second.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("counter")).await.unwrap(), "first");
}

#[tokio::test]
async fn crossed_reads_and_writes_commit_only_once() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "on call").await;
    put(&store, data("b"), "on call").await;
    let (mut first, mut second) = (store.begin(), store.begin());
    for unit in [&mut first, &mut second] {
        unit.get(&data("a")).await.unwrap();
        unit.get(&data("b")).await.unwrap();
    }
    write(&mut first, "a", "off");
    write(&mut second, "b", "off");
    first.commit().await.unwrap();
    assert_eq!(second.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("b")).await.unwrap(), "on call");
}

#[tokio::test]
async fn appearance_of_key_read_as_absent_conflicts() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    assert!(unit.get(&data("taken")).await.unwrap().is_none());
    put(&store, data("taken"), "by another").await;
    write(&mut unit, "mine", "because the other was absent");
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("mine")).await, None);
}

#[tokio::test]
async fn asserted_absence_takes_no_read_and_conflicts() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (mut first, mut second) = (store.begin(), store.begin());
    let before = store.activity().read_queries;
    for unit in [&mut first, &mut second] {
        unit.assert_absent(&data("random")).unwrap();
        write(unit, "random", "new");
    }
    assert_eq!(store.activity().read_queries, before);
    first.commit().await.unwrap();
    assert_eq!(second.commit().await, Err(StoreFault::Conflict));
    let mut third = store.begin();
    assert!(third.get(&data("random")).await.unwrap().is_some());
    assert_eq!(third.assert_absent(&data("random")), Err(StoreFault::Conflict));
}

/// Reads the presence of `role` in `unit`, and overwrites the record without reading it.
async fn overwrite_present(unit: &mut Unit, body: &str) {
    assert!(unit.is_present(&data("role")).await.unwrap());
    write(unit, "role", body);
}

#[tokio::test]
async fn overwrites_that_read_presence_alone_never_conflict() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "x").await;
    let (mut first, mut second, mut reader) = (store.begin(), store.begin(), store.begin());
    overwrite_present(&mut first, "first").await;
    overwrite_present(&mut second, "second").await;
    overwrite_present(&mut reader, "of a reader").await;
    assert_eq!(first.commit().await, Ok(None));
    assert_eq!(second.commit().await, Ok(None));
    assert_eq!(body(&store, &data("role")).await.unwrap(), "second");
    assert_eq!(kept(&store, "role").unwrap(), b"second");
    // The own write is present, and a read of the content relies on the content.
    assert!(reader.is_present(&data("role")).await.unwrap());
    let mut content = store.begin();
    assert!(content.is_present(&data("role")).await.unwrap());
    content.get(&data("role")).await.unwrap();
    write(&mut content, "other", "y");
    assert_eq!(reader.commit().await, Ok(None));
    assert_eq!(content.commit().await, Err(StoreFault::Conflict));
}

#[tokio::test]
async fn creation_or_deletion_conflicts_with_presence() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (mut first, mut second) = (store.begin(), store.begin());
    for unit in [&mut first, &mut second] {
        assert!(!unit.is_present(&data("role")).await.unwrap());
        write(unit, "role", "new");
    }
    first.commit().await.unwrap();
    assert_eq!(second.commit().await, Err(StoreFault::Conflict), "both would create it");
    let (mut late, mut twice, mut reader) = (store.begin(), store.begin(), store.begin());
    overwrite_present(&mut late, "late").await;
    for unit in [&mut twice, &mut reader] {
        assert!(unit.is_present(&data("role")).await.unwrap());
    }
    assert!(!reader.is_present(&data("absent")).await.unwrap());
    let mut removal = store.begin();
    removal.delete(data("role"));
    removal.commit().await.unwrap();
    assert_eq!(late.commit().await, Err(StoreFault::Conflict));
    assert_eq!(twice.is_present(&data("role")).await, Err(StoreFault::Conflict));
    assert_eq!(reader.commit().await, Err(StoreFault::Conflict), "reads alone are checked, too");
}

#[tokio::test]
async fn vanished_read_key_conflicts_even_if_restored() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "x").await;
    let (mut gone, mut back) = (store.begin(), store.begin());
    for unit in [&mut gone, &mut back] {
        unit.get(&data("role")).await.unwrap();
        write(unit, "other", "y");
    }
    let mut removal = store.begin();
    removal.delete(data("role"));
    removal.commit().await.unwrap();
    assert_eq!(gone.commit().await, Err(StoreFault::Conflict));
    put(&store, data("role"), "x").await;
    assert_eq!(back.commit().await, Err(StoreFault::Conflict));
}

#[tokio::test]
async fn appearing_or_vanishing_key_in_listed_range_conflicts() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("roles/b"), "x").await;
    let (mut grown, mut shrunk) = (store.begin(), store.begin());
    assert_eq!(listed(&mut grown, "roles/", "", 10).await, ["roles/b"]);
    put(&store, data("roles/a"), "x").await;
    assert_eq!(listed(&mut shrunk, "roles/", "", 10).await, ["roles/a", "roles/b"]);
    write(&mut grown, "count", "1");
    write(&mut shrunk, "count", "2");
    assert_eq!(grown.commit().await, Err(StoreFault::Conflict));
    let mut removal = store.begin();
    removal.delete(data("roles/b"));
    removal.commit().await.unwrap();
    assert_eq!(shrunk.commit().await, Err(StoreFault::Conflict));
}

#[tokio::test]
async fn change_outside_listed_page_is_no_conflict() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for key in ["roles/a", "roles/b"] {
        put(&store, data(key), "x").await;
    }
    let mut unit = store.begin();
    assert_eq!(listed(&mut unit, "roles/", "", 2).await, ["roles/a", "roles/b"]);
    put(&store, data("roles/c"), "after the page").await;
    put(&store, data("roles/a"), "another body under a listed key").await;
    write(&mut unit, "count", "2");
    unit.commit().await.unwrap();
}

#[tokio::test]
async fn pure_reads_conflict_on_two_keys_not_one() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    put(&store, data("b"), "1").await;
    let (mut two, mut one) = (store.begin(), store.begin());
    two.get(&data("a")).await.unwrap();
    two.get(&data("b")).await.unwrap();
    one.get(&data("a")).await.unwrap();
    put(&store, data("a"), "2").await;
    let flushes = store.flushes();
    assert_eq!(two.commit().await, Err(StoreFault::Conflict));
    one.commit().await.unwrap();
    assert_eq!(store.flushes(), flushes);
}

#[tokio::test]
async fn unit_reading_unchanged_state_commits_without_flush() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let flushes = store.flushes();
    let mut unit = store.begin();
    unit.get(&data("a")).await.unwrap();
    unit.get(&data("absent")).await.unwrap();
    listed(&mut unit, "", "", 10).await;
    unit.commit().await.unwrap();
    assert_eq!(store.flushes(), flushes);
}

#[tokio::test]
async fn key_read_in_two_states_is_lasting_conflict() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let mut unit = store.begin();
    unit.get(&data("a")).await.unwrap();
    put(&store, data("a"), "2").await;
    assert_eq!(unit.get(&data("a")).await.err(), Some(StoreFault::Conflict));
    assert_eq!(unit.get(&data("a")).await.err(), Some(StoreFault::Conflict));
    write(&mut unit, "b", "from two states");
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("b")).await, None);
}

#[tokio::test]
async fn unit_alone_sees_own_writes_before_commit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for key in ["roles/a", "roles/b", "roles/d"] {
        put(&store, data(key), "old").await;
    }
    let mut unit = store.begin();
    write(&mut unit, "roles/c", "new");
    unit.delete(data("roles/a"));
    assert_eq!(unit.get(&data("roles/c")).await.unwrap().unwrap().body.as_slice(), b"new");
    assert!(unit.get(&data("roles/a")).await.unwrap().is_none());
    assert_eq!(listed(&mut unit, "roles/", "", 2).await, ["roles/b", "roles/c"]);
    assert_eq!(listed(&mut unit, "roles/", "roles/c", 2).await, ["roles/d"]);
    assert_eq!(body(&store, &data("roles/c")).await, None);
    unit.commit().await.unwrap();
    assert_eq!(
        listed(&mut store.begin(), "roles/", "", 9).await,
        ["roles/b", "roles/c", "roles/d"]
    );
}

#[tokio::test]
async fn page_is_full_despite_deletions_by_unit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for key in ["a", "b", "c", "d"] {
        put(&store, data(key), "x").await;
    }
    let mut unit = store.begin();
    unit.delete(data("a"));
    unit.delete(data("b"));
    unit.delete(data("never there"));
    assert_eq!(listed(&mut unit, "", "", 2).await, ["c", "d"]);
    assert!(listed(&mut unit, "", "", 0).await.is_empty());
    unit.commit().await.unwrap();
}

#[tokio::test]
async fn checkpoint_stores_buffered_writes_and_clears_reads() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "1").await;
    let mut unit = store.begin();
    unit.get(&data("role")).await.unwrap();
    assert!(!unit.wrote());
    write(&mut unit, "intent", "candidate");
    unit.checkpoint().await.unwrap();
    assert_eq!((unit.checkpoints(), unit.wrote()), (1, true));
    assert_eq!(body(&store, &data("intent")).await.unwrap(), "candidate");
    put(&store, data("role"), "2").await;
    unit.delete(data("intent"));
    unit.commit().await.unwrap();
    assert_eq!(body(&store, &data("intent")).await, None);
}

#[tokio::test]
async fn record_written_before_checkpoint_can_conflict_afterwards() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    write(&mut unit, "intent", "mine");
    unit.checkpoint().await.unwrap();
    assert_eq!(unit.get(&data("intent")).await.unwrap().unwrap().body.as_slice(), b"mine");
    put(&store, data("intent"), "somebody else's").await;
    unit.delete(data("intent"));
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("intent")).await.unwrap(), "somebody else's");
}

#[tokio::test]
async fn unit_with_failed_checkpoint_stores_nothing_more() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    unit.get(&data("a")).await.unwrap();
    put(&store, data("a"), "meanwhile").await;
    write(&mut unit, "b", "from an old state");
    assert_eq!(unit.checkpoint().await, Err(StoreFault::Conflict));
    assert_eq!(unit.checkpoints(), 0);
    assert_eq!(unit.checkpoint().await, Err(StoreFault::Conflict));
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("b")).await, None);
}

#[tokio::test]
async fn unit_with_dropped_checkpoint_cannot_commit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    write(&mut unit, "a", "1");
    {
        let mut checkpoint = Box::pin(unit.checkpoint());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(checkpoint.as_mut().poll(&mut context).is_pending());
    }
    assert!(matches!(unit.commit().await, Err(StoreFault::Unavailable(_))));
}

/// Returns the cached body of the record at `key`, if the record is cached.
fn kept(store: &Store, key: &str) -> Option<Vec<u8>> {
    let (_, record) = store.cache().find(&data(key)).ok()??;
    Some(record.body.to_vec())
}

#[tokio::test]
async fn record_read_and_put_is_not_read_again() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    assert!(unit.get(&data("absent")).await.unwrap().is_none());
    write(&mut unit, "absent", "1");
    write(&mut unit, "unread", "1");
    unit.checkpoint().await.unwrap();
    assert_eq!(kept(&store, "absent").unwrap(), b"1");
    assert!(store.cache().find(&data("unread")).is_err(), "an unread record is not cached");
    let record = unit.get(&data("absent")).await.unwrap().unwrap();
    let stored = body(&store, &data("absent")).await.unwrap();
    assert_eq!((&*record.body, record.modified, stored.as_str()), (&b"1"[..], 0, "1"));
    write(&mut unit, "absent", "2");
    unit.commit().await.unwrap();
    assert_eq!(kept(&store, "absent").unwrap(), b"2");
    // A new store with an empty cache finds the same.
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(body(&store, &data("absent")).await.unwrap(), "2");
}

#[tokio::test]
async fn reads_after_conflict_or_overwrite_give_last_value() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("a"), "0").await;
    let mut units = Vec::new();
    for value in ["1", "2"] {
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        write(&mut unit, "a", value);
        units.push(unit);
    }
    let second = units.pop().unwrap();
    let first = units.pop().unwrap();
    let (first, second) = tokio::join!(first.commit(), second.commit());
    assert!(first.is_ok() && second == Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    // Two units in a group: a unit that read the record, then a unit that did not.
    let mut reading = store.begin();
    reading.get(&data("a")).await.unwrap();
    write(&mut reading, "a", "2");
    let mut blind = store.begin();
    write(&mut blind, "a", "3");
    let (reading, blind) = tokio::join!(reading.commit(), blind.commit());
    assert!(reading.is_ok() && blind.is_ok());
    assert_eq!(body(&store, &data("a")).await.unwrap(), "3");
}

#[tokio::test]
async fn an_empty_checkpoint_is_not_a_checkpoint() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    unit.get(&data("a")).await.unwrap();
    let flushes = store.flushes();
    unit.checkpoint().await.unwrap();
    assert_eq!((unit.checkpoints(), store.flushes()), (0, flushes));
}

#[tokio::test]
async fn host_part_conflict_reruns_host_part_only() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "r").await;
    put(&store, data("token"), "1").await;
    let mut unit = store.begin();
    unit.get(&data("role")).await.unwrap();
    write(&mut unit, "made", "outside");
    let mut finish = unit.finish();
    for (turn, seen) in ["1", "2"].into_iter().enumerate() {
        let part = finish.restart_host_part();
        assert_eq!(
            part.get(&data("token")).await.unwrap().unwrap().body.as_slice(),
            seen.as_bytes()
        );
        write(part, "lease", seen);
        if turn == 0 {
            write(part, "of the first turn", "x");
            put(&store, data("token"), "2").await;
        }
        assert_eq!(finish.try_commit().await.unwrap(), turn == 1);
    }
    assert_eq!(body(&store, &data("lease")).await.unwrap(), "2");
    assert_eq!(body(&store, &data("made")).await.unwrap(), "outside");
    assert_eq!(body(&store, &data("of the first turn")).await, None);
}

#[tokio::test]
async fn work_conflict_is_not_resolved_by_host_part() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "1").await;
    let mut unit = store.begin();
    unit.get(&data("role")).await.unwrap();
    put(&store, data("role"), "2").await;
    let mut finish = unit.finish();
    write(finish.restart_host_part(), "lease", "x");
    assert_eq!(finish.try_commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("lease")).await, None);
}

#[tokio::test]
async fn record_change_between_work_and_host_part_conflicts() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "1").await;
    let mut unit = store.begin();
    unit.get(&data("role")).await.unwrap();
    put(&store, data("role"), "2").await;
    let mut finish = unit.finish();
    let part = finish.restart_host_part();
    assert_eq!(part.get(&data("role")).await.unwrap().unwrap().body.as_slice(), b"2");
    write(part, "lease", "from two states");
    assert_eq!(finish.try_commit().await, Err(StoreFault::Conflict));
    assert_eq!(body(&store, &data("lease")).await, None);
}

#[tokio::test]
async fn dropped_host_part_sees_writes_and_stores_nothing() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    write(&mut unit, "made", "1");
    let mut finish = unit.finish();
    let part = finish.restart_host_part();
    assert_eq!(part.get(&data("made")).await.unwrap().unwrap().body.as_slice(), b"1");
    assert_eq!(listed(part, "", "", 9).await, ["made"]);
    part.delete(data("made"));
    assert!(part.get(&data("made")).await.unwrap().is_none());
    drop(finish);
    assert_eq!(body(&store, &data("made")).await, None);
}

#[tokio::test]
async fn host_under_constant_conflicts_gives_up_eventually() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut finish = store.begin().finish();
    let mut turns = 0;
    let outcome = loop {
        turns += 1;
        let part = finish.restart_host_part();
        part.get(&data("token")).await.unwrap();
        write(part, "lease", "x");
        put(&store, data("token"), &turns.to_string()).await;
        match finish.try_commit().await {
            Ok(false) => {}
            ended => break ended,
        }
    };
    assert_eq!((outcome, turns), (Err(StoreFault::Conflict), MOST_ATTEMPTS));
}

#[tokio::test]
async fn a_dropped_unit_leaves_nothing() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    write(&mut unit, "a", "1");
    drop(unit);
    assert_eq!(body(&store, &data("a")).await, None);
}

#[tokio::test]
async fn large_unit_commits_whole_or_not_at_all() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let keys: Vec<String> = (0..1_234).map(|number| format!("many/{number:05}")).collect();
    let mut unit = store.begin();
    for key in &keys {
        write(&mut unit, key, key);
    }
    let flushes = store.flushes();
    unit.commit().await.unwrap();
    assert_eq!(store.flushes(), flushes + 1);
    let (mut removal, mut late) = (store.begin(), store.begin());
    for key in &keys {
        assert_eq!(removal.get(&data(key)).await.unwrap().unwrap().body.as_slice(), key.as_bytes());
        late.get(&data(key)).await.unwrap();
        removal.delete(data(key));
    }
    removal.delete(Address::new(Space::Timer, "never there"));
    removal.commit().await.unwrap();
    assert!(listed(&mut store.begin(), "", "", 9).await.is_empty());
    write(&mut late, "late", "x");
    assert_eq!(late.commit().await, Err(StoreFault::Conflict));
}

#[tokio::test]
async fn unusual_keys_and_empty_bodies_are_kept_unchanged() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let keys = ["", "a\0b", "a\0c", "';DROP TABLE record;--", "%", "\u{10ffff}", "ü/日本"];
    for key in keys {
        put(&store, data(key), "").await;
    }
    let mut unit = store.begin();
    for key in keys {
        assert_eq!(unit.get(&data(key)).await.unwrap().unwrap().body.as_slice(), b"", "{key:?}");
    }
    assert_eq!(listed(&mut unit, "a\0", "", 9).await, ["a\0b", "a\0c"]);
    assert_eq!(listed(&mut unit, "", "", 99).await.len(), keys.len());
    unit.commit().await.unwrap();
}

#[tokio::test]
async fn same_key_in_two_spaces_is_two_records() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let (lease, token) = (Address::new(Space::Lease, "k"), Address::new(Space::Token, "k"));
    put(&store, lease.clone(), "lease").await;
    put(&store, token.clone(), "token").await;
    let mut unit = store.begin();
    unit.delete(lease.clone());
    unit.commit().await.unwrap();
    assert_eq!(body(&store, &lease).await, None);
    assert_eq!(body(&store, &token).await.unwrap(), "token");
}

#[tokio::test]
async fn an_index_comes_back_as_it_was_put() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for due in [None, Some(0), Some(1_700_000_000_000), Some(i64::MAX as u64)] {
        let index = IndexColumns { due, lane: "orders".into(), owner: "mount".into() };
        crate::testing::put_indexed(&store, data("a"), "x", index.clone()).await;
        assert_eq!(store.begin().get(&data("a")).await.unwrap().unwrap().index, index);
    }
    let never = IndexColumns { due: Some(u64::MAX), ..IndexColumns::default() };
    crate::testing::put_indexed(&store, data("a"), "x", never).await;
    assert_eq!(
        store.begin().get(&data("a")).await.unwrap().unwrap().index.due,
        Some(i64::MAX as u64)
    );
}

/// Returns a unit that puts `rows` records.
fn many(store: &Arc<Store>, rows: usize) -> Unit {
    let mut unit = store.begin();
    for row in 0..rows {
        write(&mut unit, &format!("many/{row:05}"), "some text");
    }
    unit
}

#[tokio::test]
async fn oversize_commit_is_refused_and_stops_no_other() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut refused = many(&store, 90_000);
    for _ in 0..2 {
        let Err(StoreFault::TooLarge(text)) = refused.checkpoint().await else {
            panic!("the commit was not refused")
        };
        assert!(text.contains("90000 records") && text.contains("checkpoint"), "{text}");
    }
    drop(refused);
    assert_eq!(store.count(Space::Data, "many/", 9).await, Ok(0));
    many(&store, 2_048).commit().await.unwrap();
    assert_eq!(store.count(Space::Data, "many/", 9_999).await, Ok(2_048));
    assert!(matches!(many(&store, 2_049).commit().await, Err(StoreFault::TooLarge(_))));
}

#[tokio::test]
async fn the_bytes_of_one_commit_are_bounded() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let of = |bytes: usize| {
        let mut unit = store.begin();
        write(&mut unit, "a", &"x".repeat(1 << 20));
        write(&mut unit, "b", &"x".repeat((2 << 20) + bytes));
        unit
    };
    let Err(StoreFault::TooLarge(text)) = of(1).commit().await else {
        panic!("the commit was not refused")
    };
    assert!(text.contains("3145729 bytes") && text.contains("checkpoint"), "{text}");
    assert_eq!(body(&store, &data("a")).await, None);
    of(0).commit().await.unwrap();
}

#[tokio::test]
async fn commit_checks_are_bounded_only_with_writes() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    many(&store, 1_000).commit().await.unwrap();
    let mut unit = store.begin();
    // Ranges with different starts, so that no range equals another.
    for row in 0..30 {
        assert!(listed(&mut unit, "many/", &format!("many/{row:05}"), 9_999).await.len() > 900);
    }
    unit.put(data("a"), b"1".to_vec(), IndexColumns::default());
    let Err(StoreFault::TooLarge(text)) = unit.checkpoint().await else {
        panic!("the commit was not refused")
    };
    assert!(text.contains("list less"), "{text}");
    assert_eq!(body(&store, &data("a")).await, None);
    let mut reader = store.begin();
    for row in 0..30 {
        listed(&mut reader, "many/", &format!("many/{row:05}"), 9_999).await;
    }
    assert_eq!(reader.commit().await, Ok(None));
}

/// Returns a page of records: the last segments of their keys, and their bodies.
async fn page(unit: &mut Unit, after: &str, limit: u32, bytes: usize) -> Vec<(String, String)> {
    let page = unit.records(Space::Data, ("m/roles/", after), limit, bytes).await.unwrap();
    let shown = |(key, record): (String, Record)| {
        let name = key.strip_prefix("m/roles/").unwrap().to_owned();
        (name, String::from_utf8(record.body.to_vec()).unwrap())
    };
    page.into_iter().map(shown).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, body)| ((*key).to_owned(), (*body).to_owned())).collect()
}

async fn with_roles() -> (ScratchDirectory, Arc<Store>) {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for (key, body) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")] {
        put(&store, data(&format!("m/roles/{key}")), body).await;
    }
    put(&store, data("m/rolesy"), "outside").await;
    (scratch, store)
}

#[tokio::test]
async fn record_page_matches_single_reads_of_unit() {
    let (_scratch, store) = with_roles().await;
    let mut unit = store.begin();
    assert_eq!(page(&mut unit, "", 2, 1_000).await, pairs(&[("a", "one"), ("b", "two")]));
    assert_eq!(
        page(&mut unit, "m/roles/b", 9, 1_000).await,
        pairs(&[("c", "three"), ("d", "four")])
    );
    assert!(page(&mut unit, "m/roles/d", 9, 1_000).await.is_empty());
    unit.put(data("m/roles/a"), b"mine".to_vec(), IndexColumns::default());
    unit.put(data("m/roles/bb"), b"new".to_vec(), IndexColumns::default());
    unit.delete(data("m/roles/b"));
    let seen = [("a", "mine"), ("bb", "new"), ("c", "three"), ("d", "four")];
    assert_eq!(page(&mut unit, "", 9, 1_000).await, pairs(&seen));
    assert_eq!(
        page(&mut unit, "", 3, 1_000).await,
        pairs(&seen[..3]),
        "full, although one is gone"
    );
}

#[tokio::test]
async fn only_empty_page_is_last_despite_byte_limit() {
    let (_scratch, store) = with_roles().await;
    let mut unit = store.begin();
    unit.delete(data("m/roles/b"));
    unit.put(data("m/roles/bb"), b"new".to_vec(), IndexColumns::default());
    let (mut after, mut names) = (String::new(), Vec::new());
    loop {
        let found = page(&mut unit, &after, 9, 1).await;
        let Some((last, _)) = found.last() else { break };
        after = format!("m/roles/{last}");
        names.extend(found.into_iter().map(|(name, _)| name));
    }
    assert_eq!(names, ["a", "bb", "c", "d"]);
    let page = page(&mut store.begin(), "", 9, 100).await;
    assert!((1..4).contains(&page.len()), "sealed records of some fifty bytes: {page:?}");
}

#[tokio::test]
async fn change_within_record_page_conflicts_but_not_behind() {
    for (key, body, conflicts) in [
        ("m/roles/a", Some("other"), true),
        ("m/roles/a", None, true),
        ("m/roles/aa", Some("new"), true),
        ("m/roles/c", Some("other"), false),
        ("m/roles/e", Some("new"), false),
        ("m/rolesy", Some("other"), false),
    ] {
        let (_scratch, store) = with_roles().await;
        let mut unit = store.begin();
        assert_eq!(page(&mut unit, "", 2, 1_000).await.len(), 2);
        unit.put(data("m/seen"), b"x".to_vec(), IndexColumns::default());
        let mut other = store.begin();
        match body {
            Some(body) => other.put(data(key), body.as_bytes().to_vec(), IndexColumns::default()),
            None => other.delete(data(key)),
        }
        other.commit().await.unwrap();
        assert_eq!(unit.commit().await == Err(StoreFault::Conflict), conflicts, "{key} {body:?}");
    }
}

#[tokio::test]
async fn damaged_record_fails_its_page() {
    let (_scratch, store) = with_roles().await;
    edit(&store, "UPDATE record SET owner = 'mallory' WHERE key = 'm/roles/c'").await;
    let mut unit = store.begin();
    assert_eq!(page(&mut unit, "", 2, 1_000).await.len(), 2);
    let refused = unit.records(Space::Data, ("m/roles/", ""), 9, 1_000).await.err();
    assert_eq!(refused, Some(StoreFault::Damaged(data("m/roles/c"))));
}

#[tokio::test]
async fn folder_revision_changes_with_each_commit_and_deletion() {
    let (_scratch, store) = with_roles().await;
    let revision = || store.begin().folder_revision("m/roles/").unwrap();
    let mut seen = vec![revision()];
    assert_eq!(revision(), seen[0]);
    put(&store, data("m/rolesy"), "elsewhere").await;
    assert_eq!(revision(), seen[0]);
    put(&store, data("m/roles/a"), "again").await;
    seen.push(revision());
    let mut unit = store.begin();
    unit.delete(data("m/roles/b"));
    assert_eq!(revision(), seen[1], "the revision counts only commits");
    unit.commit().await.unwrap();
    seen.push(revision());
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn unit_depending_on_folder_conflicts_with_folder_commits() {
    for writes in [true, false] {
        let (_scratch, store) = with_roles().await;
        let begin = || {
            let mut unit = store.begin();
            unit.folder_revision("m/roles/").unwrap();
            if writes {
                unit.put(data("m/derived"), b"x".to_vec(), IndexColumns::default());
            }
            unit
        };
        begin().commit().await.unwrap();
        let overtaken = begin();
        put(&store, data("m/roles/new"), "x").await;
        assert_eq!(overtaken.commit().await, Err(StoreFault::Conflict));
        let mut unit = begin();
        put(&store, data("m/roles/new"), "y").await;
        assert_eq!(
            unit.folder_revision("m/roles/"),
            Err(StoreFault::Conflict),
            "two states of a folder are a conflict"
        );
    }
}

#[tokio::test]
async fn group_commit_refuses_unit_with_outdated_folder_revision() {
    let (_scratch, store) = with_roles().await;
    let both = |key: &str| {
        let mut unit = store.begin();
        unit.folder_revision("m/roles/").unwrap();
        unit.put(data(key), b"x".to_vec(), IndexColumns::default());
        unit
    };
    let (one, other) = (both("m/roles/x"), both("m/roles/y"));
    let (one, other) = tokio::join!(one.commit(), other.commit());
    assert_eq!([&one, &other].iter().filter(|outcome| outcome.is_ok()).count(), 1, "{one:?}");
}

#[tokio::test]
async fn unit_writing_into_folder_gets_unused_number() {
    let (_scratch, store) = with_roles().await;
    let mut unit = store.begin();
    let before = unit.folder_revision("m/roles/").unwrap();
    unit.put(data("m/roles/a"), b"mine".to_vec(), IndexColumns::default());
    let own = [(); 2].map(|()| unit.folder_revision("m/roles/").unwrap());
    assert!(own[0] != own[1] && !own.contains(&before));
    unit.checkpoint().await.unwrap();
    let after = unit.folder_revision("m/roles/").unwrap();
    assert!(!own.contains(&after) && after != before);
    assert_eq!(store.begin().folder_revision("m/roles/").unwrap(), after);
}

#[tokio::test]
async fn folders_relied_on_by_unit_are_bounded() {
    let (_scratch, store) = with_roles().await;
    let mut unit = store.begin();
    for count in 0..256 {
        unit.folder_revision(&format!("m/{count}/")).unwrap();
    }
    let refused = unit.folder_revision("m/more/");
    assert!(matches!(refused, Err(StoreFault::TooLarge(_))), "{refused:?}");
}

#[tokio::test]
async fn whole_unit_stores_no_part_of_work() {
    let (_scratch, store) = with_roles().await;
    let mut unit = store.begin().whole();
    unit.put(data("m/roles/first"), b"x".to_vec(), IndexColumns::default());
    let refused = unit.checkpoint().await;
    assert!(matches!(refused, Err(StoreFault::TooLarge(_))), "{refused:?}");
    unit.put(data("m/roles/second"), b"x".to_vec(), IndexColumns::default());
    assert!(unit.commit().await.is_err(), "a failed checkpoint spoils the unit");
    let mut after = store.begin();
    for key in ["m/roles/first", "m/roles/second"] {
        assert!(after.get(&data(key)).await.unwrap().is_none(), "{key}");
    }
}
