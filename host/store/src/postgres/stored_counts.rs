//! The counters of stored bytes, which `group_writes` changes within each commit.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_record::fault::StoreFault;

use super::connections::PostgresDatabase;
use super::postgres_error::PostgresError;
use super::statement_draft::StatementDraft;
use super::stored_text::decode;

impl PostgresDatabase {
    /// As [`Database::stored_by_mount`](crate::database::Database::stored_by_mount).
    pub(crate) async fn stored_by_mount(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        let text = format!(
            "SELECT mount, bytes FROM {} WHERE position('/' IN mount) = 0",
            self.tables.stored
        );
        let rows = self.readers.fetch(StatementDraft::of(text)).await?;
        let pair = |row: &PgRow| Ok((decode(row.try_get("mount")?), row.try_get("bytes")?));
        let pairs: Result<Vec<(String, i64)>, sqlx::Error> = rows.iter().map(pair).collect();
        let bytes = |(mount, bytes)| Some((mount, u64::try_from(bytes).ok()?));
        Ok(pairs.map_err(PostgresError::from)?.into_iter().filter_map(bytes).collect())
    }

    /// As [`Database::give_back_space`](crate::database::Database::give_back_space). The server
    /// reuses the space of deleted rows by itself.
    pub(crate) async fn give_back_space(&self) -> Result<(), StoreFault> {
        self.measure_sizes().await;
        Ok(())
    }
}
