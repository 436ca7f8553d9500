//! The connections to PostgreSQL and their isolation, which is chosen in this file only.
//!
//! A single connection of this process writes, so that the transactions of a process never lose a
//! race against each other. Transactions are serializable, because another process may write.

#[cfg(test)]
mod for_tests;
#[cfg(test)]
mod tests;

use std::mem;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as ThreadMutex, OnceLock};
use std::time::Instant;

use bulkhead_wire::duration_histogram::DurationHistogram;
use futures_util::FutureExt as _;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::sync::{Mutex, MutexGuard};

use crate::activity::ActivityCounter;
use bulkhead_place::options::FlushPolicy;
use bulkhead_place::postgres_place::PostgresPlace;
pub(super) use bulkhead_place::retry_pause::pause_before;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_place::write_condition::WriteWatch;
use bulkhead_place::write_failure::{TransactionOutcome, WriteFailure};
use bulkhead_record::failpoint;
use bulkhead_record::fault::StoreFault;

use super::held_claim::HeldClaim;
use super::loss_watch::LossWatch;
use super::measured_sizes::MeasuredSizes;
use super::node_rows;
use super::pooler_check;
use super::postgres_error::{PostgresError, WritePhase};
use super::readers::{SessionPool, discard};
use super::server_address::{TableNames, name_of};
use super::server_connector::ServerConnector;
use super::server_settings;
use super::server_watch::ServerWatch;
use super::statement_draft::{StatementDraft, run_script};

/// Commits without a time limit of the server (decision T61): the end of the limit would cancel
/// the wait for a synchronous standby, and acknowledge a commit that a failover loses.
pub(super) const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";
/// Maximum attempts of a transaction that other processes interfere with.
pub(super) const ATTEMPTS: u32 = 8;

/// An open PostgreSQL database.
pub(crate) struct PostgresDatabase {
    pub(super) connector: Arc<ServerConnector>,
    pub(super) flushing: FlushPolicy,
    pub(super) tables: TableNames,
    pub(super) readers: SessionPool,
    /// The connection of the reads of changes and of the writes of the progress: a node whose
    /// requests occupy all reading connections must not stop to follow the other nodes.
    pub(super) follower: SessionPool,
    /// The connection of the proofs that the database takes writes, which wait for a standby.
    pub(super) proofs: SessionPool,
    pub(super) server: ServerWatch,
    pub(super) losses: LossWatch,
    writer: Mutex<WriterSlot>,
    pub(super) condition: Arc<WriteWatch>,
    pub(super) flushes: ActivityCounter,
    pub(super) flush_time: DurationHistogram,
    pub(super) sizes: ThreadMutex<MeasuredSizes>,
    pub(super) doubts: Vec<String>,
    /// The place of the database, for messages.
    name: PathBuf,
    /// The claim of an opened store. Without a claim, only a new database is written.
    claim: OnceLock<HeldClaim>,
}

/// The only writing connection. The holder of the lock takes the connection out and returns the
/// connection only without an open transaction.
pub(super) enum WriterSlot {
    Ready(PgConnection),
    /// The next transaction opens a new connection.
    Lost,
    Closed,
}

impl WriterSlot {
    /// Returns a connection without an open transaction.
    pub(super) fn put_back(&mut self, connection: PgConnection) {
        *self = WriterSlot::Ready(connection);
    }
}

/// The reason why a transaction did not commit.
pub(super) enum BrokenTransaction {
    /// An error, and the part that failed.
    Failed(PostgresError, WritePhase),
    /// This process no longer holds the claim. Holds the reason.
    Fenced(String),
}

impl From<PostgresError> for BrokenTransaction {
    fn from(error: PostgresError) -> BrokenTransaction {
        BrokenTransaction::Failed(error, WritePhase::Running)
    }
}

