//! Filling a new database file with the rows of a snapshot, before anything else opens the file.

use std::path::Path;

use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions as _, Connection as _};

use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};
use bulkhead_record::raw_record::{FillFault, RawRecord};

use super::connection_options::filling;
use super::long_reads::{RECORD_COLUMNS, bind};
use super::meta_table;
use super::script::StatementBatch;
use super::transaction_error::fault_of;

/// The connection that fills a new file, in a single transaction.
pub(crate) struct SqliteFiller(SqliteConnection);

impl SqliteFiller {
    /// Opens the empty file `path`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if SQLite cannot open the file.
    pub(crate) async fn open(path: &Path) -> Result<SqliteFiller, StoreFault> {
        Ok(SqliteFiller(filling(path).connect().await.map_err(fault_of)?))
    }

    /// As [`DatabaseFiller::begin`](crate::database::DatabaseFiller::begin).
    pub(crate) async fn begin(&mut self, schema: usize) -> Result<(), StoreFault> {
        sqlx::query("BEGIN").execute(&mut self.0).await.map_err(fault_of)?;
        meta_table::create_tables(&mut self.0, schema).await.map_err(fault_of)
    }

    /// As [`DatabaseFiller::insert`](crate::database::DatabaseFiller::insert).
    pub(crate) async fn insert(
        &mut self,
        identity: Vec<(String, Vec<u8>)>,
        records: Vec<RawRecord>,
    ) -> Result<(), FillFault> {
        let batch = insertion(identity, records).map_err(rejected)?;
        batch.run(&mut self.0).await.map(drop).map_err(|failed| rejected(failed.error))
    }

    /// As [`DatabaseFiller::identity_rows`](crate::database::DatabaseFiller::identity_rows).
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        meta_table::rows(&mut self.0).await.map_err(fault_of)
    }

    /// As [`DatabaseFiller::commit`](crate::database::DatabaseFiller::commit).
    pub(crate) async fn commit(&mut self, changes: Vec<MetaChange>) -> Result<(), StoreFault> {
        meta_table::change_now(&mut self.0, changes).await.map_err(fault_of)?;
        sqlx::query("COMMIT").execute(&mut self.0).await.map_err(fault_of)?;
        // The mode is part of the file.
        sqlx::query("PRAGMA journal_mode = WAL").execute(&mut self.0).await.map_err(fault_of)?;
        Ok(())
    }

    /// As [`DatabaseFiller::close`](crate::database::DatabaseFiller::close).
    pub(crate) async fn close(self) -> Result<(), StoreFault> {
        self.0.close().await.map_err(fault_of)
    }
}

/// Returns the statements that insert the rows. Full batches share the prepared statement.
fn insertion(
    identity: Vec<(String, Vec<u8>)>,
    records: Vec<RawRecord>,
) -> Result<StatementBatch, sqlx::Error> {
    let mut statements = StatementBatch::default();
    for (name, value) in identity {
        statements.add("INSERT INTO meta (name, value) VALUES (?, ?)");
        statements.bind(name)?;
        statements.bind(value)?;
    }
    if !records.is_empty() {
        let rows = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; records.len()].join(", ");
        statements.add(&format!("INSERT INTO record ({RECORD_COLUMNS}) VALUES {rows}"));
        records.into_iter().try_for_each(|record| bind(record, &mut statements))?;
    }
    Ok(statements)
}

/// Returns the fault for rows that the database did not take.
fn rejected(error: sqlx::Error) -> FillFault {
    let of_rows = error.as_database_error().is_some_and(|error| error.is_unique_violation());
    if of_rows { FillFault::SameName } else { FillFault::Failed(fault_of(error)) }
}
