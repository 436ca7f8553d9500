//! Tests of the statements of this folder: index use, unusual texts, and numbers of rows.

use std::sync::Arc;

use sqlx::Row as _;

use super::*;
use crate::Store;
use crate::database::Database;
use crate::testing::{ScratchDirectory, TestDatabase, put_indexed};
use bulkhead_record::committed_state::StateQuestions;
use bulkhead_record::record::IndexColumns;

/// Number of rows of the large table.
const ROWS: i64 = 20_000;

fn database(store: &Store) -> &PostgresDatabase {
    match store.database() {
        Database::Postgres(database) => database,
        Database::Sqlite(_) => panic!("the database of this test is SQLite"),
    }
}

/// Fills the table with leases of one lane and one owner, and lets the planner know.
async fn fill(store: &Store) {
    let rows = format!(
        "INSERT INTO record (space, key, stamp, due, lane, owner, sealed) \
         SELECT 4, 'm/' || number, decode(md5(number::text), 'hex'), number, 'lane', 'owner', \
             decode('00', 'hex') \
         FROM generate_series(1, {ROWS}) AS number"
    );
    database(store).edit(&rows).await;
    let analysis = format!("ANALYZE {}", database(store).tables.record);
    database(store).query(&analysis).await;
}

/// Returns the number of walks over the whole table, and of index entries read.
async fn walks(reader: &Store, schema: &str) -> (i64, i64) {
    let sessions = format!("SELECT 1 FROM pg_stat_activity WHERE application_name = '{schema}'");
    // A session reports its figures at its end.
    while !database(reader).query(&sessions).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let figures = format!(
        "SELECT (SELECT seq_scan FROM pg_stat_user_tables \
             WHERE schemaname = '{schema}' AND relname = 'record'), \
         (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes \
             WHERE schemaname = '{schema}' AND relname = 'record')"
    );
    let found = database(reader).query(&figures).await;
    (found[0].get(0), found[0].get(1))
}

/// Runs every read and a commit. Returns the upper bound of the index entries that they need.
async fn look_and_write(store: &Arc<Store>, number: i64) -> i64 {
    let database = store.database();
    let (lease, absent) =
        (Address::new(Space::Lease, format!("m/{number}")), Address::new(Space::Lease, "absent"));
    let range = KeyRange::new(Space::Lease, "m/1", "");
    let unbounded = KeyRange::new(Space::Lease, "", "m/9999");
    let mut questions = StateQuestions::default();
    for addresses in [&mut questions.stamps, &mut questions.rows, &mut questions.sizes] {
        addresses.extend([&lease, &absent]);
    }
    questions.listings.extend([(&range, 3), (&unbounded, 3)]);
    questions.counters.insert("m");
    database.read_state(questions).await.unwrap();
    assert!(database.find_row(&lease).await.unwrap().is_some());
    assert_eq!(database.list_keys(&range, 3).await.unwrap().len(), 3);
    database.visit_rows(&range, 3, |_| true).await.unwrap();
    assert_eq!(database.count(&range, 3).await.unwrap(), 3);
    let owners = KeyRange::new(Space::Lease, "own", "");
    assert_eq!(database.count_owned(&owners, 3).await.unwrap(), 3);
    assert_eq!(database.list_owned((Space::Lease, "owner"), 9, 3).await.unwrap().len(), 3);
    assert_eq!(database.lane_heads(Space::Lease, ("", "~")).await.unwrap().len(), 1);
    let lane = (Space::Lease, "lane");
    assert_eq!(database.due_in_lane(lane, u64::MAX, 3).await.unwrap().len(), 3);
    assert_eq!(database.count_in_lane(lane, 3).await.unwrap(), 3);
    assert_eq!(database.next_due(Some(5)).await.unwrap(), Some(6));
    let mut unit = store.begin();
    unit.delete(Address::new(Space::Lease, format!("m/{}", ROWS - number)));
    unit.put(Address::new(Space::Lease, format!("n/{number}")), vec![0], IndexColumns::default());
    unit.commit().await.unwrap();
    200
}

#[tokio::test]
async fn operations_never_walk_over_the_table() {
    let other = ScratchDirectory::on(TestDatabase::Postgres).open().await;
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let store = scratch.open().await;
    fill(&store).await;
    let schema = database(&store).tables.schema.clone();
    store.close().await;
    let before = walks(&other, &schema).await;
    let store = scratch.open().await;
    let mut most = 0;
    // After five runs, the server may use a plan for all values.
    for number in 100..108 {
        most += look_and_write(&store, number).await;
    }
    store.close().await;
    let after = walks(&other, &schema).await;
    assert_eq!(after.0, before.0, "walks over the whole table");
    assert!(after.1 - before.1 < most, "{} index entries were read", after.1 - before.1);
}

#[tokio::test]
async fn texts_with_control_characters_keep_place_and_counter() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let store = scratch.open().await;
    let keys = ["m\u{1}/\0", "m\u{1}/\0\0", "m\u{1}/\u{1}", "m\u{1}/\u{2}"];
    for key in keys {
        let index = IndexColumns { due: Some(1), lane: "l\0".into(), owner: "o\u{1}".into() };
        put_indexed(&store, Address::new(Space::Lease, key), "x", index).await;
    }
    let range = KeyRange::new(Space::Lease, "m\u{1}/\0", "");
    assert_eq!(store.database().list_keys(&range, 9).await.unwrap(), keys[..2]);
    let after = KeyRange::new(Space::Lease, "m\u{1}/", "m\u{1}/\0");
    assert_eq!(store.database().list_keys(&after, 9).await.unwrap(), keys[1..]);
    let owned = store.database().list_owned((Space::Lease, "o\u{1}"), 0, 9).await.unwrap();
    assert!(owned.into_iter().map(|(_, key)| key).eq(keys));
    let due = store.due_in_lane((Space::Lease, "l\0"), 9, 9).await.unwrap();
    assert_eq!((due.len(), due[0].owner.as_str()), (4, "o\u{1}"));
    assert_eq!(store.due_lanes(Space::Lease, ("", "~"), 9).await.unwrap().lanes, ["l\0"]);
    assert!(store.stored_bytes().await.unwrap()["m\u{1}"] > 0);
    let mut unit = store.begin();
    keys.iter().for_each(|key| unit.delete(Address::new(Space::Lease, *key)));
    unit.commit().await.unwrap();
    assert!(store.stored_bytes().await.unwrap().is_empty(), "no counter drifts");
}
