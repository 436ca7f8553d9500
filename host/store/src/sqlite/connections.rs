//! The connections to SQLite and their isolation, which is chosen in this file only.
//!
//! A single connection writes. A writing transaction takes the write lock at once, so that the
//! checks and writes of a commit see the same state. Readers see the newest committed state; a
//! reader's transaction sees a single snapshot.

#[cfg(test)]
mod tests;

use std::mem;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use bulkhead_wire::duration_histogram::DurationHistogram;
use futures_util::FutureExt as _;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{Mutex, watch};

use crate::activity::ActivityCounter;
use bulkhead_place::options::FlushPolicy;
use bulkhead_place::write_condition::{WriteCondition, WriteWatch};
use bulkhead_place::write_failure::{TransactionOutcome, WriteFailure};
use bulkhead_record::failpoint;
use bulkhead_record::fault::StoreFault;

use super::connection_options::{reading, writing};
use super::readers::{ReaderPool, discard};
use super::script::{BatchRows, StatementBatch};
use super::transaction_error::{TransactionError, fault_of, injected};

/// Statement that removes up to 256 empty pages from the file. Other commits wait for a few
/// milliseconds.
const VACUUM_STATEMENT: &str = "PRAGMA incremental_vacuum(256)";

/// An open SQLite database.
pub(crate) struct SqliteDatabase {
    writing: SqliteConnectOptions,
    reading: SqliteConnectOptions,
    pub(super) readers: ReaderPool,
    writer: Mutex<WriterState>,
    /// The reason why nothing more is written, after an I/O error.
    stopped: OnceLock<String>,
    condition: WriteWatch,
    pub(super) flushes: ActivityCounter,
    pub(super) flush_time: DurationHistogram,
    pub(super) path: PathBuf,
}

/// The only writing connection. The holder of the lock takes the connection out and returns the
/// connection only without an open transaction. A commit that dies half-way therefore leaves
/// [`WriterState::Lost`], never half a transaction.
enum WriterState {
    Ready(SqliteConnection),
    /// The next commit opens a new connection.
    Lost,
    /// An I/O error occurred while writing: the content of the disk is unknown, so nothing more is
    /// written. Holds the reason.
    Stopped(String),
    Closed,
}

/// The end of a writing transaction.
pub(super) enum TransactionEnd {
    /// Runs these statements and commits.
    Commit(StatementBatch),
    /// Rolls back, because a read no longer holds.
    GiveUp,
}

impl SqliteDatabase {
    /// Opens the connections. The file must exist; a read-only look has shown that the file is ours
    /// or empty.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if SQLite cannot open the file.
    pub(crate) async fn open(
        path: &Path,
        flushing: FlushPolicy,
    ) -> Result<SqliteDatabase, StoreFault> {
        let (writing, reading) = (writing(path, flushing), reading(path));
        let writer = writing.connect().await.map_err(fault_of)?;
        let readers = ReaderPool::new(reading.clone());
        let writer = Mutex::new(WriterState::Ready(writer));
        Ok(SqliteDatabase {
            writing,
            reading,
            readers,
            writer,
            stopped: OnceLock::new(),
            condition: WriteWatch::default(),
            flushes: ActivityCounter::default(),
            flush_time: DurationHistogram::default(),
            path: path.to_owned(),
        })
    }

    /// Returns the I/O error after which nothing more is written: the content of the disk is
    /// unknown.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Returns the ability to write, as the last write showed.
    pub(crate) fn write_condition(&self) -> WriteCondition {
        self.condition.condition()
    }

    /// Returns a receiver of the changes of [`SqliteDatabase::write_condition`].
    pub(crate) fn write_changes(&self) -> watch::Receiver<WriteCondition> {
        self.condition.subscribe()
    }

    /// Returns the connections for single reads. Each read sees the newest committed state.
    #[cfg(test)]
    pub(crate) fn readers(&self) -> &ReaderPool {
        &self.readers
    }

