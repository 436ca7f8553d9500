//! PostgreSQL: login options and transactions.
//!
//! This file sets every option of a session and overwrites the options that the library took from
//! the environment.

use super::database_target::DatabaseTarget;
use super::failure::{SqlFailure, of_statement};
use super::lent_session::LentSession;
use super::loan::{ConflictRetries, ProtocolLoan};
use super::rows::{self, RowCells};
use super::session_state::SqlDialect;
use super::socket_route::SocketRoute;
use super::statement::SqlStatement;
use crate::limits;
use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use sqlx::{Postgres, Row as _};

/// The query that asks whether the server is read-only, and the answer of a read-only server.
pub(super) const READ_ONLY: (&str, &str) = ("SHOW transaction_read_only", "on");

/// Statements around a statement that may fail: the server undoes the failed statement alone.
const SAVE: &str = "SAVEPOINT bulkhead";
const RELEASE: &str = "RELEASE SAVEPOINT bulkhead";
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT bulkhead; RELEASE SAVEPOINT bulkhead";

/// The statements of `DISCARD ALL`, which PostgreSQL refuses in a message with other statements.
/// The session user comes first, because the rest runs as that user. `RESET ROLE` then restores the
/// login's default role, which resetting the session user removed.
const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; \
     DEALLOCATE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// Returns the options for reaching the server and logging in.
pub(super) fn options(target: &DatabaseTarget, way: &SocketRoute) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(way.relay.folder())
        .port(way.port)
        .username(&target.username)
        .password(&target.password)
        .database(if target.database.is_empty() { &target.username } else { &target.database })
        .ssl_mode(PgSslMode::Disable)
        .application_name("bulkhead")
        .statement_cache_capacity(0)
        .disable_statement_logging()
}

impl SqlDialect for Postgres {
    const RESET: Option<&'static str> = Some(RESET);
}

impl ProtocolLoan<Postgres> {
    /// Runs a query of the component in a read-only transaction. The rollback undoes every setting
    /// that the query made.
    pub(super) async fn query(
        self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<RowCells>, SqlFailure> {
        let mut session = self.begin_transaction(&with_timeouts("BEGIN READ ONLY")).await?.session;
        // Not persistent: the library keeps no statement, because its cache has no room, but would
        // leave each persistent statement prepared in the database session for as long as the
        // session lives.
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *session), cells).await;
        session.abandon().await;
        table
    }

    /// Runs all statements or none. Retries after a conflict with another session.
    pub(super) async fn transact(mut self, statements: &[SqlStatement]) -> Result<(), SqlFailure> {
        let mut tries = ConflictRetries::new();
        loop {
            let begun;
            (self, begun) = self.begin_with_first(statements).await?;
            let done = match begun {
                Ok(begun) => run_all(&mut self.session, statements, begun).await,
                Err(failure) => Err(failure),
            };
            if !tries.retry_after_conflict(&done, &self.session).await {
                return done;
            }
        }
    }

    /// Begins a transaction, together with the first statement unless the first statement may fail.
    /// Returns the number of statements done, or the failure of the first statement.
    async fn begin_with_first(
        mut self,
        statements: &[SqlStatement],
    ) -> Result<(Self, Result<usize, SqlFailure>), SqlFailure> {
        let begin = with_timeouts("BEGIN");
        if let Some(first) = statements.first().filter(|first| !first.may_fail) {
            match self.begin_with(&begin, first).await {
                Ok(true) => return Ok((self, Ok(1))),
                Ok(false) => self = self.replace_session().await?,
                Err(failure) => return Ok((self, Err(failure))),
            }
        }
        Ok((self.begin_transaction(&begin).await?, Ok(0)))
    }
}

/// Runs the statements from index `begun` on, and ends the transaction.
async fn run_all(
    session: &mut LentSession<Postgres>,
    statements: &[SqlStatement],
    begun: usize,
) -> Result<(), SqlFailure> {
    let mut done = Ok(());
    for (index, statement) in statements.iter().enumerate().skip(begun) {
        done = run(session, statement).await.map_err(|failure| failure.at(index));
        if done.is_err() {
            break;
        }
    }
    session.end(done).await
}

/// Runs a statement. If a statement that may fail does fail, undoes the statement and returns
/// success.
async fn run(
    session: &mut LentSession<Postgres>,
    statement: &SqlStatement,
) -> Result<(), SqlFailure> {
    let of_statement = |error| of_statement(&error, statement.secret);
    session.note(statement);
    if !statement.may_fail {
        return session.run(statement.text.clone()).await.map_err(of_statement);
    }
    // The line break keeps a comment at the end of the statement from swallowing the next
    // statement.
    let saved = format!("{SAVE}; {}\n; {RELEASE}", statement.text);
    match session.run(saved).await.map_err(of_statement) {
        Err(failure) if failure.code == "statement-failed" => {
            session.run(GO_BACK.to_owned()).await.map_err(of_statement)
        }
        done => done,
    }
}

/// Adds the server's own timeouts to `begin`: a hanging statement would otherwise keep its session
/// from all other calls, and a session whose other end vanished in a transaction would keep its
/// locks until the server's TCP keepalive, often for hours.
fn with_timeouts(begin: &str) -> String {
    let (statement, lock) = (limits::STATEMENT_TIME_MS, limits::LOCK_TIME_MS);
    let idle = limits::IDLE_TRANSACTION_TIME_MS;
    format!(
        "{begin}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}; \
         SET LOCAL idle_in_transaction_session_timeout = {idle}"
    )
}

fn cells(row: &PgRow) -> Result<RowCells, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}
