//! Tests of the claim with two data directories on one database, and of databases that lost
//! commits.

mod named_nodes;
mod shared_database;
mod shared_identity;
mod shared_keyring;
mod shared_time;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::clock::StoreClock;
use crate::database::DatabasePlace;
use crate::identity::migration_mark;
use crate::postgres::PostgresDatabase;
use crate::testing::{ScratchDirectory, TestDatabase, body, data, edit, numbers, put};
use crate::{SealKey, Store, WriteCondition};
use bulkhead_place::claim_watch::ClaimTimes;
use bulkhead_place::options::{FlushPolicy, StoreOptions};
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_place::write_failure::UNUSABLE;
use bulkhead_record::record::IndexColumns;
use bulkhead_record::seal::Seal;

const HOUR: Duration = Duration::from_secs(3_600);
/// Times of a claim that only commits renew.
const IDLE: ClaimTimes =
    ClaimTimes { claim: HOUR, confirmed: HOUR, renewal: HOUR, poll: Duration::from_millis(10) };

fn key() -> SealKey {
    SealKey::from_bytes([1; 32])
}

/// Returns a directory on a new schema with an initialised store.
async fn initialised() -> ScratchDirectory {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    scratch.open().await.close().await;
    scratch
}

async fn hold_with(scratch: &ScratchDirectory, times: ClaimTimes) -> Arc<DataDirectory> {
    let mut directory = scratch.hold().await;
    Arc::get_mut(&mut directory).unwrap().claim_times = times;
    directory
}

async fn open_with(scratch: &ScratchDirectory, times: ClaimTimes) -> Arc<Store> {
    hold_with(scratch, times).await.open(key()).await.unwrap()
}

/// Opens the store like [`open_with`]. The start does not look at the claim of another node.
async fn open_patiently(scratch: &ScratchDirectory, times: ClaimTimes) -> Arc<Store> {
    let mut directory =
        DataDirectory::hold_uninspected(scratch.options(), StoreClock::system()).unwrap();
    directory.claim_times = times;
    Arc::new(directory).open(key()).await.unwrap()
}

fn place(scratch: &ScratchDirectory) -> PostgresPlace {
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    *place
}

/// Runs a script without a claim.
async fn edit_beside(scratch: &ScratchDirectory, script: &str) {
    let database = PostgresDatabase::open(&place(scratch), FlushPolicy::EveryCommit).await;
    database.unwrap().edit(script).await;
}

async fn expire(scratch: &ScratchDirectory) {
    let past = "UPDATE node SET until = CURRENT_TIMESTAMP - INTERVAL '1 second'";
    edit_beside(scratch, past).await;
}

/// Writes until dropped.
async fn write_for_ever(store: Arc<Store>) {
    loop {
        put(&store, data("busy"), "1").await;
    }
}

async fn failed_put(store: &Arc<Store>, name: &str) -> String {
    let mut unit = store.begin();
    unit.put(data(name), b"1".to_vec(), IndexColumns::default());
    unit.commit().await.unwrap_err().to_string()
}

async fn failed_get(store: &Arc<Store>, name: &str) -> String {
    store.begin().get(&data(name)).await.err().unwrap().to_string()
}

fn refusal<T>(outcome: Result<T, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Refused(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing was refused"),
    }
}

