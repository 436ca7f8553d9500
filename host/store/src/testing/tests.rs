//! Helpers for several tests of this crate: a directory per test, and a store in the directory or
//! on a PostgreSQL server.
//!
//! With `BULKHEAD_TEST_STORAGE=postgresql`, the stores of all tests are on PostgreSQL, except for
//! tests that look at the files of SQLite.

mod postgres_server;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::oneshot;

use crate::database::Database;
use crate::{
    Address, DataDirectory, DatabaseChoice, IndexColumns, PostgresPlace, SealKey, Space, Store,
    StoreFault, StoreOptions,
};
use bulkhead_place::write_failure::TransactionOutcome;

/// Runs each test, a function of the tested database, on both databases.
macro_rules! on_both_databases {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::testing::TestDatabase::Sqlite).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::testing::TestDatabase::Postgres).await;
            })+
        }
    };
}
pub(crate) use bulkhead_test_database::{TestDatabase, folder as postgres_folder};
pub(crate) use on_both_databases;
pub(crate) use postgres_server::{TestPooler, administer, dump as postgres_dump, end_sessions};

/// A directory below the system's temporary directory, removed when dropped, with the database of
/// the stores in the directory.
pub(crate) struct ScratchDirectory {
    path: PathBuf,
    database: DatabaseChoice,
}

impl ScratchDirectory {
    /// Creates a directory for stores on the database of the environment.
    pub(crate) fn new() -> ScratchDirectory {
        ScratchDirectory::on(TestDatabase::chosen())
    }

    /// Creates a directory for stores on `database`. On PostgreSQL, each directory has a schema.
    pub(crate) fn on(database: TestDatabase) -> ScratchDirectory {
        let name = u64::from_be_bytes(bulkhead_record::cipher::random().unwrap());
        let path = env::temp_dir().join(format!("bulkhead-store-{name:016x}"));
        fs::create_dir(&path).unwrap();
        let database = match database {
            TestDatabase::Sqlite => DatabaseChoice::SqliteFile,
            TestDatabase::Postgres => {
                DatabaseChoice::Postgres(Box::new(postgres_server::new_schema()))
            }
        };
        ScratchDirectory { path, database }
    }

    /// Creates a directory for a test that looks at the files or the connections of SQLite.
    pub(crate) fn of_files() -> ScratchDirectory {
        ScratchDirectory::on(TestDatabase::Sqlite)
    }

    /// Creates another directory for stores on the database of this directory, as on another
    /// machine.
    pub(crate) fn beside(&self) -> ScratchDirectory {
        let other = ScratchDirectory::of_files();
        ScratchDirectory { path: other.into_path(), database: self.database.clone() }
    }

    /// Lets later stores of this directory reach their database by the place that `change` returns.
    pub(crate) fn change_place(&mut self, change: impl FnOnce(&PostgresPlace) -> PostgresPlace) {
        let DatabaseChoice::Postgres(place) = &mut self.database else { panic!("no server") };
        **place = change(place);
    }

    /// Returns the path of a directory that is not removed when dropped.
    fn into_path(self) -> PathBuf {
        ManuallyDrop::new(self).path.clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Holds this directory with its data sealed.
    pub(crate) async fn hold(&self) -> Arc<DataDirectory> {
        DataDirectory::hold(self.options()).await.unwrap()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions { database: self.database.clone(), ..StoreOptions::at(&self.path) }
    }

    /// Opens the store of this directory with a key of 32 times `byte`.
    pub(crate) async fn open_with(&self, byte: u8) -> Result<Arc<Store>, StoreFault> {
        Store::open(self.options(), SealKey::from_bytes([byte; 32])).await
    }

    pub(crate) async fn open(&self) -> Arc<Store> {
        self.open_with(1).await.unwrap()
    }

    /// Returns the names and bytes of all files.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let paths = fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.map(|path| (name(&path), fs::read(path).unwrap())).collect()
    }

    /// Copies the directory as a crash at this moment would leave it: shared memory is lost. If
    /// other tasks write, the caller must prevent a checkpoint of the log meanwhile.
    pub(crate) fn crashed(&self) -> ScratchDirectory {
        let copy = ScratchDirectory::of_files();
        for name in ["bulkhead.db", "bulkhead.db-wal"] {
            fs::copy(self.path.join(name), copy.path.join(name)).unwrap();
        }
        copy
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).unwrap();
    }
}

