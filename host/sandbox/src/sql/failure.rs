//! What a database's refusal means: one code, the server's own code, and no text of a secret
//! statement.

use crate::bindings::database_plugin::bulkhead::plugin::sql;
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// A failure of the `sql` import.
pub(crate) type SqlFailure = sql::Failure;

/// A failure without a statement.
pub(crate) fn failed(code: &str, message: impl Into<String>) -> SqlFailure {
    SqlFailure {
        code: code.to_owned(),
        message: message.into(),
        statement: None,
        sqlstate: None,
        ext: Vec::new(),
    }
}

impl SqlFailure {
    /// The same, of the statement in that place.
    pub(super) fn at(self, place: usize) -> Self {
        Self { statement: u32::try_from(place).ok(), ..self }
    }
}

/// What `error` means when it came from dialling or logging in.
pub(crate) fn of_login(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, false);
    let rejected = failure.sqlstate.as_deref().is_some_and(|state| {
        let of_postgres = state.starts_with("28") && state.len() == 5 || state == "3D000";
        of_postgres || MYSQL_REFUSALS.contains(&state)
    });
    if rejected {
        "refused".clone_into(&mut failure.code);
    }
    failure
}

/// What `error` means when it came from a statement. `secret`: the server's text is left out.
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
            failed("invalid-request", format!("column {index} is not text: cast it"))
        }
        // The library would send a password that it does not hash; see `mysql.rs`.
        sqlx::Error::Configuration(_) => failed(
            "invalid-request",
            "TLS is needed for this server's way of asking for a password, or its PEM is no PEM",
        ),
        _ => failed("unreachable", "the session broke"),
    }
}

/// What `error` means when it came from a commit. An error of the transaction means that nothing
/// was kept; what ends the session in the same breath leaves open on which side of the commit.
pub(crate) fn of_commit(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, true);
    let is_open = match error {
        sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
            Some(postgres) => is_last(postgres),
            // MySQL answers to a commit with an error where it kept nothing because of others.
            None => failure.code != "conflict",
        },
        _ => false,
    };
    if is_open {
        "unreachable".clone_into(&mut failure.code);
    }
    failure
}

/// Whether `error` tells of PostgreSQL's session that it is over, and not of what was asked.
pub(super) fn ends_session(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(database) => {
            database.try_downcast_ref::<PgDatabaseError>().is_some_and(is_last)
        }
        _ => false,
    }
}

/// Whether a server says nothing more on the session after it.
fn is_last(error: &PgDatabaseError) -> bool {
    matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic)
}

fn of_database(error: &dyn DatabaseError, secret: bool) -> SqlFailure {
    let (code, number) = if let Some(postgres) = error.try_downcast_ref::<PgDatabaseError>() {
        (of_postgres(postgres), postgres.code().to_owned())
    } else if let Some(mysql) = error.try_downcast_ref::<MySqlDatabaseError>() {
        (of_mysql(mysql.number()), mysql.number().to_string())
    } else {
        return failed("statement-failed", "");
    };
    let message = if secret { String::new() } else { error.message().to_owned() };
    SqlFailure { sqlstate: Some(number), ..failed(code, message) }
}

fn of_postgres(error: &PgDatabaseError) -> &'static str {
    match error.code() {
        "40001" | "40P01" => "conflict",
        "XX000" if error.routine().is_some_and(is_concurrent_update) => "conflict",
        // Cancelled by a timeout, or a lock that did not come.
        "57014" | "55P03" => "timed-out",
        // A demoted primary; a commit whose end is not known.
        "25006" | "40003" => "unreachable",
        // Lost sessions, exhausted resources, operators at work, failing disks: none is an answer
        // to the statement.
        code if ["08", "53", "57P", "58"].iter().any(|class| code.starts_with(class)) => {
            "unreachable"
        }
        _ => "statement-failed",
    }
}

/// Numbers of a login that is rejected: user, password, database, host, expired and locked
/// accounts, a way of proving oneself that is not known, and TLS where the server insists on it.
const MYSQL_REFUSALS: [&str; 12] = [
    "1044", "1045", "1049", "1130", "1251", "1524", "1698", "1820", "1862", "3118", "3159", "4151",
];

fn of_mysql(number: u16) -> &'static str {
    match number {
        // A deadlock, or a lock that did not come.
        1205 | 1213 => "conflict",
        // Cut by a bound on its time, or by hand.
        1317 | 1969 | 3024 => "timed-out",
        // Too many sessions, a host that is blocked, a shutdown, memory or disk that is full, lost
        // sessions, and a server that became read-only: none is an answer to the statement.
        1021
        | 1037
        | 1038
        | 1040
        | 1041
        | 1053
        | 1129
        | 1152
        | 1158..=1161
        | 1180
        | 1203
        | 1226
        | 1290
        | 1792
        | 1836
        | 1927
        | 3032
        | 3169
        | 4031 => "unreachable",
        _ => "statement-failed",
    }
}

/// PostgreSQL tells "tuple concurrently updated" by an internal error; its text is translated, the
/// routine's name is not.
fn is_concurrent_update(routine: &str) -> bool {
    matches!(routine, "simple_heap_update" | "simple_heap_delete")
}
