//! MySQL and MariaDB: how a server is logged in to, and what becomes of several statements where
//! some of them commit by themselves.
//!
//! Two attacks end here. A session's `sql_mode` decides what quotes and backslashes mean, so it is
//! set at each use: no statement of an earlier use decides how a later one is read. And a
//! server that asks is sent the password in clear over TLS alone, and a file never.

use super::failure::{SqlFailure, of_statement};
use super::lender::Lender;
use super::rows::{self, Cells};
use super::way::Way;
use crate::bindings::database_plugin::bulkhead::plugin::sql::{Statement, Target};
use crate::limits;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use sqlx::{MySql, Row as _};

/// Modes that change what quotes and backslashes mean, or bring in one that does. A longer name
/// stands before one that is a part of it.
const QUOTING_MODES: [&str; 8] = [
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES",
    "ANSI",
    "ORACLE",
    "POSTGRESQL",
    "MSSQL",
    "DB2",
    "MAXDB",
];

/// First words of statements that commit what was before them, and themselves.
const COMMITTING: [&str; 12] = [
    "alter",
    "analyze",
    "create",
    "drop",
    "flush",
    "grant",
    "install",
    "rename",
    "revoke",
    "set password",
    "truncate",
    "uninstall",
];

/// What a server is asked where writes have to be possible, and how one answers where they are not.
pub(super) const READ_ONLY: (&str, &str) = ("SELECT CAST(@@global.read_only AS CHAR)", "1");

/// How the server is reached and logged in to.
pub(super) fn options(target: &Target, way: &Way) -> MySqlConnectOptions {
    let mut options = MySqlConnectOptions::new()
        .socket(way.relay.socket())
        .username(&target.username)
        .ssl_mode(MySqlSslMode::Disabled)
        .charset("utf8mb4")
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .enable_cleartext_plugin(false)
        .statement_cache_capacity(0)
        .disable_statement_logging();
    // An empty password has no scramble: a user without one proves itself otherwise.
    if !target.password.is_empty() {
        options = options.password(&target.password);
    }
    if !target.database.is_empty() {
        options = options.database(&target.database);
    }
    options
}

impl Lender<MySql> {
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<Cells>, SqlFailure> {
        let begin = format!("{}; START TRANSACTION READ ONLY", session_settings());
        let mut transaction = self.begin(&begin).await?;
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *transaction), cells).await;
        transaction.give_up().await;
        table
    }

    /// The statements from `*lasting` on. It moves on behind each that commits by itself: what is
    /// before it lasts, however this ends.
    pub(super) async fn transact(
        &self,
        statements: &[Statement],
        lasting: &mut usize,
    ) -> Result<(), SqlFailure> {
        let begin = format!("{}; START TRANSACTION", session_settings());
        let mut transaction = self.begin(&begin).await?;
        for (index, statement) in statements.iter().enumerate().skip(*lasting) {
            let commits = commits_by_itself(&statement.text);
            if commits {
                *lasting = index;
            }
            if let Err(error) = transaction.run(statement.text.clone()).await {
                let failure = of_statement(&error, statement.secret).at(index);
                return transaction.end(Err(failure)).await;
            }
            if commits {
                *lasting = index + 1;
            }
        }
        transaction.end(Ok(())).await
    }

    pub(super) async fn execute(&self, statement: &Statement) -> Result<(), SqlFailure> {
        let mut session = self.session().await?;
        let settings = sqlx::raw_sql(AssertSqlSafe(session_settings()));
        session.execute(settings).await.map_err(|error| of_statement(&error, false))?;
        let run = session.execute(sqlx::raw_sql(AssertSqlSafe(statement.text.clone()))).await;
        run.map(drop).map_err(|error| of_statement(&error, statement.secret).at(0))
    }
}

/// What quotes mean, and how long the server itself lets a statement or a lock take. Each of the
/// two kinds of server takes the other's variable for a comment.
fn session_settings() -> String {
    let modes = QUOTING_MODES.iter().fold("@@global.sql_mode".to_owned(), |modes, mode| {
        format!("REPLACE({modes},'{mode}','')")
    });
    let statement = limits::STATEMENT_TIME_MS;
    let (statement_seconds, lock) = (statement / 1000, limits::LOCK_TIME_MS / 1000);
    format!(
        "SET SESSION sql_mode={modes}, lock_wait_timeout={lock}, innodb_lock_wait_timeout={lock} \
         /*M!100101 , max_statement_time={statement_seconds} */ \
         /*!50708 , max_execution_time={statement} */"
    )
}

/// Whether the server commits before that statement and, where it succeeds, after it.
fn commits_by_itself(text: &str) -> bool {
    let mut words = text.split_whitespace().map(str::to_ascii_lowercase);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let both = format!("{first} {second}");
    second != "temporary" && COMMITTING.iter().any(|known| *known == first || *known == both)
}

fn cells(row: &MySqlRow) -> Result<Cells, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

#[cfg(test)]
mod tests;