pub(crate) fn data(key: &str) -> Address {
    Address::new(Space::Data, key)
}

/// Commits a record without index columns.
pub(crate) async fn put(store: &Arc<Store>, address: Address, body: &str) {
    put_indexed(store, address, body, IndexColumns::default()).await;
}

pub(crate) async fn put_indexed(
    store: &Arc<Store>,
    address: Address,
    body: &str,
    index: IndexColumns,
) {
    let mut unit = store.begin();
    unit.put(address, body.as_bytes().to_vec(), index);
    unit.commit().await.unwrap();
}

/// Returns the committed body at `address` as text.
pub(crate) async fn body(store: &Arc<Store>, address: &Address) -> Option<String> {
    let record = store.begin().get(address).await.unwrap()?;
    Some(String::from_utf8(record.body.to_vec()).unwrap())
}

/// Edits the database behind the store's back, like an intruder with the file.
pub(crate) async fn edit(store: &Arc<Store>, statement: &'static str) {
    edit_database(store.database(), statement).await;
}

/// Edits an open database like [`edit`].
pub(crate) async fn edit_database(database: &Database, statement: &'static str) {
    if let Database::Postgres(database) = database {
        return database.edit(&postgres_server::translated(statement)).await;
    }
    let work = async |connection: &mut SqliteConnection| {
        sqlx::raw_sql(statement).execute(connection).await?;
        Ok(TransactionOutcome::Committed)
    };
    database.sqlite().write(work).await.unwrap();
}

/// Holds the writing connection until `ended`, so that commits wait. Sends `begun` first.
pub(crate) async fn hold_writer(
    store: Arc<Store>,
    begun: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
) {
    match store.database() {
        Database::Sqlite(database) => {
            let work = async |_: &mut SqliteConnection| {
                begun.send(()).unwrap();
                ended.await.unwrap();
                Ok(TransactionOutcome::Conflict)
            };
            database.write(work).await.unwrap_err();
        }
        Database::Postgres(database) => database.hold_writer(begun, ended).await,
    }
}

/// Closes the reading connections.
pub(crate) async fn close_readers(store: &Arc<Store>) {
    match store.database() {
        Database::Sqlite(database) => database.readers().close().await,
        Database::Postgres(database) => database.readers().close().await,
    }
}

/// Returns the first column of a query: numbers.
pub(crate) async fn numbers(store: &Store, query: &str) -> Vec<i64> {
    match store.database() {
        Database::Sqlite(database) => {
            let query = sqlx::AssertSqlSafe(query.to_owned());
            let read = async |connection: &mut SqliteConnection| {
                sqlx::query_scalar(query).fetch_all(connection).await
            };
            database.readers().read(read).await.unwrap()
        }
        Database::Postgres(database) => {
            let rows = database.query(query).await;
            rows.iter().map(|row| row.get::<i64, _>(0)).collect()
        }
    }
}

/// Returns the first column of a query: bytes.
pub(crate) async fn bytes(store: &Store, query: &str) -> Vec<Vec<u8>> {
    match store.database() {
        Database::Sqlite(database) => {
            let query = sqlx::AssertSqlSafe(query.to_owned());
            let read = async |connection: &mut SqliteConnection| {
                sqlx::query_scalar(query).fetch_all(connection).await
            };
            database.readers().read(read).await.unwrap()
        }
        Database::Postgres(database) => {
            let rows = database.query(query).await;
            rows.iter().map(|row| row.get::<Vec<u8>, _>(0)).collect()
        }
    }
}

/// Returns SQLite's plan for the statement, a step per line.
pub(crate) async fn plan(store: &Arc<Store>, statement: &str) -> String {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let read =
        async |connection: &mut SqliteConnection| sqlx::query(explain).fetch_all(connection).await;
    let steps = store.database().sqlite().readers().read(read).await.unwrap();
    steps.iter().map(|step| step.get::<String, _>("detail") + "\n").collect()
}
