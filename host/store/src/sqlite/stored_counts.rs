//! The counters of stored bytes, which triggers update within each commit (`schema/0004.sql` and
//! `schema/0005.sql`).

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use bulkhead_record::fault::StoreFault;

use super::connections::SqliteDatabase;
use super::script::{BatchRows, StatementBatch};
use super::transaction_error::fault_of;

/// Asks for the bytes of a counter. A name that ends in a slash stands for all counters that begin
/// with the name.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn ask_bytes(script: &mut StatementBatch, counter: &str) -> Result<(), sqlx::Error> {
    let Some(kind) = counter.strip_suffix('/') else {
        script.add("SELECT bytes FROM stored WHERE mount = ?");
        return script.bind(counter.to_owned());
    };
    script.add("SELECT coalesce(sum(bytes), 0) AS bytes FROM stored WHERE mount > ? AND mount < ?");
    script.bind(counter.to_owned())?;
    // The byte behind the slash.
    script.bind(format!("{kind}0"))
}

/// Returns the bytes of a counter from the answer at `place`.
///
/// # Errors
/// The error of SQLite.
pub(super) fn parse_bytes(answers: &BatchRows, place: usize) -> Result<u64, sqlx::Error> {
    let row = answers.get(place).and_then(|rows| rows.first());
    let bytes: i64 = row.map_or(Ok(0), |row| row.try_get("bytes"))?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

impl SqliteDatabase {
    /// As [`Database::stored_by_mount`](crate::database::Database::stored_by_mount).
    pub(crate) async fn stored_by_mount(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        let query = sqlx::query_as("SELECT mount, bytes FROM stored WHERE instr(mount, '/') = 0");
        let read = async |connection: &mut SqliteConnection| query.fetch_all(connection).await;
        let counted: Result<Vec<(String, i64)>, sqlx::Error> = self.readers.read(read).await;
        let bytes = |(mount, bytes)| Some((mount, u64::try_from(bytes).ok()?));
        Ok(counted.map_err(fault_of)?.into_iter().filter_map(bytes).collect())
    }
}