impl PostgresDatabase {
    /// Opens the writing connection and a reading connection.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the server is too old, the database has another encoding than
    /// UTF-8, or a pooler does not keep sessions; [`StoreFault::Unavailable`] if no server opens a
    /// session.
    pub(crate) async fn open(
        place: &PostgresPlace,
        flushing: FlushPolicy,
    ) -> Result<PostgresDatabase, StoreFault> {
        let connector = Arc::new(ServerConnector::of_store(place));
        let (mut writer, mut reader) = (connector.connect().await?, connector.connect().await?);
        pooler_check::check_sessions(&mut writer, &mut reader).await?;
        server_settings::check_version(&mut writer).await?;
        server_settings::check_encoding(&mut writer).await?;
        let doubts = server_settings::find_doubts(&mut writer).await;
        let condition = Arc::new(WriteWatch::default());
        Ok(PostgresDatabase {
            readers: SessionPool::new(Arc::clone(&connector), reader, Arc::clone(&condition)),
            follower: SessionPool::of_short_statements(
                Arc::clone(&connector),
                Arc::clone(&condition),
            ),
            proofs: SessionPool::of_one(Arc::clone(&connector), Arc::clone(&condition)),
            server: ServerWatch::default(),
            losses: LossWatch::default(),
            connector,
            flushing,
            tables: TableNames::of(place),
            writer: Mutex::new(WriterSlot::Ready(writer)),
            condition,
            flushes: ActivityCounter::default(),
            flush_time: DurationHistogram::default(),
            sizes: ThreadMutex::default(),
            doubts,
            name: name_of(place),
            claim: OnceLock::new(),
        })
    }

    /// Returns the claim of this process, if the process took the claim.
    pub(super) fn claim(&self) -> Option<&HeldClaim> {
        self.claim.get()
    }

    /// Sets the claim that this process took. An opening takes one claim.
    pub(super) fn set_claim(&self, claim: HeldClaim) {
        drop(self.claim.set(claim));
    }