#[tokio::test]
async fn renewed_claim_refuses_start_and_opening() {
    let scratch = initialised().await;
    let (sealed_beside, beside) = (scratch.beside(), scratch.beside());
    let sealed = hold_with(&sealed_beside, IDLE).await;
    let store = open_with(&scratch, IDLE).await;
    let writing = tokio::spawn(write_for_ever(Arc::clone(&store)));
    for text in [
        refusal(sealed.open(key()).await),
        refusal(DataDirectory::hold(beside.options()).await),
        refusal(sealed.replace_by_tables(&place(&scratch)).await),
    ] {
        let process = format!("another node: process {} on host ", std::process::id());
        assert!(text.contains(&process) && text.contains("renewed"), "{text}");
    }
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    put(&store, data("a"), "1").await;
    store.close().await;
    let store = sealed.open(key()).await.unwrap();
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn expired_claim_is_taken_and_old_node_fenced() {
    let scratch = initialised().await;
    let old = open_with(&scratch, IDLE).await;
    put(&old, data("a"), "1").await;
    expire(&scratch).await;
    let beside = scratch.beside();
    let hasty = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let new = open_patiently(&beside, hasty).await;
    put(&new, data("a"), "2").await;
    assert_eq!(old.claim_loss(), None, "not noticed yet");
    assert_eq!(failed_put(&old, "b").await, UNUSABLE);
    let text = old.claim_loss().unwrap().to_owned();
    assert!(text.contains("another node since") && text.contains(" on host "), "{text}");
    assert_eq!(failed_put(&old, "b").await, UNUSABLE);
    assert_eq!(failed_get(&old, "a").await, UNUSABLE, "the record in memory is stale");
    assert_eq!((old.claim_loss(), old.stopped()), (Some(text.as_str()), Some(text.as_str())));
    assert_eq!(old.write_condition(), WriteCondition::Stopped);
    assert_eq!(body(&new, &data("b")).await, None);
    put(&new, data("b"), "3").await;
    old.close().await;
    put(&new, data("b"), "4").await;
    assert_eq!(body(&new, &data("a")).await.unwrap(), "2");
}

#[tokio::test]
async fn idle_node_notices_loss_of_claim() {
    let scratch = initialised().await;
    let times = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let store = open_with(&scratch, times).await;
    put(&store, data("a"), "1").await;
    let renewed = "SELECT 1::bigint FROM node WHERE until > since + INTERVAL '1 hour'";
    while numbers(&store, renewed).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let mut changes = store.write_changes();
    edit_beside(&scratch, "UPDATE node SET holder = NULL").await;
    changes.wait_for(|condition| *condition == WriteCondition::Stopped).await.unwrap();
    assert_eq!(failed_get(&store, "a").await, UNUSABLE);
    let text = store.claim_loss().unwrap();
    assert!(text.contains("the claim of this node was removed"), "{text}");
}

#[tokio::test]
async fn unconfirmed_claim_refuses_records_in_memory() {
    let scratch = initialised().await;
    let store = open_with(&scratch, ClaimTimes { confirmed: Duration::ZERO, ..IDLE }).await;
    put(&store, data("a"), "1").await;
    assert_eq!(failed_get(&store, "a").await, UNUSABLE);
    assert!(store.begin().folder_revision("m/").is_err());
    assert_eq!((store.claim_loss(), store.write_condition()), (None, WriteCondition::Works));
    assert!(store.is_claim_in_doubt());
    store.close().await;
    assert!(!store.is_claim_in_doubt(), "the claim was given back");
}

#[tokio::test]
async fn killed_process_restarts_at_once_in_directory() {
    let scratch = initialised().await;
    // Killed after a commit, and between the claim and the first commit.
    for with_commit in [true, false] {
        let store = open_with(&scratch, IDLE).await;
        if with_commit {
            put(&store, data("a"), "1").await;
        }
        let claims = "SELECT count(holder) FROM node WHERE until > CURRENT_TIMESTAMP";
        assert_eq!(numbers(&store, claims).await, [1]);
    }
    let store = open_with(&scratch, IDLE).await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn claim_of_dead_node_ends_by_either_clock() {
    let scratch = initialised().await;
    let (patient, quick) = (scratch.beside(), scratch.beside());
    let brief = ClaimTimes { claim: Duration::from_millis(50), ..IDLE };
    let quick_directory = hold_with(&quick, brief).await;
    drop(open_with(&scratch, IDLE).await);
    // The claim of an hour was not renewed for the whole time of a claim of the second node.
    drop(quick_directory.open(key()).await.unwrap());
    let hasty = ClaimTimes { renewal: Duration::from_millis(30), ..IDLE };
    let waiting = tokio::spawn(async move { open_patiently(&patient, hasty).await.close().await });
    expire(&scratch).await;
    waiting.await.unwrap();
}

#[tokio::test]
async fn close_gives_claim_back() {
    let scratch = initialised().await;
    let store = open_with(&scratch, IDLE).await;
    put(&store, data("a"), "1").await;
    store.close().await;
    assert!(failed_get(&store, "a").await.contains("the store is closed"));
    let database = PostgresDatabase::open(&place(&scratch), FlushPolicy::EveryCommit).await;
    let free = "SELECT 1 FROM node WHERE name <> 'store' AND holder IS NULL AND until IS NULL";
    assert_eq!(database.unwrap().query(free).await.len(), 1);
}

#[tokio::test]
async fn lost_commits_stop_node_and_its_restart() {
    let scratch = initialised().await;
    let store = open_with(&scratch, IDLE).await;
    put(&store, data("a"), "1").await;
    let expected = numbers(&store, "SELECT commits FROM node WHERE name <> 'store'").await[0];
    edit(&store, "UPDATE node SET commits = commits - 1").await;
    assert_eq!(failed_put(&store, "b").await, UNUSABLE);
    let text = store.claim_loss().unwrap().to_owned();
    let numbers = [format!("has commit {}", expected - 1), format!("knows of commit {expected}")];
    assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
    assert_eq!(failed_get(&store, "a").await, UNUSABLE);
    store.close().await;
    drop(store);
    let text = refusal(DataDirectory::hold(scratch.options()).await);
    assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
    let examined = DataDirectory::examine_claim(&scratch.options()).await;
    assert_eq!(examined.unwrap_err().to_string(), text);
    let mark = scratch.path().join("database-mark");
    assert!(text.contains(mark.to_str().unwrap()), "{text}");
    fs::remove_file(mark).unwrap();
    let store = scratch.open().await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    assert_eq!(body(&store, &data("b")).await, None);
}

#[tokio::test]
async fn databases_other_than_marked_are_refused() {
    let (scratch, other) = (initialised().await, initialised().await);
    let empty = ScratchDirectory::on(TestDatabase::Postgres);
    let cluster = scratch.hold().await.cluster_id().await.unwrap().unwrap();
    for (database, reason) in [(&other, "is of cluster"), (&empty, "holds no data")] {
        let options = StoreOptions { database: database.options().database, ..scratch.options() };
        let examined = DataDirectory::examine_claim(&options).await.unwrap_err().to_string();
        let text = refusal(DataDirectory::hold(options).await);
        assert!(text.contains(reason) && text.contains(&cluster), "{text}");
        assert_eq!(examined, text);
    }
    scratch.open().await.close().await;
}

#[tokio::test]
async fn examination_names_node_with_claim() {
    let scratch = initialised().await;
    let beside = scratch.beside();
    assert_eq!(DataDirectory::examine_claim(&beside.options()).await, Ok(()));
    let store = open_with(&scratch, ClaimTimes { renewal: Duration::ZERO, ..IDLE }).await;
    let writing = tokio::spawn(write_for_ever(Arc::clone(&store)));
    let refused = DataDirectory::examine_claim(&beside.options()).await.unwrap_err().to_string();
    assert!(refused.contains("in use by another node: process"), "{refused}");
    writing.abort();
    assert!(!beside.path().join("node-id").exists(), "an examination creates nothing");
}

/// Opens the seal, and runs `act` after the first reading of the identity, before the claim.
fn open_after<'a>(
    act: impl AsyncFn() + 'a,
) -> impl Fn(&StoreIdentity) -> Result<Seal, StoreFault> + 'a {
    let has_acted = AtomicBool::new(false);
    move |identity| {
        if !has_acted.swap(true, Ordering::Relaxed) {
            let runtime = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| runtime.block_on(act()));
        }
        identity.open(&key(), Path::new("db"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_takes_keyring_read_under_claim() {
    let scratch = initialised().await;
    let beside = scratch.beside();
    let directory = hold_with(&beside, IDLE).await;
    let store = open_with(&scratch, IDLE).await;
    let rotate_and_close = async || {
        store.rotate().await.unwrap();
        put(&store, data("a"), "1").await;
        store.close().await;
    };
    let next = directory.open_by(open_after(rotate_and_close)).await.unwrap();
    assert_eq!(body(&next, &data("a")).await.unwrap(), "1");
    assert_eq!(next.rotate().await.unwrap().term, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_migrated_during_opening_are_refused() {
    let scratch = initialised().await;
    let directory = hold_with(&scratch, IDLE).await;
    let place = place(&scratch);
    let migrate = async || {
        let marked = DatabasePlace::Postgres(&place);
        migration_mark::write_mark(marked, "elsewhere").await.unwrap();
    };
    let text = refusal(directory.open_by(open_after(migrate)).await);
    assert!(text.contains("were migrated to elsewhere"), "{text}");
    let database = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
    let free = "SELECT 1 FROM node WHERE name <> 'store' AND holder IS NULL";
    assert_eq!(database.query(free).await.len(), 1, "the claim was given back");
    let text = refusal(directory.open(key()).await);
    assert!(text.contains("were migrated to elsewhere"), "{text}");
}

#[tokio::test]
async fn refused_restore_keeps_mark_of_directory() {
    let scratch = initialised().await;
    let (beside, mark) = (scratch.beside(), scratch.path().join("database-mark"));
    let directory = hold_with(&scratch, IDLE).await;
    let other = open_with(&beside, IDLE).await;
    let writing = tokio::spawn(write_for_ever(Arc::clone(&other)));
    refusal(directory.replace_by_tables(&place(&scratch)).await);
    refusal(directory.set_aside(1).await);
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    put(&other, data("a"), "1").await;
    other.close().await;
    directory.set_aside(1).await.unwrap();
    assert!(mark.exists());
    let store = directory.open(key()).await.unwrap();
    put(&store, data("a"), "2").await;
    let of_holder_first = "SELECT commits FROM node WHERE name <> 'store' ORDER BY holder IS NULL";
    let before = numbers(&store, of_holder_first).await;
    store.close().await;
    assert!(directory.put_back(1).await.unwrap());
    assert!(!mark.exists());
    let store = open_with(&beside, IDLE).await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    // The opening counts as well.
    assert_eq!(numbers(&store, of_holder_first).await, [before[1] + 2, before[0] + 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_exchange_changes_no_tables_later() {
    let scratch = initialised().await;
    let directory = hold_with(&scratch, IDLE).await;
    directory.set_aside(1).await.unwrap();
    let store = directory.open(key()).await.unwrap();
    put(&store, data("a"), "1").await;
    store.close().await;
    let database = PostgresDatabase::open(&place(&scratch), FlushPolicy::EveryCommit).await;
    let database = database.unwrap();
    let backup = database.hold_lock("record").await;
    let exchange = tokio::spawn({
        let directory = Arc::clone(&directory);
        async move { directory.put_back(1).await }
    });
    let waiting = "SELECT 1 FROM pg_stat_activity \
         WHERE application_name = current_schema() AND wait_event_type = 'Lock'";
    while database.query(waiting).await.is_empty() {
        tokio::task::yield_now().await;
    }
    exchange.abort();
    assert!(exchange.await.unwrap_err().is_cancelled());
    drop(backup);
    let working = "SELECT 1 FROM pg_stat_activity WHERE application_name = current_schema() \
         AND pid <> pg_backend_pid() AND query LIKE '%RENAME TO%'";
    while !database.query(working).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let store = directory.open(key()).await.unwrap();
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    store.close().await;
    assert!(directory.put_back(1).await.unwrap());
}

/// The clock of a standby may be ahead of the clock of the primary server that it replaces.
#[tokio::test]
async fn expired_claim_that_is_renewed_refuses_opening() {
    let scratch = initialised().await;
    let (beside, late) = (scratch.beside(), scratch.beside());
    let waiting = hold_with(&beside, IDLE).await;
    let late = hold_with(&late, ClaimTimes { renewal: Duration::from_millis(30), ..IDLE }).await;
    let store = open_with(&scratch, IDLE).await;
    expire(&scratch).await;
    let opening = tokio::spawn(async move { waiting.open(key()).await });
    while !opening.is_finished() {
        put(&store, data("a"), "1").await;
        expire(&scratch).await;
    }
    let text = refusal(opening.await.unwrap());
    assert!(text.contains("its claim was renewed"), "{text}");
    // Another node that died stays silent.
    expire(&scratch).await;
    drop(late.open(key()).await.unwrap());
}

#[tokio::test]
async fn commits_of_other_process_with_claim_fence_node() {
    let scratch = initialised().await;
    let store = open_with(&scratch, IDLE).await;
    put(&store, data("a"), "1").await;
    edit_beside(&scratch, "UPDATE node SET commits = commits + 1").await;
    assert_eq!(failed_put(&store, "b").await, UNUSABLE);
    let text = store.claim_loss().unwrap();
    assert!(text.contains("another process wrote with the claim of this node"), "{text}");
    assert_eq!(failed_get(&store, "a").await, UNUSABLE);
}

#[tokio::test]
async fn moved_directory_opens_and_keeps_proof_of_loss() {
    let scratch = initialised().await;
    let store = open_with(&scratch, IDLE).await;
    put(&store, data("a"), "1").await;
    store.close().await;
    drop(store);
    // Another inode makes another node, as on a machine with another name.
    let (id, copy) = (scratch.path().join("node-id"), scratch.path().join("copy"));
    fs::copy(&id, &copy).unwrap();
    fs::rename(&copy, &id).unwrap();
    let mark = fs::read_to_string(scratch.path().join("database-mark")).unwrap();
    let store = scratch.open().await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    store.close().await;
    drop(store);
    // The mark of the node before still shows that commits are lost.
    fs::write(scratch.path().join("database-mark"), mark).unwrap();
    edit_beside(&scratch, "UPDATE node SET commits = commits - 1").await;
    let text = refusal(DataDirectory::hold(scratch.options()).await);
    assert!(text.contains("acknowledged writes are lost"), "{text}");
}

#[tokio::test]
async fn directory_of_server_refuses_to_begin_empty_file() {
    let scratch = initialised().await;
    let options = StoreOptions { database: DatabaseChoice::SqliteFile, ..scratch.options() };
    let text = refusal(DataDirectory::hold(options.clone()).await);
    assert!(text.contains("holds no data") && text.contains("belonged to cluster"), "{text}");
    assert!(!scratch.path().join("bulkhead.db").exists());
    fs::remove_file(scratch.path().join("database-mark")).unwrap();
    DataDirectory::hold(options).await.unwrap();
}
