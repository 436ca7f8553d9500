//! The connections to SQLite, and the isolation of everything that runs on them: chosen here and
//! nowhere else.
//!
//! One connection writes, in transactions that take the write lock at once, so that a commit's
//! check and its writes see one state. Readers see the newest committed state; a reader's
//! transaction sees one snapshot.

mod broken;
#[cfg(test)]
mod tests;

use std::mem;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::Mutex;

use crate::failpoint;
use crate::fault::StoreFault;
use crate::readers::{Readers, discard};
use crate::script::{Answers, Script};
pub(crate) use broken::{Broken, is_no_database};
use broken::{Cut, injected};

/// Statements with up to a few dozen rows each keep their own prepared form; those of a commit come
/// in few sizes.
const CACHED_STATEMENTS: usize = 256;
/// Pages in the log before SQLite moves them to the database file (16 MiB): seldom enough not to be
/// felt by most commits, often enough that opening after a crash is quick.
const PAGES_IN_LOG: &str = "4000";
/// Bytes to which SQLite truncates a longer log file after a checkpoint.
const LOG_BYTES_KEPT: &str = "67108864";
/// Removes up to 256 empty pages from the file. Other commits wait for a few milliseconds.
const GIVE_BACK: &str = "PRAGMA incremental_vacuum(256)";
/// What the writing connection keeps of the database, in the pragma's negative kibibytes (8 MiB):
/// the inner pages of the indexes of a million records, so that writing under a random key reads
/// hardly anything.
const WRITERS_CACHE: &str = "-8192";
/// How long a statement waits for another connection of ours, which never holds a lock that long.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// When what was committed is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flushing {
    /// Before the commit is acknowledged.
    #[default]
    EveryCommit,
    /// When the operating system likes. For benchmarks only, to tell the disk's part of the time: a
    /// power cut loses writes that were acknowledged, and can damage the database.
    Never,
}

/// One open database.
pub(crate) struct Database {
    writing: SqliteConnectOptions,
    reading: SqliteConnectOptions,
    readers: Readers,
    writer: Mutex<Writer>,
    /// Why nothing is written any more, once that is so.
    stopped: OnceLock<String>,
    flushes: AtomicU64,
}

/// The one connection that writes. The holder of the lock takes the connection out and puts it back
/// only when no transaction is open on it; so a commit that dies half-way leaves [`Writer::Lost`],
/// never a half transaction.
enum Writer {
    Ready(SqliteConnection),
    /// To be opened again by the next commit.
    Lost,
    /// An I/O error while writing: what the disk holds is not known, so nothing more is written.
    /// The reason.
    Stopped(String),
    Closed,
}

/// How a transaction that writes is to end.
pub(crate) enum Ending {
    /// With these statements, and the order to commit behind them.
    Commit(Script),
    /// Rolled back, because what had been read has changed.
    GiveUp,
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
    /// Opens the connections. The file must exist; a read-only look has shown that it is ours or
    /// empty.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when SQLite cannot open it.
    pub(crate) async fn open(path: &Path, flushing: Flushing) -> Result<Database, StoreFault> {
        let (writing, reading) = (writing(path, flushing), reading(path));
        let writer = writing.connect().await.map_err(StoreFault::from)?;
        let readers = Readers::new(reading.clone());
        let writer = Mutex::new(Writer::Ready(writer));
        Ok(Database {
            writing,
            reading,
            readers,
            writer,
            stopped: OnceLock::new(),
            flushes: AtomicU64::new(0),
        })
    }

    /// Why nothing is written any more: an I/O error, after which what the disk holds is not known.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Where single reads go; each sees the newest committed state.
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Asks in a transaction that sees one state and writes nothing.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn snapshot(&self, mut questions: Script) -> Result<Answers, sqlx::Error> {
        questions.add_first("BEGIN DEFERRED");
        questions.add("ROLLBACK");
        let ask = async |connection: &mut SqliteConnection| {
            questions.run(connection).await.map_err(sqlx::Error::from)
        };
        self.readers.read(ask).await.map(without_first)
    }