    /// Returns the place of the database, for messages.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Waits for the writing connection.
    pub(super) async fn writer(&self) -> MutexGuard<'_, WriterSlot> {
        self.writer.lock().await
    }

    /// Opens a connection besides the pool.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) async fn connect(&self) -> Result<PgConnection, PostgresError> {
        self.readers.connect().await
    }

    /// Runs the statements, which depend on no answer, in a serializable transaction. Repeats the
    /// transaction if other processes interfere.
    ///
    /// # Errors
    /// [`WriteFailure`].
    pub(super) async fn write(&self, statements: &[StatementDraft]) -> Result<(), WriteFailure> {
        let mut attempts = 1;
        loop {
            let plan = |_| Ok(Some(statements.to_vec()));
            match self.transact(None, plan).await {
                Err(WriteFailure::Interfered) if attempts < ATTEMPTS => {
                    pause_before(attempts).await;
                    attempts += 1;
                }
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Runs **every write of the store**, one after another. In a separate transaction, the
    /// questions run, then `plan` makes the writes from the answers; `None` rolls back. After any
    /// error, and if the future is dropped half-way, the connection and the transaction are
    /// dropped. With a claim, the outcome of a commit with a lost answer is decided before the next
    /// write begins.
    ///
    /// # Errors
    /// [`WriteFailure`]; [`WriteFailure::Unknown`] if the database does not decide, or there is no
    /// claim.
    pub(super) async fn transact(
        &self,
        questions: Option<StatementDraft>,
        plan: impl FnOnce(Vec<PgRow>) -> Result<Option<Vec<StatementDraft>>, PostgresError>,
    ) -> Result<TransactionOutcome, WriteFailure> {
        let mut writer = self.writer.lock().await;
        if let Some(reason) = self.stopped() {
            return Err(self.condition.answer_of_write(WriteFailure::lost_claim(reason)));
        }
        failpoint::reach("commit.begin")
            .map_err(|injected| self.failure(PostgresError::from(injected).into()))?;
        let beginning = |error| BrokenTransaction::Failed(error, WritePhase::Beginning);
        let begun = steady_milliseconds();
        let connection = self.begin(&mut writer).await.map_err(beginning);
        let mut connection = connection.map_err(|broken| self.failure(broken))?;
        let mut number = None;
        // A panic must not end the task that commits for all requests.
        let outcome = self.run(&mut connection, (questions, &mut number), plan);
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        let broken = match outcome {
            Ok(Ok(outcome)) => {
                writer.put_back(connection);
                self.note_end(outcome, (begun, number));
                return Ok(outcome);
            }
            Ok(Err(broken)) => self.failure(broken),
            Err(_) => WriteFailure::Unknown("a fault of Bulkhead itself".into()),
        };
        // Not closed in words: the server may be gone, and would delay the next write.
        drop(connection);
        match (broken, self.claim()) {
            (WriteFailure::Unknown(said), Some(claim)) => {
                let outcome = self.decide(claim, number, said).await?;
                self.note_end(outcome, (begun, number));
                Ok(outcome)
            }
            (broken, _) => Err(broken),
        }
    }

    /// Records the end of a transaction that renewed the claim with the commit `number`. The steady
    /// clock read `begun` before the transaction.
    fn note_end(&self, outcome: TransactionOutcome, (begun, number): (u64, Option<i64>)) {
        self.condition.note_end(outcome);
        if let (Some(claim), Some(number)) = (self.claim(), number) {
            claim.confirm(begun, number);
        }
        self.count_commit(outcome);
    }

    /// Runs a transaction. Sets `number` to the number of the commit once the claim has allowed the
    /// commit, before the commit statement is sent.
    async fn run(
        &self,
        connection: &mut PgConnection,
        (questions, number): (Option<StatementDraft>, &mut Option<i64>),
        plan: impl FnOnce(Vec<PgRow>) -> Result<Option<Vec<StatementDraft>>, PostgresError>,
    ) -> Result<TransactionOutcome, BrokenTransaction> {
        let mut changes = self.server.changes();
        let answers = match questions {
            Some(questions) => changes.unless_replaced(questions.fetch(connection)).await?,
            None => Vec::new(),
        };
        let Some(writes) = plan(answers)? else {
            run_script(connection, "ROLLBACK").await?;
            return Ok(TransactionOutcome::Conflict);
        };
        failpoint::reach("commit.planned").map_err(PostgresError::from)?;
        let begun = Instant::now();
        for statement in writes {
            let counts = statement.counts_commit();
            let rows = changes.unless_replaced(statement.fetch(connection)).await?;
            if counts {
                *number = Some(self.confirmed_number(connection, &rows, 1).await?);
            }
        }
        let committing = |error| BrokenTransaction::Failed(error, WritePhase::Committing);
        self.claim().into_iter().for_each(HeldClaim::begin_doubt);
        let commit = changes.unless_replaced(run_script(connection, COMMIT)).await;
        commit.map_err(committing)?;
        self.flush_time.observe(begun.elapsed());
        failpoint::reach("commit.flushed").map_err(PostgresError::from).map_err(committing)?;
        Ok(TransactionOutcome::Committed)
    }

    /// Returns the number of the commit from the answer of the statement that checks the claim and
    /// counts `own` commits.
    ///
    /// # Errors
    /// [`BrokenTransaction::Fenced`] if this process no longer holds the claim, or commits are
    /// lost: the statement changed no row, and the caller rolls back. Also if the database has
    /// commits of another process.
    pub(super) async fn confirmed_number(
        &self,
        connection: &mut PgConnection,
        rows: &[PgRow],
        own: i64,
    ) -> Result<i64, BrokenTransaction> {
        match (rows.first(), self.claim()) {
            (Some(row), claim) => {
                let number = node_rows::number_of(row)?;
                let checked = claim.map_or(Ok(()), |claim| claim.check_number(number, own));
                checked.map(|()| number).map_err(BrokenTransaction::Fenced)
            }
            (None, Some(claim)) => {
                let found = node_rows::find(connection, &self.tables).await?.unwrap_or_default();
                claim.note_loss(&found);
                Err(BrokenTransaction::Fenced(claim.loss(&found)))
            }
            (None, None) => Err(BrokenTransaction::Fenced(String::new())),
        }
    }

    /// Counts a commit.
    pub(super) fn count_commit(&self, outcome: TransactionOutcome) {
        if outcome == TransactionOutcome::Committed {
            self.flushes.increment();
        }
    }

    /// Waits for the current write and closes all connections; later calls fail.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.follower.close().await;
        self.proofs.close().await;
        let mut writer = self.writer.lock().await;
        self.release_claim(&mut writer).await;
        if let WriterSlot::Ready(connection) = mem::replace(&mut *writer, WriterSlot::Closed) {
            discard(connection).await;
        }
    }
}
