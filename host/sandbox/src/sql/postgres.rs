//! PostgreSQL: how its server is logged in to, and its words for transactions.
//!
//! Every field of a session is set; what the library took from the environment is overwritten.

use super::failure::{SqlFailure, failed, of_commit, of_login, of_statement};
use super::lender::Lender;
use super::rows::{self, Cells};
use super::way::{Mode, Way};
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Statement, Target};
use crate::limits;
use sqlx::postgres::{PgConnectOptions, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection};
use sqlx::{Postgres, Row as _};

/// How the server is reached and logged in to.
pub(super) fn options(target: &Target, way: &Way) -> PgConnectOptions {
    let tls = &target.tls;
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&way.name)
        .port(way.port)
        .username(&target.username)
        .password(&target.password)
        .database(if target.database.is_empty() { &target.username } else { &target.database })
        .ssl_mode(match way.mode {
            Mode::Disable => PgSslMode::Disable,
            Mode::Prefer => PgSslMode::Prefer,
            Mode::Require => PgSslMode::Require,
            Mode::VerifyCa => PgSslMode::VerifyCa,
            Mode::VerifyFull => PgSslMode::VerifyFull,
        })
        .application_name("bulkhead")
        .statement_cache_capacity(0)
        .disable_statement_logging();
    if let Some(pem) = &tls.root_certificates {
        options = options.ssl_root_cert_from_pem(pem.clone().into_bytes());
    }
    if let (Some(certificate), Some(key)) = (&tls.client_certificate, &tls.client_key) {
        options = options.ssl_client_cert_from_pem(certificate).ssl_client_key_from_pem(key);
    }
    if let Some(relay) = &way.relay {
        options = options.socket(relay.folder());
    }
    options
}

/// Logs in once before there is a pool: the pool itself would try a dead server again and again.
pub(super) async fn probe(options: &PgConnectOptions, writable: bool) -> Result<(), SqlFailure> {
    let mut session =
        PgConnection::connect_with(options).await.map_err(|error| of_login(&error))?;
    let read_only = match writable {
        true => sqlx::query("SHOW transaction_read_only").fetch_one(&mut session).await.map(Some),
        false => Ok(None),
    };
    let read_only = read_only.map_err(|error| of_statement(&error, false))?;
    // The answer is in; how the farewell goes changes nothing.
    drop(session.close().await);
    match read_only.map(|row| row.try_get::<String, _>(0)) {
        Some(Ok(word)) if word == "on" => Err(failed("unreachable", "the server is read-only")),
        _ => Ok(()),
    }
}

impl Lender<Postgres> {
    pub(super) async fn ping(&self) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let asked = session.execute(sqlx::raw_sql("SELECT 1")).await;
        asked.map(drop).map_err(|error| of_statement(&error, false))
    }

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
            let run =
                transaction.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
            if let Err(error) = run {
                return Err(of_statement(&error, statement.secret).at(index));
            }
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
