//! PostgreSQL: how its server is logged in to, and its words for transactions.
//!
//! Every field of a session is set; what the library took from the environment is overwritten.

use super::failure::{SqlFailure, of_statement};
use super::lent_session::LentSession;
use super::loan::{Loan, Tries};
use super::rows::{self, Cells};
use super::session_state::Dialect;
use super::way::Way;
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Statement, Target};
use crate::limits;
use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use sqlx::{Postgres, Row as _};

/// What a server is asked where writes have to be possible, and how one answers where they are not.
pub(super) const READ_ONLY: (&str, &str) = ("SHOW transaction_read_only", "on");

/// The pair of a statement without which its transaction goes on.
const MAY_FAIL: &str = "may-fail";
/// Around such a statement: nothing of it is kept where it fails.
const SAVE: &str = "SAVEPOINT bulkhead";
const RELEASE: &str = "RELEASE SAVEPOINT bulkhead";
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT bulkhead; RELEASE SAVEPOINT bulkhead";

/// What `DISCARD ALL` does, which cannot stand in one message with others. The user comes first, as
/// whom the rest is done; then the role that a login has by itself, which the user's return took
/// away.
const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; \
     DEALLOCATE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// How the server is reached and logged in to.
pub(super) fn options(target: &Target, way: &Way) -> PgConnectOptions {
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

impl Dialect for Postgres {
    const RESET: Option<&'static str> = Some(RESET);
}

impl Loan<Postgres> {
    /// A query is the component's own, and reads alone: the end of its transaction takes back what
    /// it may have set.
    pub(super) async fn query(
        self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<Cells>, SqlFailure> {
        let mut session = self.begun(&bounded("BEGIN READ ONLY")).await?.session;
        // Prepared for one use: what the library prepares to use it again, and then does not keep,
        // because its cache has no room, stays in the database's session for as long as that lives.
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *session), cells).await;
        session.give_up().await;
        table
    }

    /// All statements, or none. Conflicts with other sessions are tried again.
    pub(super) async fn transact(mut self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let mut tries = Tries::new();
        loop {
            let begun;
            (self, begun) = self.begun_with_first(statements).await?;
            let done = match begun {
                Ok(begun) => run_all(&mut self.session, statements, begun).await,
                Err(failure) => Err(failure),
            };
            if !tries.go_on_after(&done, &self.session).await {
                return done;
            }
        }
    }

    /// Begins, together with the first statement where nothing goes on without that. With it how
    /// many are done, or how the first one failed.
    async fn begun_with_first(
        mut self,
        statements: &[Statement],
    ) -> Result<(Self, Result<usize, SqlFailure>), SqlFailure> {
        let begin = bounded("BEGIN");
        if let Some(first) = statements.first().filter(|first| !may_fail(first)) {
            match self.begin_with(&begin, first).await {
                Ok(true) => return Ok((self, Ok(1))),
                Ok(false) => self = self.replaced().await?,
                Err(failure) => return Ok((self, Err(failure))),
            }
        }
        Ok((self.begun(&begin).await?, Ok(0)))
    }
}

/// Runs the statements behind those that were begun with, and ends their transaction.
async fn run_all(
    session: &mut LentSession<Postgres>,
    statements: &[Statement],
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

/// Runs a statement, or goes on as if it had not been there where it may fail and does.
async fn run(session: &mut LentSession<Postgres>, statement: &Statement) -> Result<(), SqlFailure> {
    let of_statement = |error| of_statement(&error, statement.secret);
    session.note(statement);
    if !may_fail(statement) {
        return session.run(statement.text.clone()).await.map_err(of_statement);
    }
    // A comment at its end must not swallow what follows.
    let saved = format!("{SAVE}; {}\n; {RELEASE}", statement.text);
    match session.run(saved).await.map_err(of_statement) {
        Err(failure) if failure.code == "statement-failed" => {
            session.run(GO_BACK.to_owned()).await.map_err(of_statement)
        }
        done => done,
    }
}

fn may_fail(statement: &Statement) -> bool {
    statement.ext.iter().any(|(name, _)| name == MAY_FAIL)
}

/// Bounded by the server too: a statement that hangs would keep its session from all other calls.
fn bounded(begin: &str) -> String {
    let (statement, lock) = (limits::STATEMENT_TIME_MS, limits::LOCK_TIME_MS);
    format!("{begin}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}")
}

fn cells(row: &PgRow) -> Result<Cells, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}
