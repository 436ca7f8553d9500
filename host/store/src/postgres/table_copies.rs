//! Numbered copies of the tables, and the exchange of the tables in use for other tables.
//!
//! This file prevents data that are half old and half new, at a process that dies at any moment: a
//! copy is made in one transaction, and another transaction renames all tables. The replaced tables
//! stay under other names, because their records may be the only trace of changes outside of the
//! store.

use sqlx::postgres::PgConnection;

use crate::fault::StoreFault;
use crate::postgres_place::PostgresPlace;

use super::group_writes::COLUMNS;
use super::meta_table::{self, INDEXES};
use super::postgres_error::PostgresError;
use super::readers::discard;
use super::server_address::{TABLES, TableNames};
use super::server_connector::connect;
use super::statement_draft::{StatementDraft, run_script};

/// Maximum time of a statement. A copy of many records takes longer than a commit.
const LIMIT: &str = "SET LOCAL statement_timeout = '600s'";

/// Copies the tables in use under a number, in one transaction. A copy with this number is
/// replaced.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed; then there is no copy.
pub(crate) async fn copy_tables(place: &PostgresPlace, number: u32) -> Result<(), StoreFault> {
    let (present, copy) = (TableNames::of(place), TableNames::copy(place, number));
    let mut script = format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; {LIMIT}; {}; {}; ",
        removal(&copy),
        meta_table::creation(&copy)
    );
    script.push_str(&format!("DELETE FROM {}; ", copy.writer));
    for (table, columns, order) in [
        ("meta", "name, value", "name"),
        ("record", COLUMNS, "number"),
        ("stored", "mount, bytes", "mount"),
        ("writer", "name, commits", "name"),
    ] {
        let (to, from) = (copy.name_of(table), present.name_of(table));
        script.push_str(&format!(
            "INSERT INTO {to} ({columns}) SELECT {columns} FROM {from} ORDER BY {order}; "
        ));
    }
    script.push_str("COMMIT");
    run_alone(place, &script).await.map_err(Into::into)
}

/// Exchanges the tables in use for a copy. Returns `false` if there is no such copy.
///
/// # Errors
/// As [`exchange_tables`].
pub(crate) async fn put_copy_back(place: &PostgresPlace, number: u32) -> Result<bool, StoreFault> {
    exchange(place, &TableNames::copy(place, number)).await
}

/// Drops a copy, if there is one.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed.
pub(crate) async fn drop_copy(place: &PostgresPlace, number: u32) -> Result<(), StoreFault> {
    Ok(run_alone(place, &removal(&TableNames::copy(place, number))).await?)
}

/// Returns whether there is a copy with any number.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub(crate) async fn has_copies(place: &PostgresPlace) -> Result<bool, StoreFault> {
    let beginning = TableNames::of(place).plain_name_of(TableNames::COPY);
    let text = "SELECT table_name::text FROM information_schema.tables \
                WHERE table_schema = $1 AND substring(table_name FROM 1 FOR length($2)) = $2";
    let query = StatementDraft::of(text).with(place.schema.as_str())?.with(beginning)?;
    let mut connection = connect(place).await?;
    let found = query.fetch(&mut connection).await;
    discard(connection).await;
    Ok(!found?.is_empty())
}

/// Exchanges the tables in use for the tables that a restore filled. The replaced tables stay under
/// other names. Returns `false` if there are no filled tables; then nothing was changed.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed; the next opening finds the old data or the
/// new data.
pub(crate) async fn exchange_tables(place: &PostgresPlace) -> Result<bool, StoreFault> {
    exchange(place, &TableNames::restored(place)).await
}

/// Returns the name of the tables that an exchange replaced, for messages.
pub(crate) fn replaced_tables(place: &PostgresPlace) -> String {
    TableNames::replaced(place).name_of("*")
}

async fn exchange(place: &PostgresPlace, filled: &TableNames) -> Result<bool, StoreFault> {
    let (present, replaced) = (TableNames::of(place), TableNames::replaced(place));
    let script = format!(
        "BEGIN; {LIMIT}; {}; {}{}COMMIT",
        removal(&replaced),
        renaming(&present, &replaced, "IF EXISTS "),
        renaming(filled, &present, "")
    );
    match run_alone(place, &script).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_unknown_table() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the statements that rename all tables and their indexes.
fn renaming(from: &TableNames, to: &TableNames, condition: &str) -> String {
    let one = |kind: &str, name: &str| {
        let (from, to) = (from.name_of(name), to.local_name_of(name));
        format!("ALTER {kind} {condition}{from} RENAME TO {to}; ")
    };
    let tables = TABLES.iter().map(|table| one("TABLE", table));
    tables.chain(INDEXES.iter().map(|index| one("INDEX", index))).collect()
}

/// Returns the statement that drops the tables that exist.
pub(super) fn removal(tables: &TableNames) -> String {
    let names = TABLES.map(|table| tables.name_of(table)).join(", ");
    format!("DROP TABLE IF EXISTS {names}")
}

async fn run_alone(place: &PostgresPlace, script: &str) -> Result<(), PostgresError> {
    let mut connection: PgConnection = connect(place).await?;
    let outcome = run_script(&mut connection, script).await;
    discard(connection).await;
    outcome
}