    /// Runs queries in a read-only transaction that sees a single state.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) async fn snapshot(
        &self,
        mut questions: StatementBatch,
    ) -> Result<BatchRows, sqlx::Error> {
        questions.add_first("BEGIN DEFERRED");
        questions.add("ROLLBACK");
        let ask = async |connection: &mut SqliteConnection| {
            questions.run(connection).await.map_err(sqlx::Error::from)
        };
        self.readers.read(ask).await.map(skip_first_answer)
    }

    /// Opens a connection for a long read, which would otherwise occupy a place of the readers.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) async fn connect_reader(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.reading.connect().await
    }

    /// Reads the committed state over a new connection, so that an earlier error on a shared
    /// connection cannot matter.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) async fn inspect<T, W>(&self, work: W) -> Result<T, sqlx::Error>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    {
        let mut connection = self.reading.connect().await?;
        let outcome = work(&mut connection).await;
        discard(connection).await;
        outcome
    }

    /// Runs `work`, which is not a unit of work, alone in a serializable transaction.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if `work` gave up; [`StoreFault::Unavailable`] if SQLite failed, in
    /// which case nothing is acknowledged.
    pub(crate) async fn write<W>(&self, work: W) -> Result<(), StoreFault>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<TransactionOutcome, sqlx::Error>,
    {
        let work = async |connection: &mut SqliteConnection, _| {
            Ok(match work(connection).await? {
                TransactionOutcome::Committed => TransactionEnd::Commit(StatementBatch::default()),
                TransactionOutcome::Conflict => TransactionEnd::GiveUp,
            })
        };
        match self.run_write(StatementBatch::default(), work).await? {
            TransactionOutcome::Committed => Ok(()),
            TransactionOutcome::Conflict => Err(StoreFault::Conflict),
        }
    }

    /// Runs `questions`, and the statements made by `plan` from the answers, in a single
    /// serializable transaction.
    ///
    /// # Errors
    /// [`WriteFailure`]. After an I/O error nothing more is written until the store is opened
    /// again.
    pub(super) async fn transact(
        &self,
        questions: StatementBatch,
        plan: impl FnOnce(BatchRows) -> Result<TransactionEnd, sqlx::Error>,
    ) -> Result<TransactionOutcome, WriteFailure> {
        self.run_write(questions, async |_: &mut SqliteConnection, answers| plan(answers)).await
    }

    /// Runs **every write of the store**, one after another. In a separate transaction, `first`
    /// runs, then `work` receives the answers and decides how the transaction ends. After any
    /// error, and if the future is dropped half-way, the connection and the transaction are
    /// dropped.
    async fn run_write<W>(
        &self,
        first: StatementBatch,
        work: W,
    ) -> Result<TransactionOutcome, WriteFailure>
    where
        W: AsyncFnOnce(&mut SqliteConnection, BatchRows) -> Result<TransactionEnd, sqlx::Error>,
    {
        let mut writer = self.writer.lock().await;
        let mut connection = self.take(&mut writer).await?;
        // A panic must not end the task that commits for all requests.
        let outcome = in_transaction((&mut connection, &self.flush_time), first, work);
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        let broken = match outcome {
            Ok(Ok(attempt)) => {
                *writer = WriterState::Ready(connection);
                self.condition.note_end(attempt);
                self.count_commit(attempt);
                return Ok(attempt);
            }
            Ok(Err(cut)) => {
                if let Some(reason) = cut.stops() {
                    self.stopped.get_or_init(|| reason.clone());
                    *writer = WriterState::Stopped(reason);
                }
                let failure = cut.broken(&self.path);
                self.condition.note_failure(&failure);
                failure
            }
            Err(_) => WriteFailure::Unknown("a fault of Bulkhead itself".into()),
        };
        discard(connection).await;
        Err(broken)
    }

    /// As [`Database::give_back_space`](crate::database::Database::give_back_space).
    pub(crate) async fn give_back_space(&self) -> Result<(), StoreFault> {
        let mut left = u64::MAX;
        loop {
            let now = self.give_back_pages().await?;
            // A file created by an earlier release keeps empty pages for reuse.
            if now == 0 || now >= left {
                break;
            }
            left = now;
        }
        self.checkpoint_log().await
    }

    /// Removes some empty pages from the file. Returns the number of empty pages left.
    ///
    /// # Errors
    /// As [`SqliteDatabase::write`].
    async fn give_back_pages(&self) -> Result<u64, StoreFault> {
        let mut left = 0_i64;
        let work = async |connection: &mut SqliteConnection| {
            sqlx::raw_sql(VACUUM_STATEMENT).execute(&mut *connection).await?;
            let count = sqlx::query_scalar("PRAGMA freelist_count");
            left = count.fetch_one(connection).await?;
            Ok(TransactionOutcome::Committed)
        };
        self.write(work).await?;
        Ok(u64::try_from(left).unwrap_or_default())
    }

    /// Moves the log's pages to the file, as far as no reader prevents the move. The file shrinks
    /// only through such a move.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the file cannot be written.
    async fn checkpoint_log(&self) -> Result<(), StoreFault> {
        let mut connection = self.writing.connect().await.map_err(fault_of)?;
        let moved = sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await;
        discard(connection).await;
        moved.map(drop).map_err(fault_of)
    }

    /// Counts a commit. Called separately for a commit whose answer was lost, once the commit is
    /// known to be stored.
    pub(crate) fn count_commit(&self, attempt: TransactionOutcome) {
        if attempt == TransactionOutcome::Committed {
            self.flushes.increment();
        }
    }

    /// Waits for the current write and closes all connections; later calls fail.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        let mut writer = self.writer.lock().await;
        if let WriterState::Ready(connection) = mem::replace(&mut *writer, WriterState::Closed) {
            discard(connection).await;
        }
    }

    async fn take(&self, writer: &mut WriterState) -> Result<SqliteConnection, WriteFailure> {
        match mem::replace(writer, WriterState::Lost) {
            WriterState::Ready(connection) => Ok(connection),
            WriterState::Lost => {
                self.writing.connect().await.map_err(|error| WriteFailure::Undone(fault_of(error)))
            }
            WriterState::Stopped(reason) => {
                let broken = WriteFailure::stopped(&self.path, &reason);
                *writer = WriterState::Stopped(reason);
                Err(broken)
            }
            WriterState::Closed => {
                *writer = WriterState::Closed;
                Err(WriteFailure::closed())
            }
        }
    }
}

