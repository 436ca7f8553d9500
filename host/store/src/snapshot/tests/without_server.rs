//! Restores into the data of a server that does not run, on both databases: empty data, present
//! data, data in use, and a database after a disaster.

use super::*;
use crate::postgres::open_session;
use crate::testing::{administer, body, end_sessions, on_both_databases};
use crate::{DatabaseChoice, PostgresPlace, StoreOptions};
use bulkhead_test_database::psql;
use sqlx::AssertSqlSafe;
use std::path::Path;

/// A snapshot of another store, which stays open.
struct SavedStore {
    scratch: ScratchDirectory,
    snapshot: PathBuf,
    _store: Arc<Store>,
}

impl SavedStore {
    async fn fill() -> SavedStore {
        let scratch = ScratchDirectory::of_files();
        let store = filled(&scratch).await;
        let (bytes, _) = take(&store).await;
        let snapshot = saved(&scratch, &bytes);
        SavedStore { scratch, snapshot, _store: store }
    }

    async fn restore(
        &self,
        options: &StoreOptions,
        overwrite: bool,
    ) -> Result<SnapshotManifest, StoreFault> {
        restore_store(options.clone(), &self.snapshot, overwrite).await
    }
}

fn place(options: &StoreOptions) -> PostgresPlace {
    let DatabaseChoice::Postgres(place) = &options.database else { panic!("no server") };
    (**place).clone()
}

