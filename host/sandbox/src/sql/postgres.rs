//! PostgreSQL: how its server is logged in to, and its words for transactions.
//!
//! Every field of a session is set; what the library took from the environment is overwritten.

use super::failure::{SqlFailure, of_commit, of_statement};
use super::lender::Lender;
use super::rows::{self, Cells};
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
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *transaction), cells).await?;
        transaction.rollback().await.map_err(|error| of_statement(&error, false))?;
        Ok(table)
    }

    /// All statements, or none.
    pub(super) async fn transact(&self, statements: &[Statement]) -> Result<(), SqlFailure> {
        let mut transaction = self.begin(&bounded("BEGIN")).await?;
        for (index, statement) in statements.iter().enumerate() {
            let may_fail = statement.ext.iter().any(|(name, _)| name == MAY_FAIL);
            let text = match may_fail {
                // A comment at its end must not swallow what follows.
                true => format!("{SAVE}; {}\n; {RELEASE}", statement.text),
                false => statement.text.clone(),
            };
            let run = transaction.execute(sqlx::raw_sql(AssertSqlSafe(text))).await;
            let Err(error) = run else { continue };
            let failure = of_statement(&error, statement.secret).at(index);
            if !may_fail || failure.code != "statement-failed" {
                return Err(failure);
            }
            let back = transaction.execute(sqlx::raw_sql(GO_BACK)).await;
            back.map_err(|error| of_statement(&error, false).at(index))?;
        }
        transaction.commit().await.map_err(|error| of_commit(&error))
    }

    pub(super) async fn execute(&self, statement: &Statement) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let run = session.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
        run.map(drop).map_err(|error| of_statement(&error, statement.secret).at(0))
    }
}

/// Bounded by the server too: a statement that hangs would keep its session from all other calls.
fn bounded(begin: &str) -> String {
    let (statement, lock) = (limits::STATEMENT_TIME_MS, limits::LOCK_TIME_MS);
    format!("{begin}; SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {lock}")
}

fn cells(row: &PgRow) -> Result<Cells, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}
