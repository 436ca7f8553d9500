//! The schema before the first use: the tables that exist, and the rights of the user.
//!
//! This file prevents a failure half-way through the initialisation: missing rights are found
//! before anything is written, and the refusal has the statements that an administrator runs.

#[cfg(test)]
mod tests;

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;

use super::postgres_error::PostgresError;
use super::server_address::{TABLES, TableNames, quoted};
use super::statement_draft::StatementDraft;

/// The rights that the store needs for each table.
const RIGHTS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// The tables that exist, of the tables that the schema creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TablePresence {
    Missing,
    /// Some of the tables exist, and others do not.
    Partial,
    Complete,
}

impl TablePresence {
    /// Returns the query of the tables that exist. The catalog also lists tables for which the user
    /// has no rights.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) fn question(tables: &TableNames) -> Result<StatementDraft, PostgresError> {
        let text = "SELECT tablename::text FROM pg_catalog.pg_tables \
                    WHERE schemaname = $1 AND tablename = ANY($2)";
        let names = TABLES.map(|table| tables.plain_name_of(table));
        StatementDraft::of(text).with(tables.schema.as_str())?.with(names.to_vec())
    }

    /// Returns the presence by the number of rows of the answer.
    pub(super) fn of_count(found: usize) -> TablePresence {
        match found {
            0 => TablePresence::Missing,
            found if found < TABLES.len() => TablePresence::Partial,
            _ => TablePresence::Complete,
        }
    }
}

/// Checks that the schema exists and that the user may create the tables in the schema, by the
/// statements `creation`.
///
/// # Errors
/// [`StoreFault::Refused`] with the statements for an administrator;
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub(super) async fn check_creation(
    connection: &mut PgConnection,
    (tables, creation): (&TableNames, &str),
    place: &PostgresPlace,
) -> Result<(), StoreFault> {
    let text = "SELECT has_schema_privilege(nspname::text, 'CREATE') \
                AND has_schema_privilege(nspname::text, 'USAGE') \
                FROM pg_catalog.pg_namespace WHERE nspname = $1";
    let rows = StatementDraft::of(text).with(tables.schema.as_str())?.fetch(connection).await?;
    let (schema, user) = (quoted(&tables.schema), quoted(&place.user));
    let Some(row) = rows.first() else {
        return Err(StoreFault::Refused(format!(
            "there is no schema {:?} in database {:?}; let an administrator run CREATE SCHEMA \
             {schema} AUTHORIZATION {user}",
            tables.schema, place.database
        )));
    };
    if row.try_get::<bool, _>(0).map_err(PostgresError::from)? {
        return Ok(());
    }
    Err(StoreFault::Refused(format!(
        "user {:?} may not create tables in schema {:?}; let an administrator run GRANT CREATE, \
         USAGE ON SCHEMA {schema} TO {user}, or create the tables:\n{}\n{}",
        place.user,
        tables.schema,
        lines_of(creation),
        grants(tables, place)
    )))
}

/// Checks that the user may read and write the tables, which exist.
///
/// # Errors
/// As [`check_creation`].
pub(super) async fn check_tables(
    connection: &mut PgConnection,
    tables: &TableNames,
    place: &PostgresPlace,
) -> Result<(), StoreFault> {
    let text = "SELECT tested.name FROM unnest($1::text[]) AS tested (name), \
                unnest($2::text[]) AS needed (name) \
                WHERE NOT has_table_privilege(tested.name, needed.name)";
    let names = TABLES.map(|table| tables.name_of(table)).to_vec();
    let rights = RIGHTS.map(str::to_owned).to_vec();
    let query = StatementDraft::of(text).with(names)?.with(rights)?;
    match query.fetch(connection).await {
        Ok(lacking) if lacking.is_empty() => Ok(()),
        Err(error) if !error.is_lack_of_right() => Err(error.into()),
        _ => Err(StoreFault::Refused(format!(
            "the tables of schema {:?} exist, and user {:?} may not read and write them all; let \
             the owner of the tables run:\n{}",
            tables.schema,
            place.user,
            grants(tables, place)
        ))),
    }
}

/// Returns whether tables that exist were created by hand and never used: no identity, no records,
/// and the gate of the nodes.
///
/// # Errors
/// The error of the database.
pub(super) async fn are_unused(
    connection: &mut PgConnection,
    tables: &TableNames,
) -> Result<bool, PostgresError> {
    let text = format!(
        "SELECT 1 FROM {} WHERE name = 'store' AND NOT EXISTS (SELECT 1 FROM {}) \
         AND NOT EXISTS (SELECT 1 FROM {})",
        tables.node, tables.meta, tables.record
    );
    Ok(!StatementDraft::of(text).fetch(connection).await?.is_empty())
}

/// Returns the statements that give the user the rights of the store.
fn grants(tables: &TableNames, place: &PostgresPlace) -> String {
    let (schema, user) = (quoted(&tables.schema), quoted(&place.user));
    let names = TABLES.map(|table| tables.name_of(table)).join(", ");
    let rights = RIGHTS.join(", ");
    format!("GRANT USAGE ON SCHEMA {schema} TO {user};\nGRANT {rights} ON {names} TO {user};")
}

/// Returns the statements of a script, one in a line.
fn lines_of(script: &str) -> String {
    let words: Vec<&str> = script.split_whitespace().collect();
    words.join(" ").replace("; ", ";\n")
}