fn refusal(outcome: Result<SnapshotManifest, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Opens the restored store, and asserts that the data are those of the snapshot alone.
async fn open_restored(options: &StoreOptions) -> Arc<Store> {
    let store = Store::open(options.clone(), SealKey::from_bytes([1; 32])).await.unwrap();
    assert_eq!(body(&store, &data("mount/b")).await.as_deref(), Some("second"));
    assert_eq!(body(&store, &data("present")).await, None);
    assert!(store.restored().is_some());
    store
}

async fn data_are_restored_only_if_empty_or_forced(database: TestDatabase) {
    let (original, target) = (SavedStore::fill().await, ScratchDirectory::on(database));
    let options = StoreOptions { directory: target.path().join("data"), ..target.options() };
    let manifest = original.restore(&options, false).await.unwrap();
    assert_eq!(manifest.records, 2);
    let store = open_restored(&options).await;
    put(&store, data("present"), "1").await;
    let said = refusal(original.restore(&options, true).await);
    assert!(said.contains("in use"), "{said}");
    store.close().await;
    drop(store);
    let said = refusal(original.restore(&options, false).await);
    let name = match database {
        TestDatabase::Sqlite => options.directory.display().to_string(),
        TestDatabase::Postgres => place(&options).to_string(),
    };
    assert!(said.contains(&format!("{name} holds data")) && said.contains("-force"), "{said}");
    original.restore(&options, true).await.unwrap();
    open_restored(&options).await.close().await;
}

on_both_databases!(data_are_restored_only_if_empty_or_forced);

#[tokio::test]
async fn unreadable_file_is_replaced_only_by_force() {
    let (original, target) = (SavedStore::fill().await, ScratchDirectory::of_files());
    std::fs::write(target.path().join("bulkhead.db"), "no database at all, but a text").unwrap();
    refusal(original.restore(&target.options(), false).await);
    original.restore(&target.options(), true).await.unwrap();
    open_restored(&target.options()).await.close().await;
    let said = refusal(original.restore(&original.scratch.options(), true).await);
    assert!(said.contains("in use"), "{said}");
}

/// Writes until dropped, so that the claim of the node is renewed.
async fn write_for_ever(store: Arc<Store>) {
    loop {
        put(&store, data("busy"), "1").await;
    }
}

/// Returns the number of tables that a restore filled.
fn filled_tables(place: &PostgresPlace) -> u64 {
    let output = psql(&[&format!(
        "SELECT count(*) FROM pg_tables WHERE schemaname = '{}' AND tablename LIKE 'restored%'",
        place.schema
    )]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn opening_removes_tables_of_abandoned_restore() {
    let (original, target) =
        (SavedStore::fill().await, ScratchDirectory::on(TestDatabase::Postgres));
    filled(&target).await.close().await;
    let place = place(&target.options());
    let directory = target.hold().await;
    drop(restoring::prepare(&directory, &original.snapshot).await.unwrap());
    assert_ne!(filled_tables(&place), 0);
    // A backup reads the tables: the opening does not wait for its end.
    let mut backup = open_session(&place).await;
    let script = format!("BEGIN; LOCK TABLE {}.restored_record IN ACCESS SHARE MODE", place.schema);
    sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut backup).await.unwrap();
    directory.open(SealKey::from_bytes([1; 32])).await.unwrap().close().await;
    assert_ne!(filled_tables(&place), 0);
    drop(backup);
    directory.open(SealKey::from_bytes([1; 32])).await.unwrap().close().await;
    assert_eq!(filled_tables(&place), 0);
}

#[tokio::test]
async fn database_of_other_node_is_not_restored() {
    let (original, target) =
        (SavedStore::fill().await, ScratchDirectory::on(TestDatabase::Postgres));
    let store = target.open().await;
    let writing = tokio::spawn(write_for_ever(Arc::clone(&store)));
    let beside = target.beside();
    let said = refusal(original.restore(&beside.options(), true).await);
    assert!(said.contains("in use by another node"), "{said}");
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    // No tables were filled, which a restore of the other node could take for its own.
    assert_eq!(filled_tables(&place(&beside.options())), 0);
    store.close().await;
    original.restore(&beside.options(), true).await.unwrap();
    open_restored(&beside.options()).await.close().await;
}

/// Removes all tables, as the loss of the database does, and lets `user` create tables alone.
fn empty_database(place: &PostgresPlace, user: &str) {
    let schema = &place.schema;
    administer(&format!(
        "DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}; \
         GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}"
    ));
}

/// Returns whether the directory notes a database.
fn is_marked(directory: &Path) -> bool {
    directory.join("database-mark").exists()
}

#[tokio::test]
async fn lost_database_of_other_cluster_is_restored() {
    let (original, target) =
        (SavedStore::fill().await, ScratchDirectory::on(TestDatabase::Postgres));
    let options = target.options();
    let store = target.open_with(2).await.unwrap();
    put(&store, data("present"), "1").await;
    store.close().await;
    drop(store);
    end_sessions(&place(&options));
    empty_database(&place(&options), "bulkhead");
    let lost = DataDirectory::hold(options.clone()).await.err().unwrap().to_string();
    assert!(lost.contains("database-mark"), "{lost}");
    let damaged = original.scratch.path().join("damaged.snap");
    std::fs::write(&damaged, "no snapshot").unwrap();
    refusal(restore_store(options.clone(), &damaged, false).await);
    assert!(is_marked(target.path()), "a refused restore changes nothing");
    original.restore(&options, false).await.unwrap();
    assert!(!is_marked(target.path()));
    open_restored(&options).await.close().await;
}

#[tokio::test]
async fn user_with_right_to_create_restores_twice() {
    let (original, target) =
        (SavedStore::fill().await, ScratchDirectory::on(TestDatabase::Postgres));
    let present = place(&target.options());
    let user = format!("user_{}", present.schema);
    administer(&format!("CREATE ROLE {user} LOGIN PASSWORD 'hull-8241'"));
    empty_database(&present, &user);
    let place = PostgresPlace { user, table: "bulkhead".to_owned(), ..present };
    let database = DatabaseChoice::Postgres(Box::new(place));
    let options = StoreOptions { database, ..target.options() };
    for overwrites in [false, true, true] {
        original.restore(&options, overwrites).await.unwrap();
        open_restored(&options).await.close().await;
    }
}
