//! The schema, and the table `meta` with the store's identity.

use std::path::Path;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use bulkhead_place::directory;
use bulkhead_place::write_failure::TransactionOutcome;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows, has_changes};
use bulkhead_record::rows::SealedRow;

use super::connection_options::{finish_rollback, reading};
use super::connections::{SqliteDatabase, TransactionEnd};
use super::row_queries;
use super::script::{BatchRows, StatementBatch};
use super::transaction_error::{fault_of, is_no_database};

/// The schema scripts, in order. A script may only add what an earlier release of the same format
/// tolerates.
const SCHEMAS: [&str; 5] = [
    include_str!("../../schema/0001.sql"),
    include_str!("../../schema/0002.sql"),
    include_str!("../../schema/0003.sql"),
    include_str!("../../schema/0004.sql"),
    include_str!("../../schema/0005.sql"),
];
/// Number of schema scripts of this version.
pub(crate) const SCHEMA_COUNT: usize = SCHEMAS.len();
/// The tables that the schema creates. A file without these tables belongs to another program.
const TABLES: [&str; 2] = ["meta", "record"];
/// Name of the row with the number of applied schema scripts; absent if only the first was applied.
const SCHEMA_ROW: &str = "schema";

/// Statement that writes a row, replacing an existing row.
const WRITE_ROW: &str = "INSERT INTO meta (name, value) VALUES (?, ?) \
     ON CONFLICT DO UPDATE SET value = excluded.value";
const DELETE_ROW: &str = "DELETE FROM meta WHERE name = ?";
const ALL_ROWS: &str = "SELECT name, value FROM meta ORDER BY name";

impl SqliteDatabase {
    /// As [`Database::migrate`](crate::database::Database::migrate).
    pub(crate) async fn migrate(&self) -> Result<(), StoreFault> {
        let rows = self.identity_rows().await?;
        let applied = rows.get(SCHEMA_ROW).and_then(|text| std::str::from_utf8(text).ok());
        let applied = applied.and_then(|text| text.parse().ok()).unwrap_or(1);
        if applied >= SCHEMA_COUNT {
            return Ok(());
        }
        let apply = async |connection: &mut SqliteConnection| {
            apply_schemas(connection, applied).await?;
            Ok(TransactionOutcome::Committed)
        };
        self.write(apply).await
    }

    /// As [`Database::initialise`](crate::database::Database::initialise).
    pub(crate) async fn initialise(
        &self,
        identity: Vec<MetaChange>,
        records: &[SealedRow],
    ) -> Result<(), StoreFault> {
        let write = async |connection: &mut SqliteConnection| {
            apply_schemas(connection, 0).await?;
            change_now(connection, identity).await?;
            for row in records {
                row_queries::insert(connection, row).await?;
            }
            Ok(TransactionOutcome::Committed)
        };
        self.write(write).await
    }

    /// As [`Database::identity_rows`](crate::database::Database::identity_rows).
    pub(crate) async fn identity_rows(&self) -> Result<MetaRows, StoreFault> {
        let read = async |connection: &mut SqliteConnection| rows(connection).await;
        self.readers.read(read).await.map_err(fault_of)
    }

    /// As [`Database::replace_identity`](crate::database::Database::replace_identity).
    pub(crate) async fn replace_identity(
        &self,
        replaced: &[MetaChange],
        changes: Vec<MetaChange>,
    ) -> Result<TransactionOutcome, StoreFault> {
        let (mut questions, mut writes) = (StatementBatch::default(), StatementBatch::default());
        questions.add(ALL_ROWS);
        change(&mut writes, changes).map_err(fault_of)?;
        // The changes are the writes of the transaction, so that its flush is timed with them.
        let plan = |answers: BatchRows| {
            let rows = parse(answers.first().map(Vec::as_slice).unwrap_or_default())?;
            Ok(match has_changes(&rows, replaced) {
                true => TransactionEnd::Commit(writes),
                false => TransactionEnd::GiveUp,
            })
        };
        Ok(self.transact(questions, plan).await?)
    }
}

