//! Tests of the keyring of nodes that share a database.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::shared_database::{Pair, open_shared};
use crate::database::Database;
use crate::testing::{body, bytes, data, edit, numbers, put};
use crate::{IndexColumns, Store, StoreFault};
use bulkhead_place::claim_watch::ClaimTimes;

/// Returns the terms under which the stored records are sealed.
async fn terms(store: &Arc<Store>) -> BTreeSet<u32> {
    let terms = bytes(store, "SELECT DISTINCT substr(sealed, 2, 4) FROM record").await;
    terms.into_iter().map(|term| u32::from_be_bytes(term.try_into().unwrap())).collect()
}

/// Writes a record in the mount `m`, whose revisions are counted.
async fn put_revised(store: &Arc<Store>, key: &str) -> Result<Option<u64>, StoreFault> {
    let mut unit = store.begin_revised("m");
    unit.put(data(key), b"x".to_vec(), IndexColumns::default());
    unit.commit().await
}

#[tokio::test]
async fn answered_rotation_is_known_to_every_node() {
    let pair = Pair::open().await;
    for (round, (writer, reader)) in
        [(&pair.one, &pair.other), (&pair.other, &pair.one)].into_iter().enumerate()
    {
        let term = u32::try_from(round).unwrap() + 2;
        assert_eq!(writer.rotate().await.unwrap().term, term);
        assert_eq!(reader.key_status().term, term);
        put(writer, data("a"), "1").await;
        assert_eq!(terms(writer).await, [term].into());
        assert_eq!(body(reader, &data("a")).await.unwrap(), "1");
        let token = writer.seal_text("batch", b"body").unwrap();
        assert_eq!(reader.open_text("batch", &token).await.unwrap().unwrap().as_slice(), b"body");
        // The other node follows without a rotation of its own.
        while !writes_by(reader, term).await {
            reader.data().changes.await_next().await.unwrap();
        }
    }
}

/// Writes the record `a`, and returns whether the record is sealed by the term.
async fn writes_by(store: &Arc<Store>, term: u32) -> bool {
    put(store, data("a"), "1").await;
    terms(store).await == [term].into()
}

#[tokio::test]
async fn two_nodes_rotating_at_once_lose_no_term() {
    let pair = Pair::open().await;
    let mut made_terms = BTreeSet::new();
    for round in 0..6 {
        let (one, other) = tokio::join!(pair.one.rotate(), pair.other.rotate());
        made_terms.extend([one.unwrap().term, other.unwrap().term]);
        for (store, name) in [(&pair.one, "one"), (&pair.other, "other")] {
            put(store, data(&format!("{name}/{round}")), "1").await;
        }
    }
    assert_eq!(made_terms, (2..=13).collect());
    for round in 0..6 {
        for name in ["one", "other"] {
            let address = data(&format!("{name}/{round}"));
            assert_eq!(body(&pair.one, &address).await.unwrap(), "1");
            assert_eq!(body(&pair.other, &address).await.unwrap(), "1");
        }
    }
    pair.other.close().await;
    let reopened = open_shared(&pair.directories.1, ClaimTimes::default()).await.unwrap();
    assert_eq!(reopened.key_status().term, 13);
    assert_eq!(body(&reopened, &data("other/5")).await.unwrap(), "1");
}

#[tokio::test]
async fn new_term_waits_until_other_node_is_out() {
    let pair = Pair::open().await;
    let paused = pair.other.data();
    let reading = paused.changes.hold_reading().await;
    let rotator = Arc::clone(&pair.one);
    let rotation = tokio::spawn(async move { rotator.rotate().await.unwrap() });
    while pair.one.key_status().term == 1 {
        tokio::task::yield_now().await;
    }
    put(&pair.one, data("a"), "1").await;
    let early = terms(&pair.one).await;
    if !rotation.is_finished() {
        assert_eq!(early, [1].into());
    }
    assert_eq!(rotation.await.unwrap().term, 2);
    assert!(paused.changes.check().is_err(), "the other node answers nothing from memory");
    put(&pair.one, data("a"), "2").await;
    assert_eq!(terms(&pair.one).await, [2].into());
    drop(reading);
    assert_eq!(body(&pair.other, &data("a")).await.unwrap(), "2");
}

#[tokio::test]
async fn unknown_term_is_read_before_record_is_damaged() {
    let pair = Pair::open().await;
    let paused = pair.other.data();
    let reading = paused.changes.hold_reading().await;
    pair.one.rotate().await.unwrap();
    put(&pair.one, data("a"), "1").await;
    let row = paused.database.find_row(&data("a")).await.unwrap().unwrap();
    assert!(paused.lacks_term_of(&row) && row.clone().open(&paused.seal).is_err());
    paused.know_terms_of(std::iter::once(&row)).await.unwrap();
    assert!(row.open(&paused.seal).is_ok());
    drop(reading);
}

#[tokio::test]
async fn occupied_readers_do_not_delay_new_term() {
    let pair = Pair::open().await;
    let busy = pair.other.data();
    let Database::Postgres(database) = &busy.database else { panic!("no server") };
    let slow_requests = database.readers().occupy().await;
    pair.one.rotate().await.unwrap();
    pair.catch_up().await;
    assert_eq!(busy.seal.status().term, 2);
    pair.until_memory_is_used().await;
    drop(slow_requests);
}

#[tokio::test]
async fn commit_reads_keyring_for_counter_of_new_term() {
    let pair = Pair::open().await;
    assert_eq!(put_revised(&pair.one, "m/a").await, Ok(Some(1)));
    pair.catch_up().await;
    let paused = pair.other.data();
    let mut unit = pair.other.begin_revised("m");
    unit.put(data("m/b"), b"x".to_vec(), IndexColumns::default());
    let reading = paused.changes.hold_reading().await;
    pair.one.rotate().await.unwrap();
    assert_eq!(put_revised(&pair.one, "m/a").await, Ok(Some(2)));
    assert_eq!(unit.commit().await, Ok(Some(3)));
    drop(reading);
}

#[tokio::test]
async fn record_of_term_that_nobody_made_is_damaged() {
    let pair = Pair::open().await;
    put(&pair.one, data("a"), "1").await;
    edit(&pair.one, "UPDATE record SET sealed = x'0100000009' || substr(sealed, 6)").await;
    pair.catch_up().await;
    let found = pair.other.begin().get(&data("a")).await;
    assert_eq!(found.err(), Some(StoreFault::Damaged(data("a"))));
    assert_eq!(put_revised(&pair.one, "m/a").await, Ok(Some(1)));
    edit(&pair.one, "UPDATE record SET sealed = x'0100000009' || substr(sealed, 6)").await;
    let refused = put_revised(&pair.other, "m/a").await;
    assert!(matches!(refused, Err(StoreFault::Damaged(_))), "{refused:?}");
    assert_eq!(numbers(&pair.one, "SELECT count(*) FROM record").await, [3]);
}
