//! PostgreSQL: how its server is logged in to, and its words for transactions.
//!
//! Every field of a session is set; what the library took from the environment is overwritten.

use super::failure::{SqlFailure, of_statement};
use super::lender::Lender;
use super::rows::{self, Cells};
use super::transaction::Transaction;
use super::way::Way;
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Statement, Target};
use crate::limits;
use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use sqlx::{Postgres, Row as _};

/// What a server is asked where writes have to be possible, and how one answers where they are not.
pub(super) const READ_ONLY: (&str, &str) = ("SHOW transaction_read_only", "on");

/// The pair of a statement without which its transaction goes on.
const MAY_FAIL: &str = "may-fail";
/// Around such a statement: nothing of it is kept where it fails.
const SAVE: &str = "SAVEPOINT bulkhead";
const RELEASE: &str = "RELEASE SAVEPOINT bulkhead";
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT bulkhead; RELEASE SAVEPOINT bulkhead";

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

impl Lender<Postgres> {
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<Cells>, SqlFailure> {
        let mut transaction = self.begin(&bounded("BEGIN READ ONLY")).await?;
        // Prepared for one use: what the library prepares to use it again, and then does not keep,
        // because its cache has no room, stays in the database's session for as long as that lives.
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *transaction), cells).await;
        transaction.give_up().await;
        table
    }

    /// All statements, or none.
    pub(super) async fn transact(&self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let (mut transaction, begun) = self.begin_all(statements).await?;
        let mut done = Ok(());
        for (index, statement) in statements.iter().enumerate().skip(begun) {
            done = run(&mut transaction, statement).await.map_err(|failure| failure.at(index));
            if done.is_err() {
                break;
            }
        }
        transaction.end(done).await
    }

    /// Begins, together with the first statement where nothing goes on without that. With it how
    /// many are done.
    async fn begin_all(
        &self,
        statements: &[Statement],
    ) -> Result<(Transaction<Postgres>, usize), SqlFailure> {
        let begin = bounded("BEGIN");
        if let Some(first) = statements.first().filter(|first| !may_fail(first))
            && let Some(transaction) = self.begin_with(&begin, first).await?
        {
            return Ok((transaction, 1));
        }
        Ok((self.begin(&begin).await?, 0))
    }

    pub(super) async fn execute(&self, statement: &Statement) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let run = session.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
        run.map(drop).map_err(|error| of_statement(&error, statement.secret).at(0))
    }
}

/// Runs a statement, or goes on as if it had not been there where it may fail and does.
async fn run(
    transaction: &mut Transaction<Postgres>,
    statement: &Statement,
) -> Result<(), SqlFailure> {
    let of_statement = |error| of_statement(&error, statement.secret);
    if !may_fail(statement) {
        return transaction.run(statement.text.clone()).await.map_err(of_statement);
    }
    // A comment at its end must not swallow what follows.
    let saved = format!("{SAVE}; {}\n; {RELEASE}", statement.text);
    match transaction.run(saved).await.map_err(of_statement) {
        Err(failure) if failure.code == "statement-failed" => {
            transaction.run(GO_BACK.to_owned()).await.map_err(of_statement)
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
