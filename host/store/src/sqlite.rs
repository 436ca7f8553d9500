//! The connections to SQLite, and the isolation of everything that runs on them: chosen here and nowhere else.
//!
//! One connection writes, in transactions that take the write lock at once, so that a commit's check and its writes
//! see one state. Readers see the newest committed state; a reader's transaction sees one snapshot.

use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Transaction};
use tokio::sync::Mutex;

use crate::fault::StoreFault;

/// More would only wait for the same two or four processors; each costs a thread and a page cache.
const READERS: u32 = 4;
/// Statements with up to a few dozen rows each keep their own prepared form.
const CACHED_STATEMENTS: usize = 256;
/// Pages in the log before SQLite moves them to the database file (16 MiB): seldom enough not to be felt by most
/// commits, often enough that opening after a crash is quick.
const PAGES_IN_LOG: &str = "4000";
/// How long a statement waits for another connection of ours, which never holds a lock that long.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// SQLite's primary result codes that need their own words; see <https://www.sqlite.org/rescode.html>.
mod code {
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOT_A_DATABASE: i32 = 26;
}

/// One open database.
pub(crate) struct Database {
    options: SqliteConnectOptions,
    readers: SqlitePool,
    writer: Mutex<Writer>,
    flushes: AtomicU64,
}

/// The one connection that writes. Whoever holds the lock takes the connection out and puts it back only when no
/// transaction is open on it; so a commit that dies half-way leaves [`Writer::Lost`], never a half transaction.
enum Writer {
    Ready(SqliteConnection),
    /// To be opened again by the next commit.
    Lost,
    /// An I/O error while writing: what the disk holds is not known, so nothing more is written. The reason.
    Stopped(String),
    Closed,
}

/// How the attempt to write something ended, unless the database failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Committed and flushed.
    Committed,
    /// Given up and rolled back, because what had been read has changed.
    Conflict,
}

impl Database {
    /// Opens the connections. The file must exist; a read-only look has shown that it is ours or empty.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when SQLite cannot open it.
    pub(crate) async fn open(path: &Path) -> Result<Database, StoreFault> {
        let options = writing(path);
        let writer = options.connect().await.map_err(fault)?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(reading(path));
        Ok(Database { options, readers, writer: Mutex::new(Writer::Ready(writer)), flushes: AtomicU64::new(0) })
    }

