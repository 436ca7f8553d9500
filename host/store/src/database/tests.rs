//! Tests of the operations that every database serves, through the boundary alone.

mod equivalence;

use std::sync::Arc;

use super::*;
use crate::testing::{ScratchDirectory, TestDatabase, data, on_both_databases, put};
use crate::{RecordBody, Store};
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{IndexColumns, Record, Space};

on_both_databases! {
    questions_are_answered_and_absent_rows_left_out,
    plan_sees_committed_state_and_may_roll_back,
    group_writes_rows_and_identity_at_once,
    reader_sees_state_of_its_beginning,
    closed_database_refuses_every_operation,
}

fn row(store: &Store, key: &str, body: &[u8]) -> SealedRow {
    let record = Record::unwritten(RecordBody::new(body.to_vec()), IndexColumns::default());
    SealedRow::of(store.seal(), &data(key), &record).unwrap()
}

/// Commits these writes, without questions.
async fn write(store: &Arc<Store>, writes: GroupWrites<'_>) {
    let questions = StateQuestions::default();
    let outcome = store.database().commit_group(questions, |_| Some(writes)).await;
    assert!(matches!(outcome, Ok(TransactionOutcome::Committed)));
}

async fn questions_are_answered_and_absent_rows_left_out(tested: TestDatabase) {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    for key in ["m/a", "m/b", "m/c"] {
        put(&store, data(key), "1").await;
    }
    let (present, absent) = (data("m/a"), data("m/absent"));
    let range = KeyRange::new(Space::Data, "m/", "");
    let mut questions = StateQuestions::default();
    for addresses in [&mut questions.stamps, &mut questions.rows, &mut questions.sizes] {
        addresses.extend([&present, &absent]);
    }
    questions.listings.extend([(&range, 2), (&range, 9)]);
    questions.counters.extend(["m", "nothing", "cubbyhole/"]);
    let mut state = store.database().read_state(questions).await.unwrap();
    let found = state.rows.remove(&present).unwrap().unwrap();
    assert_eq!(state.stamps, [(&present, AddressState::Stamped(found.stamp))].into());
    assert!(state.rows.is_empty(), "an absent row has no entry");
    assert_eq!(state.listings[&(&range, 2)], ["m/a", "m/b"]);
    assert_eq!(state.listings[&(&range, 9)], ["m/a", "m/b", "m/c"]);
    let size = state.sizes[&present];
    assert_eq!((state.sizes.len(), state.counters["m"]), (1, 3 * size));
    assert_eq!((state.counters["nothing"], state.counters["cubbyhole/"]), (0, 0));
}

async fn plan_sees_committed_state_and_may_roll_back(tested: TestDatabase) {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let (before, address) = (store.flushes(), data("a"));
    let mut questions = StateQuestions::default();
    questions.stamps.insert(&address);
    let mut stamps = 0;
    let give_up = |state: CommittedState<'_>| {
        stamps = state.stamps.len();
        None
    };
    let outcome = store.database().commit_group(questions, give_up).await;
    assert!(matches!(outcome, Ok(TransactionOutcome::Conflict)));
    assert_eq!((stamps, store.flushes()), (1, before));
    put(&store, data("b"), "1").await;
}

async fn group_writes_rows_and_identity_at_once(tested: TestDatabase) {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    let (database, name) = (store.database(), "of a test");
    put(&store, data("old"), "1").await;
    let (first, second) = (row(&store, "a", b"1"), row(&store, "a", b"2"));
    let (old, absent) = (data("old"), data("absent"));
    let identity = vec![(name, Some(b"value".to_vec()))];
    write(
        &store,
        GroupWrites {
            puts: vec![&first],
            deletes: vec![&old, &absent],
            identity,
            ..Default::default()
        },
    )
    .await;
    let addresses = [&first.address, &old, &absent];
    let questions = StateQuestions { stamps: addresses.into(), ..StateQuestions::default() };
    let found = database.read_state(questions).await.unwrap();
    assert_eq!(found.stamps, [(&first.address, AddressState::Stamped(first.stamp))].into());
    assert_eq!(database.identity_rows().await.unwrap()[name], b"value");
    let identity = vec![(name, None), ("absent", None)];
    write(&store, GroupWrites { puts: vec![&second], identity, ..Default::default() }).await;
    let found = database.find_row(&second.address).await.unwrap().unwrap();
    assert_eq!((found.stamp, found.sealed), (second.stamp, second.sealed));
    assert!(!database.identity_rows().await.unwrap().contains_key(name));
}

async fn reader_sees_state_of_its_beginning(tested: TestDatabase) {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let mut reader = store.database().begin_snapshot().await.unwrap();
    assert_eq!(reader.count_records().await.unwrap(), 1);
    put(&store, data("b"), "1").await;
    assert_eq!(reader.count_records().await.unwrap(), 1, "a write does not wait for the reader");
    assert_eq!(reader.find_damage().await, Ok(Vec::new()));
    reader.close().await;
    let range = KeyRange::new(Space::Data, "", "");
    assert_eq!(store.database().list_keys(&range, 9).await.unwrap(), ["a", "b"]);
}

async fn closed_database_refuses_every_operation(tested: TestDatabase) {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    store.close().await;
    let (database, address) = (store.database(), data("a"));
    let mut questions = StateQuestions::default();
    questions.stamps.insert(&address);
    let refusals = [
        database.find_row(&address).await.err(),
        database.read_state(questions).await.err(),
        database.identity_rows().await.err(),
        database.change_identity(vec![("absent", None)]).await.err().map(StoreFault::from),
        database.next_due(None).await.err(),
    ];
    for refusal in refusals {
        assert!(refusal.is_some_and(|fault| fault.to_string().contains("the store is closed")));
    }
}