/// As [`DatabasePlace::read_identity`](crate::database::DatabasePlace::read_identity), for the
/// database in `directory`.
pub(crate) async fn read_meta(directory: &Path) -> Result<Option<MetaRows>, StoreFault> {
    if !directory::holds_database(directory)? {
        return Ok(None);
    }
    let path = directory::database(directory);
    finish_rollback(&path).await.map_err(|error| unreadable(error, &path))?;
    let mut connection =
        reading(&path).connect().await.map_err(|error| unreadable(error, &path))?;
    let outcome = rows_of_own(&mut connection, &path).await;
    connection.close().await.map_err(fault_of)?;
    outcome
}

/// As [`DatabasePlace::examine`](crate::database::DatabasePlace::examine), for the database in
/// `directory`.
pub(crate) async fn examine_meta(directory: &Path) -> Result<Option<MetaRows>, StoreFault> {
    let path = directory::database(directory);
    if !directory::holds_database(directory)? || directory::has_unfinished_writes(directory) {
        return Ok(None);
    }
    let mut connection =
        reading(&path).immutable(true).connect().await.map_err(|error| unreadable(error, &path))?;
    let outcome = rows_of_own(&mut connection, &path).await;
    connection.close().await.map_err(fault_of)?;
    outcome
}

/// Returns all rows of `meta`; `None` if there are no tables.
async fn rows_of_own(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<Option<MetaRows>, StoreFault> {
    let names: Result<Vec<String>, sqlx::Error> =
        sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .fetch_all(&mut *connection)
            .await;
    let names = names.map_err(|error| unreadable(error, path))?;
    if names.is_empty() {
        return Ok(None);
    }
    if !TABLES.iter().all(|table| names.iter().any(|name| name == table)) {
        return Err(directory::unusable(path, "is a database of some other program"));
    }
    Ok(Some(rows(connection).await.map_err(fault_of)?))
}

fn unreadable(error: sqlx::Error, path: &Path) -> StoreFault {
    if is_no_database(&error) {
        directory::unusable(path, "is not a database")
    } else {
        fault_of(error)
    }
}

/// Reads the rows of an answer to [`ALL_ROWS`].
fn parse(rows: &[SqliteRow]) -> Result<MetaRows, sqlx::Error> {
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("value")?))).collect()
}

/// Returns all rows of `meta`.
///
/// # Errors
/// The error of SQLite.
pub(super) async fn rows(connection: &mut SqliteConnection) -> Result<MetaRows, sqlx::Error> {
    let all: Vec<(String, Vec<u8>)> = sqlx::query_as(ALL_ROWS).fetch_all(connection).await?;
    Ok(all.into_iter().collect())
}

/// Adds the statements for `changes` to a script.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn change(
    script: &mut StatementBatch,
    changes: Vec<MetaChange>,
) -> Result<(), sqlx::Error> {
    for (name, value) in changes {
        script.add(if value.is_some() { WRITE_ROW } else { DELETE_ROW });
        script.bind(name)?;
        value.map_or(Ok(()), |value| script.bind(value))?;
    }
    Ok(())
}

/// Makes the changes in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite.
pub(super) async fn change_now(
    connection: &mut SqliteConnection,
    changes: Vec<MetaChange>,
) -> Result<(), sqlx::Error> {
    let mut script = StatementBatch::default();
    change(&mut script, changes)?;
    script.run(connection).await.map(drop).map_err(sqlx::Error::from)
}

/// Applies the schema scripts after the first `applied`, in the transaction open on `connection`.
async fn apply_schemas(
    connection: &mut SqliteConnection,
    applied: usize,
) -> Result<(), sqlx::Error> {
    for schema in SCHEMAS.iter().skip(applied) {
        sqlx::raw_sql(*schema).execute(&mut *connection).await?;
    }
    let count = SCHEMA_COUNT.to_string().into_bytes();
    change_now(connection, vec![(SCHEMA_ROW, Some(count))]).await
}

/// Creates the tables as the first `count` schema scripts make them, in the transaction open on
/// `connection`. Writes no row of `meta`.
///
/// # Errors
/// The error of SQLite, including tables that exist already.
pub(super) async fn create_tables(
    connection: &mut SqliteConnection,
    count: usize,
) -> Result<(), sqlx::Error> {
    for schema in SCHEMAS.iter().take(count) {
        sqlx::raw_sql(*schema).execute(&mut *connection).await?;
    }
    Ok(())
}
