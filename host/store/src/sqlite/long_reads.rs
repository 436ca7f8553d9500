//! Reads of a whole database on a connection of their own: for snapshots and for checks.

use std::path::Path;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};

use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaRows;
use bulkhead_record::raw_record::{RawRecord, RawRecordResult};

use super::connection_options::reading;
use super::connections::SqliteDatabase;
use super::meta_table;
use super::readers::discard;
use super::script::StatementBatch;
use super::transaction_error::fault_of;

/// Columns of the table of records in a copy. The other tables are derived from these columns.
pub(super) const RECORD_COLUMNS: &str =
    "space, key, stamp, due, lane, owner, created, modified, sealed";

/// A connection for a long read.
pub(crate) struct SqliteReader(SqliteConnection);

impl SqliteDatabase {
    /// As [`Database::begin_snapshot`](crate::database::Database::begin_snapshot).
    pub(crate) async fn begin_snapshot(&self) -> Result<SqliteReader, StoreFault> {
        let mut connection = self.connect_reader().await.map_err(fault_of)?;
        if let Err(error) = sqlx::query("BEGIN DEFERRED").execute(&mut connection).await {
            discard(connection).await;
            return Err(fault_of(error));
        }
        Ok(SqliteReader(connection))
    }
}

impl SqliteReader {
    /// Opens the database file `path` read-only.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if SQLite cannot open the file.
    pub(crate) async fn open(path: &Path) -> Result<SqliteReader, StoreFault> {
        Ok(SqliteReader(reading(path).connect().await.map_err(fault_of)?))
    }

    /// As [`DatabaseReader::identity_rows`](crate::database::DatabaseReader::identity_rows).
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        meta_table::rows(&mut self.0).await.map_err(fault_of)
    }

    /// As [`DatabaseReader::count_records`](crate::database::DatabaseReader::count_records).
    pub(crate) async fn count_records(&mut self) -> Result<u64, StoreFault> {
        let count = sqlx::query_scalar("SELECT count(*) FROM record");
        let counted: i64 = count.fetch_one(&mut self.0).await.map_err(fault_of)?;
        Ok(u64::try_from(counted).unwrap_or_default())
    }

    /// As [`DatabaseReader::find_damage`](crate::database::DatabaseReader::find_damage).
    pub(crate) async fn find_damage(&mut self) -> Result<Vec<String>, StoreFault> {
        let check = sqlx::query_scalar("PRAGMA integrity_check(100)");
        let found: Vec<String> = check.fetch_all(&mut self.0).await.map_err(fault_of)?;
        Ok(found.into_iter().filter(|fault| fault != "ok").collect())
    }

    /// As [`DatabaseReader::records`](crate::database::DatabaseReader::records).
    pub(crate) fn records(&mut self) -> BoxStream<'_, Result<RawRecordResult, StoreFault>> {
        let text = format!("SELECT {RECORD_COLUMNS} FROM record ORDER BY rowid");
        let rows = sqlx::query(AssertSqlSafe(text)).fetch(&mut self.0);
        Box::pin(rows.map(|row| Ok(parse(&row.map_err(fault_of)?).map_err(fault_of))))
    }

    /// As [`DatabaseReader::close`](crate::database::DatabaseReader::close).
    pub(crate) async fn close(self) {
        discard(self.0).await;
    }
}

/// Reads the columns of [`RECORD_COLUMNS`].
///
/// # Errors
/// The error of SQLite, for a column of another type.
fn parse(row: &SqliteRow) -> Result<RawRecord, sqlx::Error> {
    Ok(RawRecord {
        space: row.try_get("space")?,
        key: row.try_get("key")?,
        stamp: row.try_get("stamp")?,
        due: row.try_get("due")?,
        lane: row.try_get("lane")?,
        owner: row.try_get("owner")?,
        created: row.try_get("created")?,
        modified: row.try_get("modified")?,
        sealed: row.try_get("sealed")?,
    })
}

/// Binds the columns of [`RECORD_COLUMNS`], in their order.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn bind(record: RawRecord, batch: &mut StatementBatch) -> Result<(), sqlx::Error> {
    batch.bind(record.space)?;
    batch.bind(record.key)?;
    batch.bind(record.stamp)?;
    batch.bind(record.due)?;
    batch.bind(record.lane)?;
    batch.bind(record.owner)?;
    batch.bind(record.created)?;
    batch.bind(record.modified)?;
    batch.bind(record.sealed)
}
