//! Failures of databases, as error codes of the `sql` import: a single code and the server's own
//! code. The text of a secret statement never appears in a failure.
//!
//! `fixtures/sql` lists every code of PostgreSQL 18, and every error number of MySQL 8.0.33 and
//! MariaDB 10.11, with the code of the import. Numbers from 4000 on have two meanings, because the
//! two servers assign them independently.

use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// A failure of a database. `wit/sql.wit` lists the codes.
#[derive(Clone, Debug)]
pub struct SqlFailure {
    /// Code of the failure.
    pub code: String,
    /// A text without the data of a secret statement.
    pub message: String,
    /// Index of the failed statement, from 0.
    pub statement: Option<u32>,
    /// The server's own code.
    pub sqlstate: Option<String>,
    /// Set if the server answered, and TLS failed for the reason in `message`.
    pub is_tls: bool,
}

/// Creates a failure that names no statement.
pub fn failed(code: &str, message: impl Into<String>) -> SqlFailure {
    SqlFailure {
        code: code.to_owned(),
        message: message.into(),
        statement: None,
        sqlstate: None,
        is_tls: false,
    }
}

impl SqlFailure {
    /// Adds the index of the failed statement.
    pub(super) fn at(self, place: usize) -> Self {
        Self { statement: u32::try_from(place).ok(), ..self }
    }

    /// Marks the failure of a TLS handshake.
    pub(super) fn of_tls(self) -> Self {
        Self { is_tls: true, ..self }
    }
}

/// Converts an error of dialling or logging in. A login that the server answers with a code is
/// rejected, unless the code says that the server cannot serve anybody now.
pub(crate) fn of_login(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, false);
    let is_answer = failure.code == "statement-failed" && failure.sqlstate.is_some();
    if is_answer || failure.sqlstate.as_deref().is_some_and(is_rejected_login) {
        "refused".clone_into(&mut failure.code);
    }
    failure
}

/// Returns whether a server rejects a login by this code: a SQLSTATE of PostgreSQL, or an error
/// number of MySQL.
fn is_rejected_login(code: &str) -> bool {
    let of_postgres = code.starts_with("28") && code.len() == 5 || code == "3D000";
    of_postgres || MYSQL_REFUSALS.contains(&code)
}

/// Converts an error of a statement. `secret` leaves out the server's text.
pub(crate) fn of_statement(error: &sqlx::Error, secret: bool) -> SqlFailure {
    match error {
        sqlx::Error::Database(database) => of_database(database.as_ref(), secret),
        sqlx::Error::PoolTimedOut => failed("timed-out", "no session became free in time"),
        sqlx::Error::PoolClosed => {
            failed("unreachable", "the connection was changed or closed meanwhile")
        }
        sqlx::Error::Io(io) => failed("unreachable", io.kind().to_string()),
        sqlx::Error::Tls(_) => failed("unreachable", "TLS could not be agreed with the server"),
        sqlx::Error::ColumnDecode { index, .. } => {
            failed("invalid-request", format!("column {index} is not text: cast the column"))
        }
        // The server asked for the unhashed password outside TLS, see `mysql.rs`.
        sqlx::Error::Configuration(_) => failed(
            "invalid-request",
            "the server's password authentication requires TLS, or a given certificate or key is \
             not valid PEM",
        ),
        _ => failed("unreachable", "the session broke"),
    }
}

/// Converts an error of a commit. An error of the transaction means that the server kept nothing.
/// If the error also ends the session, the result of the commit is unknown.
pub(crate) fn of_commit(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, true);
    let is_open = match error {
        sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
            Some(postgres) => is_last(postgres),
            // MySQL rolled the transaction back if it answers a commit with a conflict.
            None => failure.code != "conflict",
        },
        _ => false,
    };
    if is_open {
        "unreachable".clone_into(&mut failure.code);
    }
    failure
}

/// Returns whether `error` says that the session is over, and not that the statement failed.
/// MySQL's own error packets never count.
pub(super) fn ends_session(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(database) => {
            database.try_downcast_ref::<PgDatabaseError>().is_some_and(is_last)
        }
        _ => false,
    }
}

/// Returns whether the server sends nothing more on the session after `error`.
fn is_last(error: &PgDatabaseError) -> bool {
    matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic)
}

fn of_database(error: &dyn DatabaseError, secret: bool) -> SqlFailure {
    let (code, number) = if let Some(postgres) = error.try_downcast_ref::<PgDatabaseError>() {
        (of_postgres(postgres.code(), postgres.routine()), postgres.code().to_owned())
    } else if let Some(mysql) = error.try_downcast_ref::<MySqlDatabaseError>() {
        (of_mysql(mysql.number()), mysql.number().to_string())
    } else {
        return failed("statement-failed", "");
    };
    let message = if secret { String::new() } else { error.message().to_owned() };
    SqlFailure { sqlstate: Some(number), ..failed(code, message) }
}

fn of_postgres(sqlstate: &str, routine: Option<&str>) -> &'static str {
    match sqlstate {
        "40001" | "40P01" => "conflict",
        "XX000" if routine.is_some_and(is_concurrent_update) => "conflict",
        // A cancellation by a timeout, a lock that was not granted in time, or a transaction that
        // was idle or open for too long.
        "57014" | "55P03" | "25P03" | "25P04" => "timed-out",
        // A demoted primary, or a commit with an unknown result.
        "25006" | "40003" => "unreachable",
        // Lost sessions, exhausted resources, operator intervention, and disk failures: none of
        // these errors is about the statement.
        code if ["08", "53", "57P", "58"].iter().any(|class| code.starts_with(class)) => {
            "unreachable"
        }
        _ => "statement-failed",
    }
}

/// MySQL's error numbers for a rejected login: user, password, database, host, expired and locked
/// accounts, accounts blocked after failed logins, an unknown authentication plugin, passwords of
/// an old format, and TLS if the server requires TLS.
const MYSQL_REFUSALS: [&str; 15] = [
    "1044", "1045", "1049", "1130", "1251", "1275", "1524", "1698", "1820", "1862", "3118", "3159",
    "3955", "4150", "4151",
];

fn of_mysql(number: u16) -> &'static str {
    match number {
        // A deadlock, a lock that was not granted in time, or a transaction that a group of servers
        // rolled back.
        1205 | 1213 | 3101 => "conflict",
        // A cancellation by a timeout or by an operator.
        1317 | 1969 | 3024 => "timed-out",
        // Too many sessions, a blocked host, a failed handshake, a node that is not ready, a
        // shutdown, full memory or disk, lost sessions, and a server that became read-only: none of
        // these errors is about the statement.
        1021
        | 1037
        | 1038
        | 1040..=1043
        | 1047
        | 1053
        | 1129
        | 1152
        | 1154..=1161
        | 1180
        | 1203
        | 1226
        | 1290
        | 1792
        | 1836
        | 1874
        | 1927
        | 3015
        | 3032
        | 3169
        | 4031 => "unreachable",
        _ => "statement-failed",
    }
}

/// PostgreSQL reports "tuple concurrently updated" as an internal error. Its text is translated,
/// but the name of the routine is not.
fn is_concurrent_update(routine: &str) -> bool {
    matches!(routine, "simple_heap_update" | "simple_heap_delete")
}

#[cfg(test)]
mod tests;
