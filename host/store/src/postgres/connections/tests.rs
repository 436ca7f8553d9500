//! Tests of the connections, of other processes on the same database, and of unknown outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;

use sqlx::Row as _;

use super::*;
use crate::RecordBody;
use crate::Store;
use crate::database::Database;
use crate::postgres::write_beginning::BEGIN_WRITE;
use crate::postgres::{group_writes, meta_table};
use crate::testing::{ScratchDirectory, TestDatabase, body, data, put};
use bulkhead_place::options::DatabaseChoice;
use bulkhead_place::postgres_place::PostgresServer;
use bulkhead_place::write_condition::WriteCondition;
use bulkhead_place::write_failure::{IdentityFailure, UNUSABLE};
use bulkhead_record::committed_state::{CommittedState, GroupWrites, StateQuestions};
use bulkhead_record::record::{Address, IndexColumns, Record};
use bulkhead_record::rows::SealedRow;

async fn opened() -> (ScratchDirectory, Arc<Store>, PostgresPlace) {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let store = scratch.open().await;
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    (scratch, store, *place)
}

fn database(store: &Store) -> &PostgresDatabase {
    match store.database() {
        Database::Postgres(database) => database,
        Database::Sqlite(_) => panic!("the database of this test is SQLite"),
    }
}

fn row(store: &Store, key: &str, body: &[u8]) -> SealedRow {
    let record = Record::unwritten(RecordBody::new(body.to_vec()), IndexColumns::default());
    SealedRow::of(store.seal(), &data(key), &record).unwrap()
}

/// Ends the sessions of the schema, as a restart of the server does. Returns their number.
async fn end_sessions(database: &PostgresDatabase) -> usize {
    let ends = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                WHERE application_name = current_schema() AND pid <> pg_backend_pid()";
    let ended = database.query(ends).await;
    assert!(ended.iter().all(|row| row.get::<bool, _>(0)));
    ended.len()
}

/// Waits until a session of the schema waits for a lock.
async fn await_lock_wait(database: &PostgresDatabase) {
    let waiting = "SELECT 1 FROM pg_stat_activity \
                   WHERE application_name = current_schema() AND wait_event_type = 'Lock'";
    while database.query(waiting).await.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dead_idle_connections_are_replaced_without_error() {
    let (_scratch, store, _) = opened().await;
    put(&store, data("a"), "1").await;
    let address = data("a");
    let range = bulkhead_record::range::KeyRange::new(crate::Space::Data, "", "");
    for _ in 0..2 {
        assert!(store.database().find_row(&address).await.unwrap().is_some());
        assert!(end_sessions(database(&store)).await >= 2);
        let mut visited = 0;
        let take = |_| {
            visited += 1;
            true
        };
        store.database().visit_rows(&range, 9, take).await.unwrap();
        assert_eq!(visited, 1);
        end_sessions(database(&store)).await;
        assert!(store.database().find_row(&address).await.unwrap().is_some());
        put(&store, data("a"), "2").await;
    }
}

#[tokio::test]
async fn commit_cut_before_its_record_is_not_stored() {
    let (_scratch, store, _) = opened().await;
    let trigger = "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON record DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW WHEN (new.key = 'poison') EXECUTE FUNCTION cut()";
    database(&store).edit(trigger).await;
    let mut unit = store.begin();
    unit.put(data("poison"), b"1".to_vec(), IndexColumns::default());
    let fault = unit.commit().await.unwrap_err();
    assert!(fault.to_string().contains("nothing was stored"), "{fault}");
    assert_eq!(body(&store, &data("poison")).await, None);
    put(&store, data("a"), "1").await;
}

/// A commit that is on its way must not be reported as not stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspection_awaits_commit_under_way() {
    let (_scratch, store, place) = opened().await;
    let under_way = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
    let row = row(&store, "a", b"1");
    let writes = GroupWrites { puts: vec![&row], ..GroupWrites::default() };
    let (tables, claim) = (&under_way.tables, database(&store).claim());
    let statements = group_writes::statements_of(tables, &writes, claim).unwrap();
    let mut connection = under_way.connect().await.unwrap();
    run_script(&mut connection, BEGIN_WRITE).await.unwrap();
    for statement in statements {
        statement.fetch(&mut connection).await.unwrap();
    }
    let inspection = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let claim = database(&store).claim().unwrap();
            claim.begin_doubt();
            let number = Some(claim.commits() + 1);
            database(&store).decide(claim, number, "no answer".into()).await.ok().unwrap()
        }
    });
    await_lock_wait(database(&store)).await;
    assert!(!inspection.is_finished());
    run_script(&mut connection, "COMMIT").await.unwrap();
    assert!(inspection.await.unwrap() == TransactionOutcome::Committed);
    assert_eq!(body(&store, &row.address).await.unwrap(), "1");
}

