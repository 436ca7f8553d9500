//! MySQL and MariaDB: login options, and retries of statements that commit implicitly.
//!
//! This file prevents two attacks. A session's `sql_mode` decides how the server reads quotes and
//! backslashes; each use sets the mode, so that no statement changes how a later use is read. A
//! server that asks for the unhashed password receives the password over TLS only. The library
//! sends no local file to a server.

use super::database_target::DatabaseTarget;
use super::failure::{SqlFailure, of_statement};
use super::lent_session::LentSession;
use super::loan::{ConflictRetries, ProtocolLoan};
use super::rows::{self, RowCells};
use super::session_state::SqlDialect;
use super::socket_route::SocketRoute;
use super::statement::SqlStatement;
use crate::limits;
use sqlx::mysql::{MySqlConnectOptions, MySqlRow, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use sqlx::{MySql, Row as _};

/// SQL modes that change the meaning of quotes and backslashes, or imply such a mode. A longer name
/// precedes each name that is a part of the longer name.
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

/// First words of statements that implicitly commit the earlier statements and themselves.
const COMMITTING_WORDS: [&str; 12] = [
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

const BEGIN: &str = "START TRANSACTION";

/// The query that asks whether the server is read-only, and the answer of a read-only server.
pub(super) const READ_ONLY: (&str, &str) = ("SELECT CAST(@@global.read_only AS CHAR)", "1");

/// Returns the options for reaching the server and logging in.
pub(super) fn options(target: &DatabaseTarget, way: &SocketRoute) -> MySqlConnectOptions {
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
    // An empty password has no scramble: a user without a password authenticates in another way.
    if !target.password.is_empty() {
        options = options.password(&target.password);
    }
    if !target.database.is_empty() {
        options = options.database(&target.database);
    }
    options
}

impl SqlDialect for MySql {
    /// No single statement resets variables, roles, locks and the database.
    const RESET: Option<&'static str> = None;
}

impl ProtocolLoan<MySql> {
    pub(super) async fn query(
        self,
        sql: &str,
        parameters: &[String],
    ) -> Result<Vec<RowCells>, SqlFailure> {
        let begin = format!("{}; START TRANSACTION READ ONLY", session_settings());
        let mut session = self.begin_transaction(&begin).await?.session;
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
        for parameter in parameters {
            query = query.bind(parameter.as_str());
        }
        let table = rows::texts(query.fetch(&mut *session), cells).await;
        session.abandon().await;
        table
    }

    /// Runs all statements. After a conflict, continues behind the committed statements, on the
    /// same session, because earlier statements may have set session state.
    pub(super) async fn transact(self, statements: &[SqlStatement]) -> Result<(), SqlFailure> {
        let begin = format!("{}; {BEGIN}", session_settings());
        let mut loan = self.begin_transaction(&begin).await?;
        let (mut tries, mut lasting) = (ConflictRetries::new(), 0);
        loop {
            let done = run_from(&mut loan.session, statements, &mut lasting).await;
            if !tries.retry_after_conflict(&done, &loan.session).await {
                return done;
            }
            let begun = loan.session.begin(BEGIN.to_owned()).await;
            begun.map_err(|error| of_statement(&error, false))?;
        }
    }

    pub(super) async fn execute(self, statement: &SqlStatement) -> Result<(), SqlFailure> {
        self.execute_after(Some(session_settings()), statement).await
    }
}

/// Runs the statements from index `*lasting` on. Moves `*lasting` behind each statement that
/// commits implicitly: everything before `*lasting` is committed, even if a later statement fails.
async fn run_from(
    session: &mut LentSession<MySql>,
    statements: &[SqlStatement],
    lasting: &mut usize,
) -> Result<(), SqlFailure> {
    for (index, statement) in statements.iter().enumerate().skip(*lasting) {
        let commits = commits_by_itself(&statement.text);
        if commits {
            *lasting = index;
        }
        session.note(statement);
        if let Err(error) = session.run(statement.text.clone()).await {
            let failure = of_statement(&error, statement.secret).at(index);
            return session.end(Err(failure)).await;
        }
        if commits {
            *lasting = index + 1;
        }
    }
    session.end(Ok(())).await
}

/// Returns the statement that sets the quoting rules and the server's own timeouts for statements,
/// locks, and sessions whose other end vanished in a transaction. MySQL reads MariaDB's variables
/// as a comment, and MariaDB reads MySQL's variables as a comment.
fn session_settings() -> String {
    let modes = QUOTING_MODES.iter().fold("@@global.sql_mode".to_owned(), |modes, mode| {
        format!("REPLACE({modes},'{mode}','')")
    });
    let statement = limits::STATEMENT_TIME_MS;
    let (statement_seconds, lock) = (statement / 1000, limits::LOCK_TIME_MS / 1000);
    let idle_seconds = limits::IDLE_TRANSACTION_TIME_MS / 1000;
    let idle_session = limits::IDLE_SESSION_TIME_SECS;
    format!(
        "SET SESSION sql_mode={modes}, lock_wait_timeout={lock}, innodb_lock_wait_timeout={lock} \
         /*M!100101 , max_statement_time={statement_seconds} */ \
         /*M!100300 , idle_transaction_timeout={idle_seconds} */ \
         /*!50708 , max_execution_time={statement}, wait_timeout={idle_session} */"
    )
}

/// Returns whether the server commits before the statement and, if the statement succeeds, after
/// the statement.
fn commits_by_itself(text: &str) -> bool {
    let mut words = text.split_whitespace().map(str::to_ascii_lowercase);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let both = format!("{first} {second}");
    second != "temporary" && COMMITTING_WORDS.iter().any(|word| *word == first || *word == both)
}

fn cells(row: &MySqlRow) -> Result<RowCells, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

#[cfg(test)]
mod tests;
