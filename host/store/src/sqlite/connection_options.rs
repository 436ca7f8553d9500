//! Options of the connections to the database file, and the roll-back that a read-only look needs.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use bulkhead_place::options::FlushPolicy;

/// Maximum number of prepared statements per connection. Statements for up to a few dozen rows each
/// have a prepared form; the statements of a commit come in few sizes.
const CACHED_STATEMENTS: usize = 256;
/// Number of pages in the log at which SQLite moves the log to the database file (16 MiB): rare
/// enough that most commits are not delayed, frequent enough that opening after a crash is quick.
const PAGES_IN_LOG: &str = "4000";
/// Bytes to which SQLite truncates a longer log file after a checkpoint.
const LOG_BYTES_KEPT: &str = "67108864";
/// Page cache of the writing connection, in the pragma's negative kibibytes (8 MiB): holds the
/// inner index pages of a million records, so that a write under a random key reads hardly
/// anything.
const WRITERS_CACHE: &str = "-8192";
/// Page cache of a connection that fills a new database, in the pragma's negative kibibytes (32
/// MiB).
const FILLING_CACHE: &str = "-32768";
/// Maximum time that a statement waits for a lock of another connection. No connection of this
/// process holds a lock that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the options for opening the file read-only, before anything is written.
pub(super) fn reading(path: &Path) -> SqliteConnectOptions {
    common_options(path).read_only(true)
}

/// Returns the options of the only connection that writes.
pub(super) fn writing(path: &Path, flushing: FlushPolicy) -> SqliteConnectOptions {
    let synchronous = match flushing {
        FlushPolicy::EveryCommit => SqliteSynchronous::Full,
        FlushPolicy::Never => SqliteSynchronous::Off,
    };
    common_options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .pragma("cache_size", WRITERS_CACHE)
        .pragma("wal_autocheckpoint", PAGES_IN_LOG)
        .pragma("journal_size_limit", LOG_BYTES_KEPT)
        // SQLite applies this to a new file only.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
}

/// Returns the options of a connection that fills a new database, before anything else opens the
/// file. Nothing is flushed and nothing can be rolled back: after an error or a crash, the file is
/// of no use.
pub(super) fn filling(path: &Path) -> SqliteConnectOptions {
    common_options(path)
        .journal_mode(SqliteJournalMode::Off)
        .synchronous(SqliteSynchronous::Off)
        .pragma("cache_size", FILLING_CACHE)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
}

/// Returns the options of every connection. A hostile file must not run code: the schema is not
/// trusted, and cells are checked before use. The statement journal stays in memory: SQLite would
/// write a large journal to a file in another folder, and the commit would fail if the folder is
/// full.
fn common_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(LOCK_TIMEOUT)
        .statement_cache_capacity(CACHED_STATEMENTS)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

/// Lets SQLite roll back a change that was interrupted while a new database was first switched to
/// the write-ahead log. Until then the file cannot be read without being written; no other
/// read-only look writes to a file.
///
/// # Errors
/// The error of SQLite.
pub(super) async fn finish_rollback(path: &Path) -> Result<(), sqlx::Error> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    if !Path::new(&journal).exists() {
        return Ok(());
    }
    let mut connection = common_options(path).connect().await?;
    sqlx::query("SELECT count(*) FROM sqlite_schema").execute(&mut connection).await?;
    connection.close().await
}