    /// Where single reads go; each sees the newest committed state.
    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// A transaction that sees one snapshot and writes nothing.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.readers.begin_with("BEGIN DEFERRED").await
    }

    /// **All writes of the store go through here**: `work` runs in one serializable transaction, alone.
    ///
    /// Must run in a task of its own: dropped half-way, it costs the connection.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when `work` gave up; [`StoreFault::Unavailable`] when SQLite failed, in which case
    /// nothing is acknowledged. After an I/O error nothing is written any more until the store is opened again.
    pub(crate) async fn write<W>(&self, work: W) -> Result<(), StoreFault>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<Attempt, sqlx::Error>,
    {
        let mut writer = self.writer.lock().await;
        let mut connection = self.take(&mut writer).await?;
        match in_transaction(&mut connection, work).await {
            Ok(attempt) => {
                *writer = Writer::Ready(connection);
                self.conclude(attempt)
            }
            Err(error) => {
                if primary_code(&error) == Some(code::IO) {
                    *writer = Writer::Stopped(describe(&error));
                }
                discard(connection).await;
                Err(fault(error))
            }
        }
    }

    fn conclude(&self, attempt: Attempt) -> Result<(), StoreFault> {
        match attempt {
            Attempt::Conflict => Err(StoreFault::Conflict),
            Attempt::Committed => {
                self.flushes.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Commits that were flushed since the database was opened.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Waits for the write under way and closes everything; later calls fail.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        let mut writer = self.writer.lock().await;
        if let Writer::Ready(connection) = mem::replace(&mut *writer, Writer::Closed) {
            discard(connection).await;
        }
    }

    async fn take(&self, writer: &mut Writer) -> Result<SqliteConnection, StoreFault> {
        match mem::replace(writer, Writer::Lost) {
            Writer::Ready(connection) => Ok(connection),
            Writer::Lost => self.options.connect().await.map_err(fault),
            Writer::Stopped(reason) => {
                let text = format!(
                    "nothing is written since an I/O error ({reason}), because what the disk holds is not known; \
                     check the disk and restart"
                );
                *writer = Writer::Stopped(reason);
                Err(StoreFault::Unavailable(text))
            }
            Writer::Closed => {
                *writer = Writer::Closed;
                Err(StoreFault::Unavailable(CLOSED.into()))
            }
        }
    }
}

const CLOSED: &str = "the store is closed; restart the server";

async fn in_transaction<W>(connection: &mut SqliteConnection, work: W) -> Result<Attempt, sqlx::Error>
where
    W: AsyncFnOnce(&mut SqliteConnection) -> Result<Attempt, sqlx::Error>,
{
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let attempt = work(&mut transaction).await?;
    match attempt {
        Attempt::Committed => transaction.commit().await?,
        Attempt::Conflict => transaction.rollback().await?,
    }
    Ok(attempt)
}

/// Closes a connection that is of no more use. An error while doing so changes nothing: the file's lock and any open
/// transaction end with the connection's thread either way.
async fn discard(connection: SqliteConnection) {
    drop(connection.close().await);
}

/// How the file is opened to look at it, before anything is written.
pub(crate) fn reading(path: &Path) -> SqliteConnectOptions {
    common(path).read_only(true)
}

fn writing(path: &Path) -> SqliteConnectOptions {
    common(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", PAGES_IN_LOG)
}

/// A hostile file must not run anything: its schema is not trusted, and its cells are checked before use.
fn common(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(LOCK_WAIT)
        .statement_cache_capacity(CACHED_STATEMENTS)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        .disable_statement_logging()
}

/// The fault for an error of SQLite or of the pool. Bound values never are part of these errors.
pub(crate) fn fault(error: sqlx::Error) -> StoreFault {
    if matches!(error, sqlx::Error::PoolClosed) {
        return StoreFault::Unavailable(CLOSED.into());
    }
    let said = describe(&error);
    StoreFault::Unavailable(match primary_code(&error) {
        Some(code::FULL) => format!("the disk of the data directory is full ({said}); nothing was stored, free space"),
        Some(code::IO) => format!("the data directory cannot be read or written ({said}); check the disk and restart"),
        Some(code::CORRUPT | code::NOT_A_DATABASE) => {
            format!("the database file is damaged ({said}); stop the server and restore the data directory")
        }
        _ => format!("the database failed ({said}); nothing was acknowledged, try again"),
    })
}

/// Whether the file is not a database of SQLite at all.
pub(crate) fn is_no_database(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::NOT_A_DATABASE)
}

fn describe(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(said) => format!("SQLite: {said}"),
        None => error.to_string(),
    }
}

/// The low byte of SQLite's extended result code.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, body, data, put};

    async fn pragma(connection: &mut SqliteConnection, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(connection).await.unwrap()
    }

    #[tokio::test]
    async fn commits_are_flushed_and_a_hostile_schema_is_not_trusted() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let checks = async |connection: &mut SqliteConnection| {
            assert_eq!(pragma(connection, "PRAGMA synchronous").await, 2);
            assert_eq!(pragma(connection, "PRAGMA trusted_schema").await, 0);
            assert_eq!(pragma(connection, "PRAGMA cell_size_check").await, 1);
            assert_eq!(pragma(connection, "PRAGMA wal_autocheckpoint").await, 4_000);
            Ok(Attempt::Conflict)
        };
        assert_eq!(store.database().write(checks).await, Err(StoreFault::Conflict));
        let mode: String =
            sqlx::query_scalar("PRAGMA journal_mode").fetch_one(store.database().readers()).await.unwrap();
        assert_eq!(mode, "wal");
    }

    #[tokio::test]
    async fn readers_cannot_write() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let outcome = sqlx::query("DELETE FROM record").execute(store.database().readers()).await;
        assert!(outcome.unwrap_err().to_string().contains("readonly"));
    }

    #[tokio::test]
    async fn after_an_io_error_nothing_is_written_and_reads_go_on() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        *store.database().writer.lock().await = Writer::Stopped("SQLite: (code: 1034) disk I/O error".into());
        for _ in 0..2 {
            let mut unit = store.begin();
            unit.put(data("a"), b"2".to_vec(), crate::Index::default());
            let Err(StoreFault::Unavailable(text)) = unit.commit().await else { panic!("written") };
            assert!(text.contains("1034") && text.contains("restart"), "{text}");
        }
        assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    }
}
