//! What a database's refusal means: one code, the server's own code, and no text of a secret
//! statement.

use crate::bindings::database_plugin::bulkhead::plugin::sql;
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

/// What `error` means when it came from dialling or logging in.
pub(crate) fn of_login(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, false);
    let rejected = failure
        .sqlstate
        .as_deref()
        .is_some_and(|state| state.starts_with("28") || state == "3D000");
    if rejected {
        "refused".clone_into(&mut failure.code);
    }
    failure
}

/// What `error` means when it came from a statement. `secret`: the server's text is left out.
pub(crate) fn of_statement(error: &sqlx::Error, secret: bool) -> SqlFailure {
    match error {
        sqlx::Error::Database(database) => match database.try_downcast_ref::<PgDatabaseError>() {
            Some(postgres) => of_postgres(postgres, secret),
            None => failed("statement-failed", ""),
        },
        sqlx::Error::PoolTimedOut => failed("timed-out", "no session became free in time"),
        sqlx::Error::PoolClosed => {
            failed("unreachable", "the connection was changed or closed meanwhile")
        }
        sqlx::Error::Io(io) => failed("unreachable", io.kind().to_string()),
        sqlx::Error::Tls(_) => failed("unreachable", "TLS could not be agreed with the server"),
        sqlx::Error::ColumnDecode { index, .. } => {
            failed("invalid-request", format!("column {index} is not text: cast it with ::text"))
        }
        _ => failed("unreachable", "the session broke"),
    }
}

/// What `error` means when it came from a commit. An error of the transaction means that nothing
/// was kept; what ends the session in the same breath leaves open on which side of the commit.
pub(crate) fn of_commit(error: &sqlx::Error) -> SqlFailure {
    let mut failure = of_statement(error, true);
    let ends_session = matches!(error, sqlx::Error::Database(database)
    if database.try_downcast_ref::<PgDatabaseError>().is_none_or(|postgres| {
        matches!(postgres.severity(), PgSeverity::Fatal | PgSeverity::Panic)
    }));
    if ends_session {
        "unreachable".clone_into(&mut failure.code);
    }
    failure
}

fn of_postgres(error: &PgDatabaseError, secret: bool) -> SqlFailure {
    let code = match error.code() {
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
    };
    let message = if secret { String::new() } else { error.message().to_owned() };
    SqlFailure {
        code: code.to_owned(),
        message,
        statement: None,
        sqlstate: Some(error.code().to_owned()),
        ext: Vec::new(),
    }
}

/// PostgreSQL tells "tuple concurrently updated" by an internal error; its text is translated, the
/// routine's name is not.
fn is_concurrent_update(routine: &str) -> bool {
    matches!(routine, "simple_heap_update" | "simple_heap_delete")
}