    /// Looks at what is committed now, over a connection opened only for it: one that nothing has
    /// happened to.
    ///
    /// # Errors
    /// As SQLite reports them.
    pub(crate) async fn inspect<T, W>(&self, work: W) -> Result<T, sqlx::Error>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    {
        let mut connection = self.reading.connect().await?;
        let outcome = work(&mut connection).await;
        discard(connection).await;
        outcome
    }

    /// Writes something that is no unit of work: `work` runs in one serializable transaction,
    /// alone.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when `work` gave up; [`StoreFault::Unavailable`] when SQLite
    /// failed, in which case nothing is acknowledged.
    pub(crate) async fn write<W>(&self, work: W) -> Result<(), StoreFault>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<Attempt, sqlx::Error>,
    {
        let work = async |connection: &mut SqliteConnection, _| {
            Ok(match work(connection).await? {
                Attempt::Committed => Ending::Commit(Script::default()),
                Attempt::Conflict => Ending::GiveUp,
            })
        };
        match self.in_turn(Script::default(), work).await? {
            Attempt::Committed => Ok(()),
            Attempt::Conflict => Err(StoreFault::Conflict),
        }
    }

    /// Writes what `plan` makes of the answers to `questions`, in one serializable transaction.
    ///
    /// # Errors
    /// [`Broken`]. After an I/O error nothing is written any more until the store is opened again.
    pub(crate) async fn transact(
        &self,
        questions: Script,
        plan: impl FnOnce(Answers) -> Result<Ending, sqlx::Error>,
    ) -> Result<Attempt, Broken> {
        self.in_turn(questions, async |_: &mut SqliteConnection, answers| plan(answers)).await
    }

    /// **All writes of the store go through here**, one after another: in a transaction of its own
    /// `first` is asked, and `work` is told the answers and says how it ends. After any error, and
    /// when it is dropped half-way, the connection is dropped with its transaction.
    async fn in_turn<W>(&self, first: Script, work: W) -> Result<Attempt, Broken>
    where
        W: AsyncFnOnce(&mut SqliteConnection, Answers) -> Result<Ending, sqlx::Error>,
    {
        let mut writer = self.writer.lock().await;
        let mut connection = self.take(&mut writer).await?;
        // A panic must not end the task that commits for all requests.
        let outcome = in_transaction(&mut connection, first, work);
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        let broken = match outcome {
            Ok(Ok(attempt)) => {
                *writer = Writer::Ready(connection);
                self.count_commit(attempt);
                return Ok(attempt);
            }
            Ok(Err(cut)) => {
                if let Some(reason) = cut.stops() {
                    self.stopped.get_or_init(|| reason.clone());
                    *writer = Writer::Stopped(reason);
                }
                cut.broken()
            }
            Err(_) => Broken::Unknown("a fault of Bulkhead itself".into()),
        };
        discard(connection).await;
        Err(broken)
    }

