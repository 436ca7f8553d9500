//! Tests of an older state of the database that is restored under open stores.

use tokio::time::timeout;

use super::*;
use bulkhead_place::write_failure::UNUSABLE;

const TABLES: [&str; 6] = ["record", "meta", "stored", "node", "change", "progress"];

/// Time in which a node notices, on a machine with other work; usually less than half a second.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// Runs a script for each table, in one transaction.
async fn edit_tables(pair: &Pair, script: &str) {
    let Database::Postgres(database) = pair.one.database() else { panic!("no server") };
    let scripts = TABLES.map(|table| script.replace("TABLE_NAME", table)).join("; ");
    // Without the lock, the nodes would interfere.
    database.edit(&format!("LOCK TABLE {}; {scripts}", TABLES.join(", "))).await;
}

async fn dump(pair: &Pair) {
    edit_tables(pair, "CREATE TABLE saved_TABLE_NAME AS SELECT * FROM TABLE_NAME").await;
}

async fn restore(pair: &Pair) {
    let script = "DELETE FROM TABLE_NAME; INSERT INTO TABLE_NAME SELECT * FROM saved_TABLE_NAME";
    edit_tables(pair, script).await;
}

/// Waits until the node says that commits are lost. Returns the reason.
async fn await_stop(store: &Arc<Store>) -> String {
    let mut changes = store.write_changes();
    let stopped = changes.wait_for(|condition| *condition == crate::WriteCondition::Stopped);
    timeout(NOTICE_TIME, stopped).await.expect("the node notices").unwrap();
    let refused = store.begin().get(&data("a")).await.err().unwrap().to_string();
    assert_eq!(refused, UNUSABLE);
    let mut unit = store.begin();
    unit.put(data("new"), b"1".to_vec(), IndexColumns::default());
    assert_eq!(unit.commit().await.unwrap_err().to_string(), UNUSABLE);
    store.claim_loss().unwrap().to_owned()
}

fn assert_names_loss(why: &str) {
    let words = ["acknowledged writes are lost", "or after the restore of a backup"];
    assert!(words.iter().all(|words| why.contains(words)), "{why}");
}

#[tokio::test]
async fn older_state_under_nodes_stops_all_of_them() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    put(&pair.one, data("a"), "1").await;
    pair.catch_up().await;
    dump(&pair).await;
    put(&pair.other, data("a"), "2").await;
    pair.one.data().changes.await_next().await.unwrap();
    let last = pair.other.data().database.own_commits();
    restore(&pair).await;
    // The idle node has read what is lost, and the other node made it.
    for store in [&pair.one, &pair.other] {
        let why = await_stop(store).await;
        assert_names_loss(&why);
        let numbers = [format!("commit {}", last - 1), format!("commit {last}")];
        assert!(numbers.iter().all(|number| why.contains(number)), "{why}");
    }
}

#[tokio::test]
async fn restore_without_loss_stops_no_node() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    put(&pair.one, data("a"), "1").await;
    pair.catch_up().await;
    dump(&pair).await;
    restore(&pair).await;
    for _ in 0..20 {
        pair.catch_up().await;
        pair.one.data().changes.await_next().await.unwrap();
    }
    put(&pair.one, data("a"), "2").await;
    pair.catch_up().await;
    assert_eq!(body(&pair.other, &data("a")).await.unwrap(), "2");
}

#[tokio::test]
async fn same_number_of_other_history_stops_node() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    put(&pair.other, data("a"), "1").await;
    dump(&pair).await;
    put(&pair.other, data("a"), "2").await;
    pair.one.data().changes.await_next().await.unwrap();
    // The node reads nothing while the restored state goes on.
    let paused = pair.one.data();
    let reading = paused.changes.hold_reading().await;
    let rows = "SELECT count(*) FROM node WHERE holder IS NOT NULL AND shares";
    assert_eq!(numbers(&pair.one, rows).await, [2]);
    restore(&pair).await;
    await_stop(&pair.other).await;
    drop(pair.other.data());
    edit(
        &pair.one,
        "UPDATE node SET holder = x'00', commits = commits + 1, \
             kept = commits + 2 \
         WHERE shares AND since = (SELECT max(since) FROM node WHERE shares)",
    )
    .await;
    drop(reading);
    let why = await_stop(&pair.one).await;
    assert_names_loss(&why);
    assert!(why.contains("another commit"), "{why}");
}

#[tokio::test]
async fn emptied_tables_stop_nodes() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    put(&pair.one, data("a"), "1").await;
    pair.catch_up().await;
    edit_tables(&pair, "DELETE FROM TABLE_NAME").await;
    for store in [&pair.one, &pair.other] {
        assert_names_loss(&await_stop(store).await);
    }
}

/// Each data directory that ever opened the store has a row for good.
#[tokio::test]
async fn rows_of_ended_nodes_are_read_once() {
    let pair = Pair::open_with(IDLE, IDLE).await;
    let insertion = "INSERT INTO node (name, commits, kept) \
         SELECT 'ended-' || number, number, 0 FROM generate_series(1, 300) AS g (number)";
    edit(&pair.one, insertion).await;
    pair.catch_up().await;
    let commits = pair.other.data().changes.known().unwrap();
    assert_eq!((commits.numbers.len(), commits.followed().len()), (302, 2));
    let Database::Postgres(database) = pair.other.database() else { panic!("no server") };
    // A node that opens, commits and closes between two reads.
    edit(&pair.one, "UPDATE node SET commits = commits + 2, kept = 0 WHERE name = 'ended-7'").await;
    let found = database.read_changes(&commits).await.unwrap();
    assert_eq!(found.known.numbers["ended-7"], 9);
    assert_eq!(found.known.numbers.len(), 302);
    edit(&pair.one, "UPDATE node SET commits = commits - 3 WHERE name = 'ended-9'").await;
    for store in [&pair.one, &pair.other] {
        assert_names_loss(&await_stop(store).await);
    }
}