/// Begins a transaction with these writes, as of a commit that waits for a standby.
async fn begin_under_way(
    database: &PostgresDatabase,
    statements: Vec<StatementDraft>,
) -> PgConnection {
    let mut connection = database.connect().await.unwrap();
    run_script(&mut connection, BEGIN_WRITE).await.unwrap();
    for statement in statements {
        statement.fetch(&mut connection).await.unwrap();
    }
    connection
}

/// New shares must not be thrown away while their commit is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_of_identity_awaits_commit_under_way() {
    let (_scratch, store, place) = opened().await;
    let other = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
    for (end, is_stored) in [("ROLLBACK", false), ("COMMIT", true)] {
        let identity = vec![("root", Some(b"new".to_vec())), ("seal-root", None)];
        let writes = GroupWrites { identity: identity.clone(), ..GroupWrites::default() };
        let claim = database(&store).claim();
        let statements = group_writes::statements_of(&other.tables, &writes, claim).unwrap();
        let mut under_way = begin_under_way(&other, statements).await;
        let inspection = tokio::spawn({
            let store = Arc::clone(&store);
            async move { database(&store).find_change(&identity).await.unwrap() }
        });
        await_lock_wait(&other).await;
        assert!(!inspection.is_finished());
        run_script(&mut under_way, end).await.unwrap();
        assert_eq!(inspection.await.unwrap(), is_stored);
    }
}

#[tokio::test]
async fn cut_change_of_identity_is_decided() {
    let (_scratch, store, _) = opened().await;
    let trigger = "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER cut AFTER UPDATE ON meta DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW WHEN (new.name = 'root') EXECUTE FUNCTION cut()";
    database(&store).edit(trigger).await;
    let change = vec![("root", Some(b"new".to_vec()))];
    let failure = store.database().change_identity(change).await.unwrap_err();
    let IdentityFailure::Undone(fault) = failure else { panic!("the outcome is known") };
    assert!(fault.to_string().contains("nothing was stored"), "{fault}");
    put(&store, data("a"), "1").await;
}

/// The keys of a new cluster must not be thrown away while its commit is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initialisation_awaits_commit_under_way() {
    for end in ["ROLLBACK", "COMMIT"] {
        let scratch = ScratchDirectory::on(TestDatabase::Postgres);
        let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!() };
        let new = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
        let identity = vec![("keyring", Some(b"sealed".to_vec()))];
        let writes = GroupWrites { identity: identity.clone(), ..GroupWrites::default() };
        let mut statements = vec![StatementDraft::script(meta_table::creation(&new.tables))];
        statements.extend(group_writes::statements_of(&new.tables, &writes, None).unwrap());
        let mut under_way = begin_under_way(&new, statements.clone()).await;
        let new = Arc::new(new);
        let decision = tokio::spawn({
            let new = Arc::clone(&new);
            async move {
                let change = (statements.as_slice(), identity.as_slice());
                new.decide_initialisation(change, "no answer".into()).await
            }
        });
        await_lock_wait(&new).await;
        assert!(!decision.is_finished());
        run_script(&mut under_way, end).await.unwrap();
        assert_eq!(decision.await.unwrap(), Ok(()), "{end}");
        let rows = new.identity_rows().await.unwrap();
        assert_eq!(rows.get("keyring"), Some(&b"sealed".to_vec()));
    }
}

/// Runs a group that reads `read` and writes `row`, and calls `between` before the write.
async fn read_and_write(
    database: &PostgresDatabase,
    read: &Address,
    row: &SealedRow,
    between: impl FnOnce(),
) -> Result<(), WriteFailure> {
    let mut questions = StateQuestions::default();
    questions.stamps.insert(read);
    let plan = |_: CommittedState<'_>| {
        between();
        Some(GroupWrites { puts: vec![row], ..GroupWrites::default() })
    };
    database.commit_group(questions, plan).await.map(drop)
}