async fn in_transaction<W>(
    (connection, flush_time): (&mut SqliteConnection, &DurationHistogram),
    mut first: StatementBatch,
    work: W,
) -> Result<TransactionOutcome, TransactionError>
where
    W: AsyncFnOnce(&mut SqliteConnection, BatchRows) -> Result<TransactionEnd, sqlx::Error>,
{
    failpoint::reach("commit.begin").map_err(injected).map_err(TransactionError::before)?;
    first.add_first("BEGIN IMMEDIATE");
    let answers =
        first.run(connection).await.map_err(|failed| TransactionError::before(failed.error))?;
    let ending = work(&mut *connection, skip_first_answer(answers))
        .await
        .map_err(TransactionError::before)?;
    match ending {
        TransactionEnd::Commit(writes) => {
            failpoint::reach("commit.planned")
                .map_err(injected)
                .map_err(TransactionError::before)?;
            let begun = Instant::now();
            commit(connection, writes).await?;
            flush_time.observe(begun.elapsed());
            failpoint::reach("commit.flushed")
                .map_err(injected)
                .map_err(TransactionError::committing)?;
            Ok(TransactionOutcome::Committed)
        }
        TransactionEnd::GiveUp => {
            sqlx::query("ROLLBACK").execute(connection).await.map_err(TransactionError::before)?;
            Ok(TransactionOutcome::Conflict)
        }
    }
}

/// Runs `writes` and commits.
async fn commit(
    connection: &mut SqliteConnection,
    mut writes: StatementBatch,
) -> Result<(), TransactionError> {
    let before = writes.len();
    writes.add("COMMIT");
    match writes.run(connection).await {
        Ok(_) => Ok(()),
        Err(failed) if failed.done < before => Err(TransactionError::before(failed.error)),
        Err(failed) => Err(TransactionError::committing(failed.error)),
    }
}

/// Removes the answer of the statement that was added first.
fn skip_first_answer(mut answers: BatchRows) -> BatchRows {
    answers.drain(..answers.len().min(1));
    answers
}
