//! Helpers for several tests of this crate: a directory per test, and a store in the directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use crate::write_failure::TransactionOutcome;
use crate::{
    Address, DataDirectory, IndexColumns, SealKey, Space, Store, StoreFault, StoreOptions, cipher,
};

/// A directory below the system's temporary directory, removed when dropped.
pub(crate) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    pub(crate) fn new() -> ScratchDirectory {
        let name = u64::from_be_bytes(cipher::random().unwrap());
        let path = env::temp_dir().join(format!("bulkhead-store-{name:016x}"));
        fs::create_dir(&path).unwrap();
        ScratchDirectory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Holds this directory with its data sealed.
    pub(crate) async fn hold(&self) -> Arc<DataDirectory> {
        DataDirectory::hold(self.options()).await.unwrap()
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions::at(&self.0)
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
        let paths = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.map(|path| (name(&path), fs::read(path).unwrap())).collect()
    }

    /// Copies the directory as a crash at this moment would leave it: shared memory is lost. If
    /// other tasks write, the caller must prevent a checkpoint of the log meanwhile.
    pub(crate) fn crashed(&self) -> ScratchDirectory {
        let copy = ScratchDirectory::new();
        for name in ["bulkhead.db", "bulkhead.db-wal"] {
            fs::copy(self.0.join(name), copy.0.join(name)).unwrap();
        }
        copy
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
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
    let work = async |connection: &mut SqliteConnection| {
        sqlx::raw_sql(statement).execute(connection).await?;
        Ok(TransactionOutcome::Committed)
    };
    store.database().sqlite().write(work).await.unwrap();
}

/// Returns SQLite's plan for the statement, a step per line.
pub(crate) async fn plan(store: &Arc<Store>, statement: &str) -> String {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let read =
        async |connection: &mut SqliteConnection| sqlx::query(explain).fetch_all(connection).await;
    let steps = store.database().sqlite().readers().read(read).await.unwrap();
    steps.iter().map(|step| step.get::<String, _>("detail") + "\n").collect()
}