/// Two processes each rely on a record that the other writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn write_skew_of_two_processes_is_refused() {
    let (_scratch, store, place) = opened().await;
    for key in ["a", "b"] {
        put(&store, data(key), "0").await;
    }
    let other = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
    let (row_a, row_b) = (row(&store, "a", b"1"), row(&store, "b", b"1"));
    let (reads, has_read) = mpsc::channel();
    let (writes, may_write) = mpsc::channel::<()>();
    let other_side = tokio::spawn(async move {
        let between = move || {
            reads.send(()).unwrap();
            // Another thread serves the connections meanwhile.
            tokio::task::block_in_place(|| may_write.recv().unwrap());
        };
        read_and_write(&other, &data("a"), &row_b, between).await.err()
    });
    tokio::task::block_in_place(|| has_read.recv().unwrap());
    read_and_write(database(&store), &data("b"), &row_a, || {}).await.ok().unwrap();
    writes.send(()).unwrap();
    let refused = other_side.await.unwrap();
    assert!(matches!(refused, Some(WriteFailure::Interfered)));
    assert_eq!(body(&store, &data("b")).await.unwrap(), "0");
}

/// Each process adds 1 to the same counter of stored bytes and to its own record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_two_processes_lose_no_update() {
    const EACH: usize = 20;
    let (_scratch, store, place) = opened().await;
    let processes = ["first", "second"].map(|name| {
        let (store, place) = (Arc::clone(&store), place.clone());
        tokio::spawn(async move {
            let database = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
            for number in 0..EACH {
                let row = row(&store, &format!("m/{name}{number}"), b"1");
                let mut attempts = 1;
                while read_and_write(&database, &data("m"), &row, || {}).await.is_err() {
                    pause_before(attempts).await;
                    attempts += 1;
                }
            }
        })
    });
    for process in processes {
        process.await.unwrap();
    }
    let sizes = "SELECT sum(2 * octet_length(key) + octet_length(sealed) + 64)::bigint \
                 FROM record WHERE key LIKE 'm/%'";
    let summed = database(&store).query(sizes).await[0].get::<i64, _>(0);
    assert_eq!(store.stored_bytes().await.unwrap()["m"], u64::try_from(summed).unwrap());
    let counted = "SELECT count(*) FROM record WHERE key LIKE 'm/%'";
    assert_eq!(database(&store).query(counted).await[0].get::<i64, _>(0), 2 * EACH as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_write_leaves_nothing_and_store_continues() {
    let (_scratch, store, _) = opened().await;
    put(&store, data("a"), "1").await;
    let mut lock = database(&store).connect().await.unwrap();
    run_script(&mut lock, "BEGIN").await.unwrap();
    let lock_text = format!("SELECT * FROM {} FOR UPDATE", database(&store).tables.node);
    run_script(&mut lock, &lock_text).await.unwrap();
    let abandoned = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let row = row(&store, "a", b"2");
            read_and_write(database(&store), &data("a"), &row, || {}).await.is_ok()
        }
    });
    await_lock_wait(database(&store)).await;
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    drop(lock);
    put(&store, data("b"), "2").await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_is_awaited_while_transaction_is_open() {
    let (_scratch, store, _) = opened().await;
    let mut lock = database(&store).connect().await.unwrap();
    run_script(&mut lock, "BEGIN").await.unwrap();
    let lock_text = format!("SELECT * FROM {} FOR UPDATE", database(&store).tables.node);
    run_script(&mut lock, &lock_text).await.unwrap();
    let decision = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.database().await_decisions().await.is_ok() }
    });
    await_lock_wait(database(&store)).await;
    assert!(!decision.is_finished());
    run_script(&mut lock, "ROLLBACK").await.unwrap();
    assert!(decision.await.unwrap());
}

#[tokio::test]
async fn read_only_database_shows_until_next_write() {
    let (_scratch, store, _) = opened().await;
    put(&store, data("a"), "1").await;
    let trigger = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25006'; END $$; \
         CREATE TRIGGER refuse BEFORE UPDATE ON record \
         FOR EACH ROW EXECUTE FUNCTION refuse()";
    database(&store).edit(trigger).await;
    let mut unit = store.begin();
    unit.put(data("a"), b"2".to_vec(), IndexColumns::default());
    let fault = unit.commit().await.unwrap_err();
    assert_eq!(fault, StoreFault::Unavailable(UNUSABLE.to_owned()));
    let cause = store.write_refusal().unwrap().to_string();
    assert!(cause.contains("primary server"), "{cause}");
    assert_eq!(store.write_condition(), WriteCondition::Refused);
    put(&store, data("b"), "1").await;
    assert_eq!(store.write_condition(), WriteCondition::Works);
}

