//! The pool of reading connections, each used by a single read at a time.
//!
//! This file prevents a restart of the database from failing the reads after it: a read on an idle
//! connection that turns out to be dead is repeated once, on a new connection. A connection is not
//! used again after an error, or if the reader went away half-way. No connection is asked whether
//! it is alive before a read, which would be a round trip for each read.

#[cfg(test)]
mod tests;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bulkhead_wire::sync;
use futures_util::TryStreamExt as _;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::activity::{ActivityCounter, ConnectionUsage};
use bulkhead_place::write_condition::WriteWatch;
use bulkhead_place::write_failure::UNUSABLE;
use bulkhead_record::fault::StoreFault;

use super::postgres_error::PostgresError;
use super::server_connector::ServerConnector;
use super::statement_draft::{STATEMENT_TIME, StatementDraft, in_time, within};

/// Maximum time of the message that closes a connection.
const FAREWELL_TIME: Duration = Duration::from_secs(2);
/// Maximum time of the first answer on a connection that was idle. A connection that no longer
/// carries anything is replaced after this time.
const IDLE_ANSWER_TIME: Duration = Duration::from_secs(10);
/// The same for short statements of upkeep. The time grows to [`IDLE_ANSWER_TIME`] while answers
/// are slow, so that a busy server is not asked to open connections for nothing.
const SHORT_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Multiple of the last answer's time for which the next answer is awaited at least.
const PATIENCE: u32 = 4;

/// Idle connections, and permits for the connections in use.
pub(crate) struct SessionPool {
    connector: Arc<ServerConnector>,
    idle: Mutex<IdleSessions>,
    /// The writer lost its server, which may no longer be the primary server.
    is_server_doubtful: AtomicBool,
    /// Number of permits.
    size: u32,
    places: Semaphore,
    reads: ActivityCounter,
    condition: Arc<WriteWatch>,
    /// Minimum of the time in which an idle connection must answer.
    patience: Duration,
    /// Time of the last answer, in milliseconds.
    last_answer: AtomicU64,
    /// Number of connections that the pool opened.
    openings: AtomicU64,
    /// Number of idle connections that did not answer in time.
    silent: AtomicU64,
    /// Changes when statements on older connections are to be given up.
    cuts: watch::Sender<()>,
}

/// Idle connections of the present generation. A connection of an earlier generation may lead to a
/// server that is no longer the primary server.
#[derive(Default)]
struct IdleSessions {
    generation: u64,
    sessions: Vec<PgConnection>,
}

impl SessionPool {
    /// Creates the pool of the requests with an open connection.
    pub(super) fn new(
        connector: Arc<ServerConnector>,
        first: PgConnection,
        condition: Arc<WriteWatch>,
    ) -> SessionPool {
        let size = connector.place().max_parallel.max(1);
        SessionPool::with(connector, (vec![first], size), condition)
    }

    /// Creates a pool of a single connection for statements that may wait for other sessions. The
    /// first statement opens the connection.
    pub(super) fn of_one(
        connector: Arc<ServerConnector>,
        condition: Arc<WriteWatch>,
    ) -> SessionPool {
        SessionPool::with(connector, (Vec::new(), 1), condition)
    }

    /// Creates a pool of a single connection for short statements.
    pub(super) fn of_short_statements(
        connector: Arc<ServerConnector>,
        condition: Arc<WriteWatch>,
    ) -> SessionPool {
        let pool = SessionPool::of_one(connector, condition);
        SessionPool { patience: SHORT_ANSWER_TIME, ..pool }
    }

