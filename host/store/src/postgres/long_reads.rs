//! Reads of a whole database on a connection of their own: for snapshots and for checks.

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaRows;
use bulkhead_record::raw_record::{RawRecord, RawRecordResult};

use super::connections::PostgresDatabase;
use super::group_writes::COLUMNS;
use super::meta_table;
use super::postgres_error::PostgresError;
use super::readers::discard;
use super::server_address::TableNames;
use super::server_connector::connect;
use super::statement_draft::{StatementDraft, run_script};
use super::stored_text::decode;

/// A connection for a long read, in a transaction that sees one state.
pub(crate) struct PostgresReader {
    connection: PgConnection,
    tables: TableNames,
}

impl PostgresDatabase {
    /// As [`Database::begin_snapshot`](crate::database::Database::begin_snapshot).
    pub(crate) async fn begin_snapshot(&self) -> Result<PostgresReader, StoreFault> {
        let begun = match self.connect().await {
            Ok(connection) => PostgresReader::begin(connection, self.tables.clone()).await,
            Err(error) => Err(error),
        };
        Ok(begun.map_err(|error| self.readers.note(error))?)
    }
}

impl PostgresReader {
    /// Opens a database that is not open.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the server cannot be reached.
    pub(crate) async fn open(place: &PostgresPlace) -> Result<PostgresReader, StoreFault> {
        let connection = connect(place).await?;
        Ok(PostgresReader::begin(connection, TableNames::of(place)).await?)
    }

    /// Begins the transaction. The state is chosen by the first query, not by the begin.
    async fn begin(
        mut connection: PgConnection,
        tables: TableNames,
    ) -> Result<PostgresReader, PostgresError> {
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM {}",
            tables.meta
        );
        run_script(&mut connection, &begin).await?;
        Ok(PostgresReader { connection, tables })
    }

    /// As [`DatabaseReader::identity_rows`](crate::database::DatabaseReader::identity_rows).
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        Ok(meta_table::rows(&mut self.connection, &self.tables).await?)
    }

    /// As [`DatabaseReader::count_records`](crate::database::DatabaseReader::count_records).
    pub(crate) async fn count_records(&mut self) -> Result<u64, StoreFault> {
        let query = StatementDraft::of(format!("SELECT count(*) FROM {}", self.tables.record));
        let rows = query.fetch(&mut self.connection).await?;
        let counted = rows.first().map(|row| row.try_get::<i64, _>(0)).transpose();
        let counted = counted.map_err(PostgresError::from)?.unwrap_or_default();
        Ok(u64::try_from(counted).unwrap_or_default())
    }

    /// Returns no damage: the server checks its own files.
    pub(crate) fn find_damage() -> Vec<String> {
        Vec::new()
    }

    /// As [`DatabaseReader::records`](crate::database::DatabaseReader::records).
    pub(crate) fn records(&mut self) -> BoxStream<'_, Result<RawRecordResult, StoreFault>> {
        let text = format!("SELECT {COLUMNS} FROM {} ORDER BY number", self.tables.record);
        let rows = sqlx::query(AssertSqlSafe(text)).fetch(&mut self.connection);
        Box::pin(rows.map(|row| {
            let row = row.map_err(PostgresError::from)?;
            Ok(parse(&row).map_err(|error| PostgresError::from(error).into()))
        }))
    }

    /// As [`DatabaseReader::close`](crate::database::DatabaseReader::close).
    pub(crate) async fn close(self) {
        discard(self.connection).await;
    }
}

/// Reads the columns of [`COLUMNS`].
///
/// # Errors
/// The error of the driver, for a column of another type.
fn parse(row: &PgRow) -> Result<RawRecord, sqlx::Error> {
    Ok(RawRecord {
        space: i64::from(row.try_get::<i16, _>("space")?),
        key: decode(row.try_get("key")?),
        stamp: row.try_get("stamp")?,
        due: row.try_get("due")?,
        lane: decode(row.try_get("lane")?),
        owner: decode(row.try_get("owner")?),
        created: row.try_get("created")?,
        modified: row.try_get("modified")?,
        sealed: row.try_get("sealed")?,
    })
}