#[tokio::test]
async fn unreachable_server_refuses_writes_until_it_returns() {
    let (_scratch, store, place) = opened().await;
    let mut other = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.unwrap();
    let unreachable = PostgresServer { port: 1, ..place.servers[0].clone() };
    let unreachable = PostgresPlace { servers: vec![unreachable], ..place };
    let reachable =
        mem::replace(&mut other.connector, Arc::new(ServerConnector::new(&unreachable)));
    end_sessions(database(&store)).await;
    let row = row(&store, "a", b"1");
    for _ in 0..2 {
        let refused = read_and_write(&other, &data("a"), &row, || {}).await;
        assert!(matches!(refused, Err(WriteFailure::Refused(_))));
        assert_eq!(other.write_condition(), WriteCondition::Refused);
    }
    other.connector = reachable;
    assert!(read_and_write(&other, &data("a"), &row, || {}).await.is_ok());
    assert_eq!(other.write_condition(), WriteCondition::Works);
}

#[tokio::test]
async fn settings_that_lose_commits_are_named() {
    // The server of the tests flushes nothing.
    let (_scratch, store, _) = opened().await;
    let doubts = store.durability_doubts();
    assert!(matches!(doubts, [doubt] if doubt.contains("fsync = off")), "{doubts:?}");
    assert!(ScratchDirectory::of_files().open().await.durability_doubts().is_empty());
}

#[tokio::test]
async fn database_of_other_encoding_is_refused() {
    let (_scratch, store, place) = opened().await;
    let creation = "CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'";
    database(&store).query(creation).await;
    let place = PostgresPlace { database: "plain".into(), ..place };
    let fault = PostgresDatabase::open(&place, FlushPolicy::EveryCommit).await.err().unwrap();
    assert!(fault.to_string().contains("SQL_ASCII"), "{fault}");
}

#[tokio::test]
async fn panic_in_plan_costs_only_the_connection() {
    let (_scratch, store, _) = opened().await;
    let plan = |_: CommittedState<'_>| panic!("a fault of our own");
    let outcome = database(&store).commit_group(StateQuestions::default(), plan).await;
    assert!(matches!(outcome, Err(WriteFailure::Undone(_))));
    put(&store, data("a"), "1").await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

/// Ends of a commit by their codes, as a server sends the codes.
#[tokio::test]
async fn codes_decide_the_meaning_of_a_failed_commit() {
    let (_scratch, store, _) = opened().await;
    let mut meanings = BTreeMap::new();
    let codes = [
        "40001", "40P01", "53100", "57P01", "08006", "23503", "40003", "XX000", "25006", "53300",
        "57014", "55P03", "42P01", "54000",
    ];
    for code in codes {
        let mut connection = database(&store).connect().await.unwrap();
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$");
        for phase in [WritePhase::Running, WritePhase::Committing] {
            let error = run_script(&mut connection, &raise).await.unwrap_err();
            let meaning = match error.into_failure(phase) {
                WriteFailure::Stopped(_) => "stopped",
                WriteFailure::Full(_) => "full",
                WriteFailure::Undone(_) => "undone",
                WriteFailure::Interfered => "interfered",
                WriteFailure::Refused(_) => "refused",
                WriteFailure::Unknown(_) => "unknown",
            };
            meanings.insert((code, phase), meaning);
        }
    }
    for (code, before, after) in [
        ("40001", "interfered", "interfered"),
        ("40P01", "interfered", "interfered"),
        ("53100", "full", "full"),
        ("57P01", "undone", "unknown"),
        ("08006", "undone", "unknown"),
        ("23503", "undone", "undone"),
        ("40003", "undone", "unknown"),
        ("XX000", "undone", "unknown"),
        ("25006", "refused", "unknown"),
        ("53300", "refused", "unknown"),
        ("57014", "refused", "unknown"),
        ("55P03", "refused", "unknown"),
        ("42P01", "refused", "unknown"),
        ("54000", "undone", "unknown"),
    ] {
        let found =
            (meanings[&(code, WritePhase::Running)], meanings[&(code, WritePhase::Committing)]);
        assert_eq!(found, (before, after), "{code}");
    }
}
