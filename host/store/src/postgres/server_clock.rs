//! The clock of the server, which store time follows on a shared database.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_record::fault::StoreFault;

use super::connections::PostgresDatabase;
use super::postgres_error::PostgresError;
use super::statement_draft::StatementDraft;

/// The clock of the server at the moment of the answer, in milliseconds since 1970.
pub(super) const CLOCK: &str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS bigint)";

/// Returns the question about the clock.
pub(super) fn question() -> String {
    format!("SELECT {CLOCK} AS server_time")
}

/// Reads the clock from the column `server_time`.
///
/// # Errors
/// The error of the driver for a column of another type.
pub(super) fn time_of(row: &PgRow) -> Result<Option<u64>, PostgresError> {
    let time: i64 = row.try_get("server_time")?;
    Ok(u64::try_from(time).ok())
}

impl PostgresDatabase {
    /// As [`Database::read_clock`](crate::database::Database::read_clock).
    pub(crate) async fn read_clock(&self) -> Result<Option<u64>, StoreFault> {
        let rows = self.readers.fetch(StatementDraft::of(question())).await?;
        Ok(rows.first().map(time_of).transpose()?.flatten())
    }
}
