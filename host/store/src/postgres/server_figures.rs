//! The figures of a database: commits and their times, reads, and the remembered size.

use bulkhead_wire::duration_histogram::HistogramReading;
use bulkhead_wire::sync;
use sqlx::Row as _;

use crate::activity::{ConnectionUsage, DatabaseSizes};

use super::connections::PostgresDatabase;
use super::postgres_error::PostgresError;
use super::statement_draft::StatementDraft;

impl PostgresDatabase {
    /// Returns the number of commits since the database was opened.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.read()
    }

    /// Returns the times of the writes and the commit.
    pub(crate) fn flush_time(&self) -> HistogramReading {
        self.flush_time.read()
    }

    /// Returns the number of reads of single states so far.
    pub(crate) fn read_queries(&self) -> u64 {
        self.readers.reads()
    }

    /// Returns the use of the reading connections.
    pub(crate) fn connection_usage(&self) -> ConnectionUsage {
        self.readers.usage()
    }

    /// Returns the size as last measured. The log of the server is not measured.
    pub(crate) fn sizes(&self) -> DatabaseSizes {
        DatabaseSizes { database: sync::lock(&self.sizes).bytes, log: None }
    }

    /// Measures the size, unless the last measurement is young. An error, such as that of a
    /// compatible database without this function, leaves the size unknown.
    pub(super) async fn measure_sizes(&self) {
        if sync::lock(&self.sizes).begin_measurement() {
            let measured = self.measured_bytes().await.ok().flatten();
            sync::lock(&self.sizes).bytes = measured;
        }
    }

    async fn measured_bytes(&self) -> Result<Option<u64>, PostgresError> {
        let text = "SELECT pg_total_relation_size($1::regclass)";
        let query = StatementDraft::of(text).with(self.tables.record.as_str())?;
        let rows = self.readers.fetch(query).await?;
        let bytes: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(bytes.and_then(|bytes| u64::try_from(bytes).ok()))
    }
}
