//! Tests of edited, moved or exchanged rows, and of the queries over keys.

use std::sync::Arc;

use super::*;
use crate::Store;
use crate::testing::{ScratchDirectory, data, edit, plan, put_indexed};
use bulkhead_place::write_failure::TransactionOutcome;
use bulkhead_record::record::{IndexColumns, Record};

async fn after_edit(statement: &'static str) -> Result<Option<Record>, StoreFault> {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let index = IndexColumns { due: Some(1_000), lane: "orders".into(), owner: "mount".into() };
    put_indexed(&store, data("a"), "first", index.clone()).await;
    put_indexed(&store, data("b"), "second", index).await;
    edit(&store, statement).await;
    store.begin().get(&data("a")).await
}

#[tokio::test]
async fn edited_moved_or_exchanged_row_does_not_open() {
    for statement in [
        "UPDATE record SET sealed = (SELECT sealed FROM record WHERE key = 'b') WHERE key = 'a'",
        "UPDATE record SET (stamp, sealed) = (SELECT stamp, sealed FROM record WHERE key = 'b') \
         WHERE key = 'a'",
        "DELETE FROM record WHERE key = 'a'; UPDATE record SET key = 'a'",
        "DELETE FROM record WHERE key = 'a'; UPDATE record SET key = 'a', space = 3; \
         UPDATE record SET space = 2",
        "UPDATE record SET due = 9000000",
        "UPDATE record SET due = -1",
        "UPDATE record SET due = NULL",
        "UPDATE record SET created = 1",
        "UPDATE record SET modified = 0",
        "UPDATE record SET lane = ''",
        "UPDATE record SET owner = 'mounT'",
        "UPDATE record SET owner = 'smount', lane = 'order'",
        "UPDATE record SET stamp = randomblob(16)",
        "UPDATE record SET stamp = x'00'",
        "UPDATE record SET sealed = x''",
        "UPDATE record SET sealed = zeroblob(4096)",
    ] {
        assert_eq!(
            after_edit(statement).await.err(),
            Some(StoreFault::Damaged(data("a"))),
            "{statement}"
        );
    }
}

const LEASE: Space = Space::Lease;

/// Returns a store with one lease (a kind that is never cached) in which all index columns are
/// filled.
async fn store_with_lease(scratch: &ScratchDirectory) -> Arc<Store> {
    let store = scratch.open().await;
    let index = IndexColumns { due: Some(1_000), lane: "orders".into(), owner: "mount".into() };
    put_indexed(&store, Address::new(LEASE, "a"), "first", index).await;
    store
}

async fn raw(store: &Arc<Store>) -> SealedRow {
    let address = Address::new(LEASE, "a");
    let find = async |connection: &mut SqliteConnection| find(connection, &address).await;
    store.database().sqlite().readers().read(find).await.ok().flatten().unwrap()
}

/// Replaces all records by this row and reads the record at the row's address.
async fn read_as(store: &Arc<Store>, row: SealedRow) -> Result<Option<Record>, StoreFault> {
    let address = row.address.clone();
    let work = async move |connection: &mut SqliteConnection| {
        sqlx::query("DELETE FROM record").execute(&mut *connection).await?;
        insert(connection, &row).await?;
        Ok(TransactionOutcome::Committed)
    };
    store.database().sqlite().write(work).await.unwrap();
    store.begin().get(&address).await
}

fn flipped(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len()).map(|position| {
        let mut flipped = bytes.to_vec();
        flipped[position] ^= 1;
        flipped
    })
}

fn flipped_text(text: &str) -> impl Iterator<Item = String> {
    flipped(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn row_with_any_flipped_byte_does_not_open() {
    let scratch = ScratchDirectory::of_files();
    let store = store_with_lease(&scratch).await;
    let row = raw(&store).await;
    assert_eq!(read_as(&store, row.clone()).await.unwrap().unwrap().body.as_slice(), b"first");
    let mut edited = Vec::new();
    edited.extend(flipped(&row.sealed).map(|sealed| SealedRow { sealed, ..row.clone() }));
    edited.extend(flipped(&row.stamp.0).map(|stamp| {
        let stamp = Stamp(stamp.try_into().unwrap());
        SealedRow { stamp, ..row.clone() }
    }));
    edited.extend(
        (0..63).map(|bit| SealedRow { due: row.due.map(|due| due ^ 1 << bit), ..row.clone() }),
    );
    edited.extend(flipped_text(&row.lane).map(|lane| SealedRow { lane, ..row.clone() }));
    edited.extend(flipped_text(&row.owner).map(|owner| SealedRow { owner, ..row.clone() }));
    edited.extend(
        flipped_text("a").map(|key| SealedRow { address: Address::new(LEASE, key), ..row.clone() }),
    );
    for row in edited {
        let address = row.address.clone();
        assert_eq!(read_as(&store, row).await.err(), Some(StoreFault::Damaged(address)));
    }
}

#[tokio::test]
async fn foreign_cluster_row_with_same_key_stays_closed() {
    let (here, elsewhere) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let (here, elsewhere) = (store_with_lease(&here).await, store_with_lease(&elsewhere).await);
    let foreign = raw(&elsewhere).await;
    let address = foreign.address.clone();
    assert_eq!(read_as(&here, foreign).await.err(), Some(StoreFault::Damaged(address)));
}

#[tokio::test]
async fn row_naming_any_other_term_does_not_open() {
    let scratch = ScratchDirectory::of_files();
    let store = store_with_lease(&scratch).await;
    store.rotate().await.unwrap();
    let row = raw(&store).await;
    assert_eq!(row.sealed[1..5], [0, 0, 0, 1]);
    for term in [0, 2, 3, 255] {
        let mut edited = row.clone();
        edited.sealed[4] = term;
        let address = row.address.clone();
        assert_eq!(
            read_as(&store, edited).await.err(),
            Some(StoreFault::Damaged(address)),
            "term {term}"
        );
    }
    assert_eq!(read_as(&store, row).await.unwrap().unwrap().body.as_slice(), b"first");
}

#[tokio::test]
async fn row_moved_to_other_space_does_not_open() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put_indexed(&store, data("a"), "x", IndexColumns::default()).await;
    edit(&store, "UPDATE record SET space = 3").await;
    let moved = Address::new(Space::Token, "a");
    assert_eq!(store.begin().get(&moved).await.err(), Some(StoreFault::Damaged(moved)));
}

#[tokio::test]
async fn restored_earlier_write_conflicts_with_later_reader() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put_indexed(&store, data("a"), "old", IndexColumns::default()).await;
    edit(&store, "CREATE TABLE kept AS SELECT * FROM record").await;
    put_indexed(&store, data("a"), "new", IndexColumns::default()).await;
    let mut unit = store.begin();
    unit.get(&data("a")).await.unwrap();
    edit(&store, "DELETE FROM record; INSERT INTO record SELECT * FROM kept").await;
    unit.put(data("b"), b"x".to_vec(), IndexColumns::default());
    assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
}

#[tokio::test]
async fn refusal_names_address_and_never_body() {
    let fault = after_edit("UPDATE record SET due = 1").await.err().unwrap();
    let text = fault.to_string();
    assert!(text.contains("data:a") && !text.contains("first"), "{text}");
}

#[tokio::test]
async fn owner_records_are_found_by_index_in_order() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let plan = plan(&store, OWNED).await;
    assert!(plan.contains("record_by_owner (space=? AND owner=? AND rowid>?)"), "{plan}");
    assert!(!plan.contains("SCAN record") && !plan.contains("TEMP B-TREE"), "{plan}");
}
