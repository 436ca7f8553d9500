//! A check of the sessions at the opening: a session of the server stays with the connection.
//!
//! This file prevents commits through a pooler that gives a session of the server to other
//! connections between transactions: prepared statements disappear or belong to somebody else. The
//! check looks at the behaviour, because a pooler does not tell its mode.

#[cfg(test)]
mod tests;

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::time::timeout;

use bulkhead_record::fault::StoreFault;

use super::postgres_error::{POOLER, PostgresError};
use super::statement_draft::{StatementDraft, run_script};

/// Maximum time of the second run of the statement. A pooler with a single session of the server
/// lets the first connection wait for the transaction of the second connection.
const CHECK_TIME: Duration = Duration::from_secs(10);

/// Checks that a statement prepared on `first` is there while `second` is in a transaction. A
/// pooler in transaction mode then gives the session with the statement to `second`.
///
/// # Errors
/// [`StoreFault::Refused`] behind a pooler that is not in session mode;
/// [`StoreFault::Unavailable`] if the database failed.
pub(super) async fn check_sessions(
    first: &mut PgConnection,
    second: &mut PgConnection,
) -> Result<(), StoreFault> {
    match run_twice(first, second).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreFault::Refused(format!(
            "{POOLER} (one connection waited for the transaction of the other)"
        ))),
        Err(error) if error.is_of_pooler() => {
            Err(StoreFault::Refused(format!("{POOLER} ({})", error.describe())))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns `false` if the second run did not end. The connections must not be used again then.
async fn run_twice(
    first: &mut PgConnection,
    second: &mut PgConnection,
) -> Result<bool, PostgresError> {
    let probe = || StatementDraft::of("SELECT $1::bigint").with(1_i64);
    probe()?.fetch(first).await?;
    run_script(second, "BEGIN").await?;
    let Ok(again) = timeout(CHECK_TIME, probe()?.fetch(first)).await else { return Ok(false) };
    run_script(second, "ROLLBACK").await?;
    again.map(|_| true)
}