    fn with(
        connector: Arc<ServerConnector>,
        (sessions, size): (Vec<PgConnection>, u32),
        condition: Arc<WriteWatch>,
    ) -> SessionPool {
        SessionPool {
            connector,
            idle: Mutex::new(IdleSessions { generation: 0, sessions }),
            is_server_doubtful: AtomicBool::new(false),
            size,
            places: Semaphore::new(usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS)),
            reads: ActivityCounter::default(),
            condition,
            patience: IDLE_ANSWER_TIME,
            last_answer: AtomicU64::default(),
            openings: AtomicU64::default(),
            silent: AtomicU64::default(),
            cuts: watch::Sender::default(),
        }
    }

    /// Returns the time in which an idle connection must answer.
    fn answer_time(&self) -> Duration {
        let last = Duration::from_millis(self.last_answer.load(Ordering::Relaxed));
        (last * PATIENCE).clamp(self.patience, IDLE_ANSWER_TIME)
    }

    /// Returns the number of connections that the pool opened so far.
    pub(super) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// Returns the number of idle connections that did not answer in time so far.
    pub(super) fn silent(&self) -> u64 {
        self.silent.load(Ordering::Relaxed)
    }

    /// Drops the idle connections, and repeats statements that wait on older connections.
    pub(super) fn cut(&self) {
        self.drop_idle();
        self.cuts.send_replace(());
    }

    /// Takes an idle connection, if any. Returns the present generation.
    fn take_idle(&self) -> (u64, Option<PgConnection>) {
        let mut idle = sync::lock(&self.idle);
        (idle.generation, idle.sessions.pop())
    }

    /// Returns a connection that was taken or opened in `generation`.
    fn give_back(&self, generation: u64, connection: PgConnection) {
        let mut idle = sync::lock(&self.idle);
        if idle.generation == generation {
            idle.sessions.push(connection);
        }
    }

    /// Records that the writer lost its server, or that its server accepts no writes.
    pub(super) fn note_doubt(&self) {
        self.is_server_doubtful.store(true, Ordering::Relaxed);
    }

    /// Drops the connections opened so far after [`SessionPool::note_doubt`]: idle connections at
    /// once, and connections in use after their read. Called when the writer opened a new
    /// connection, perhaps to another server.
    pub(super) fn renew(&self) {
        if !self.is_server_doubtful.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut idle = sync::lock(&self.idle);
        idle.generation += 1;
        let old = mem::take(&mut idle.sessions);
        drop(idle);
        drop(old);
    }

    /// Drops the idle connections, which are probably dead.
    fn drop_idle(&self) {
        let mut idle = sync::lock(&self.idle);
        // A connection in use does not return.
        idle.generation += 1;
        let old = mem::take(&mut idle.sessions);
        drop(idle);
        drop(old);
    }

    /// Runs a statement that writes nothing, as soon as a connection is free. Returns the rows.
    ///
    /// # Errors
    /// The error of the database; the error of a closed database after the close.
    pub(super) async fn fetch(
        &self,
        statement: StatementDraft,
    ) -> Result<Vec<PgRow>, PostgresError> {
        self.fetch_rows(statement).await.map_err(|error| self.note(error))
    }

    /// Records a refused read: the requests that would write fail at their reads already.
    /// Returns the error for the caller.
    pub(super) fn note(&self, error: PostgresError) -> PostgresError {
        if !error.is_refusal() {
            return error;
        }
        let fault = error.fault();
        self.condition.note_refused_read(fault.clone());
        match self.condition.answer(fault) {
            StoreFault::Unavailable(text) if text == UNUSABLE => PostgresError::NoSession(text),
            _ => error,
        }
    }

    async fn fetch_rows(&self, statement: StatementDraft) -> Result<Vec<PgRow>, PostgresError> {
        self.reads.increment();
        let _place = self.places.acquire().await.map_err(|_| PostgresError::closed())?;
        let cuts = self.cuts.subscribe();
        let (generation, idle) = self.take_idle();
        if let Some(mut connection) = idle {
            match self.fetch_again(statement.clone(), &mut connection, cuts).await {
                Ok(rows) => {
                    self.give_back(generation, connection);
                    return Ok(rows);
                }
                Err(error) if !error.ends_session() => return Err(error),
                Err(error) => {
                    self.silent.fetch_add(u64::from(error.is_timeout()), Ordering::Relaxed);
                    self.drop_idle();
                }
            }
        }
        match self.fetch_anew(generation, statement.clone()).await {
            Err(error) if error.ends_session() && !error.is_timeout() => {
                self.fetch_anew(generation, statement).await
            }
            fetched => fetched,
        }
    }

    /// Runs the statement on a connection that was idle, until a cut.
    async fn fetch_again(
        &self,
        statement: StatementDraft,
        connection: &mut PgConnection,
        mut cuts: watch::Receiver<()>,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let begun = Instant::now();
        let answered = tokio::select! {
            biased;
            answered = statement.fetch_within(self.answer_time(), connection) => answered,
            Ok(()) = cuts.changed() => Err(PostgresError::cut()),
        };
        let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_answer.store(milliseconds, Ordering::Relaxed);
        answered
    }

    async fn fetch_anew(
        &self,
        generation: u64,
        statement: StatementDraft,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let mut connection = self.connector.connect().await?;
        self.openings.fetch_add(1, Ordering::Relaxed);
        let rows = statement.fetch(&mut connection).await?;
        self.give_back(generation, connection);
        Ok(rows)
    }

    /// Runs a statement that writes nothing, and passes each row to `take` until `take` returns
    /// `false`. The connection is new if there is an error before the first row.
    ///
    /// # Errors
    /// As [`SessionPool::fetch`], and the errors of `take`.
    pub(super) async fn visit<E>(
        &self,
        statement: StatementDraft,
        mut take: impl FnMut(PgRow) -> Result<bool, E>,
    ) -> Result<(), E>
    where
        E: From<PostgresError>,
    {
        self.reads.increment();
        let _place = self.places.acquire().await.map_err(|_| PostgresError::closed())?;
        let (generation, idle) = self.take_idle();
        if let Some(mut connection) = idle {
            let limit = self.patience;
            match first_row(statement.clone(), &mut connection, &mut take, limit).await {
                Ok(outcome) => {
                    outcome?;
                    self.give_back(generation, connection);
                    return Ok(());
                }
                Err(error) if !error.ends_session() => return Err(self.note(error).into()),
                Err(_) => self.drop_idle(),
            }
        }
        let mut connection = self.connector.connect().await.map_err(|error| self.note(error))?;
        let visited = first_row(statement, &mut connection, &mut take, STATEMENT_TIME).await;
        visited.map_err(|error| self.note(error))??;
        self.give_back(generation, connection);
        Ok(())
    }

    /// Opens a connection for a long read, which would otherwise occupy a place of the readers.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) async fn connect(&self) -> Result<PgConnection, PostgresError> {
        if self.places.is_closed() {
            return Err(PostgresError::closed());
        }
        self.connector.connect().await
    }

    /// Returns the number of reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.read()
    }

    /// Returns the number of connections that read at present, and the maximum.
    pub(super) fn usage(&self) -> ConnectionUsage {
        let free = u64::try_from(self.places.available_permits()).unwrap_or_default();
        let maximum = u64::from(self.size);
        ConnectionUsage { in_use: maximum.saturating_sub(free), maximum }
    }

    /// Waits for the current readers and closes their connections; later readers are refused.
    pub(crate) async fn close(&self) {
        let Ok(all) = self.places.acquire_many(self.size).await else { return };
        self.places.close();
        let idle = mem::take(&mut sync::lock(&self.idle).sessions);
        for connection in idle {
            discard(connection).await;
        }
        drop(all);
    }
}

/// Passes the rows to `take`; the first row must come within `limit`. The outer error is from
/// before the first row, when the statement may be repeated; the inner result is the end of the
/// visit.
async fn first_row<E: From<PostgresError>>(
    statement: StatementDraft,
    connection: &mut PgConnection,
    take: &mut impl FnMut(PgRow) -> Result<bool, E>,
    limit: Duration,
) -> Result<Result<(), E>, PostgresError> {
    let (text, bound) = statement.into_query();
    let mut rows = sqlx::query_with(text, bound).fetch(connection);
    let mut next = within(limit, rows.try_next()).await?;
    let visit = async {
        while let Some(row) = next {
            if !take(row)? {
                break;
            }
            next = in_time(rows.try_next()).await?;
        }
        Ok(())
    };
    Ok(visit.await)
}

/// Closes a connection that is no longer needed. An open transaction ends with the connection in
/// any case.
pub(super) async fn discard(connection: PgConnection) {
    // The connection ends without an answer of the server as well.
    drop(timeout(FAREWELL_TIME, connection.close()).await);
}