    /// Removes some empty pages from the file. Returns the number of empty pages left.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub(crate) async fn give_back_pages(&self) -> Result<u64, StoreFault> {
        let mut left = 0_i64;
        let work = async |connection: &mut SqliteConnection| {
            sqlx::raw_sql(GIVE_BACK).execute(&mut *connection).await?;
            let count = sqlx::query_scalar("PRAGMA freelist_count");
            left = count.fetch_one(connection).await?;
            Ok(Attempt::Committed)
        };
        self.write(work).await?;
        Ok(u64::try_from(left).unwrap_or_default())
    }

    /// Moves the log's pages to the file, as far as no reader prevents it. The file shrinks only by
    /// such a move.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when it cannot be written.
    pub(crate) async fn empty_log(&self) -> Result<(), StoreFault> {
        let mut connection = self.writing.connect().await?;
        let moved = sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await;
        discard(connection).await;
        Ok(moved.map(drop)?)
    }

    /// Counts a commit; for one whose answer was lost, when it is found to have happened.
    pub(crate) fn count_commit(&self, attempt: Attempt) {
        if attempt == Attempt::Committed {
            self.flushes.fetch_add(1, Ordering::Relaxed);
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

    async fn take(&self, writer: &mut Writer) -> Result<SqliteConnection, Broken> {
        match mem::replace(writer, Writer::Lost) {
            Writer::Ready(connection) => Ok(connection),
            Writer::Lost => {
                self.writing.connect().await.map_err(|error| Broken::Undone(error.into()))
            }
            Writer::Stopped(reason) => {
                let broken = Broken::stopped(&reason);
                *writer = Writer::Stopped(reason);
                Err(broken)
            }
            Writer::Closed => {
                *writer = Writer::Closed;
                Err(Broken::closed())
            }
        }
    }
}

async fn in_transaction<W>(
    connection: &mut SqliteConnection,
    mut first: Script,
    work: W,
) -> Result<Attempt, Cut>
where
    W: AsyncFnOnce(&mut SqliteConnection, Answers) -> Result<Ending, sqlx::Error>,
{
    failpoint::reach("commit.begin").map_err(injected).map_err(Cut::before)?;
    first.add_first("BEGIN IMMEDIATE");
    let answers = first.run(connection).await.map_err(|failed| Cut::before(failed.error))?;
    let ending = work(&mut *connection, without_first(answers)).await.map_err(Cut::before)?;
    match ending {
        Ending::Commit(writes) => {
            failpoint::reach("commit.planned").map_err(injected).map_err(Cut::before)?;
            commit(connection, writes).await?;
            failpoint::reach("commit.flushed").map_err(injected).map_err(Cut::committing)?;
            Ok(Attempt::Committed)
        }
        Ending::GiveUp => {
            sqlx::query("ROLLBACK").execute(connection).await.map_err(Cut::before)?;
            Ok(Attempt::Conflict)
        }
    }
}

/// Writes, and commits with it.
async fn commit(connection: &mut SqliteConnection, mut writes: Script) -> Result<(), Cut> {
    let before = writes.len();
    writes.add("COMMIT");
    match writes.run(connection).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.done < before => Err(Cut::before(failed.error)),
        Err(failed) => Err(Cut::committing(failed.error)),
    }
}

/// The answers to a script, without that of the statement that was added first.
fn without_first(mut answers: Answers) -> Answers {
    answers.drain(..answers.len().min(1));
    answers
}

/// How the file is opened to look at it, before anything is written.
pub(crate) fn reading(path: &Path) -> SqliteConnectOptions {
    common(path).read_only(true)
}

fn writing(path: &Path, flushing: Flushing) -> SqliteConnectOptions {
    let synchronous = match flushing {
        Flushing::EveryCommit => SqliteSynchronous::Full,
        Flushing::Never => SqliteSynchronous::Off,
    };
    common(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .pragma("cache_size", WRITERS_CACHE)
        .pragma("wal_autocheckpoint", PAGES_IN_LOG)
        .pragma("journal_size_limit", LOG_BYTES_KEPT)
        // SQLite applies this to a new file only.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
}

/// A hostile file must not run anything: its schema is not trusted, and its cells are checked
/// before use. What a statement may have to undo is kept in memory: a larger commit would write it
/// to a file elsewhere, and could not commit where that folder is full.
fn common(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(LOCK_WAIT)
        .statement_cache_capacity(CACHED_STATEMENTS)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON")
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

/// Lets SQLite undo what a kill interrupted while the new database was first switched to its log.
/// Until that is done the file cannot be read without being written to; nothing else is ever
/// written to a file that is only looked at.
///
/// # Errors
/// As SQLite reports them.
pub(crate) async fn finish_rollback(path: &Path) -> Result<(), sqlx::Error> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    if !Path::new(&journal).exists() {
        return Ok(());
    }
    let mut connection = common(path).connect().await?;
    sqlx::query("SELECT count(*) FROM sqlite_schema").execute(&mut connection).await?;
    connection.close().await
}
