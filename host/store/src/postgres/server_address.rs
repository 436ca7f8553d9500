//! The names of the tables, and the name of the place.

use std::path::PathBuf;

use bulkhead_place::postgres_place::PostgresPlace;

/// The tables that the schema creates. A schema with only some of them belongs to another program.
pub(super) const TABLES: [&str; 6] = ["change", "meta", "node", "progress", "record", "stored"];

/// The names of the tables, with their schema and in quotation marks.
#[derive(Clone, Default)]
pub(super) struct TableNames {
    /// The schema alone, without quotation marks.
    pub(super) schema: String,
    /// Beginning of the names of tables and indexes.
    prefix: String,
    pub(super) record: String,
    pub(super) meta: String,
    pub(super) stored: String,
    pub(super) node: String,
    pub(super) progress: String,
    pub(super) change: String,
}

impl TableNames {
    /// Returns the names of the tables in use.
    pub(super) fn of(place: &PostgresPlace) -> TableNames {
        TableNames::with_prefix(place, beginning(place))
    }

    /// Beginning of the names of copies, behind the beginning of all names.
    pub(super) const COPY: &'static str = "copy_";

    /// Returns the names of the tables of a copy.
    pub(super) fn copy(place: &PostgresPlace, number: u32) -> TableNames {
        TableNames::with_prefix(place, format!("{}{}{number}_", beginning(place), Self::COPY))
    }

    /// Returns the names of the tables that other tables replaced.
    pub(super) fn replaced(place: &PostgresPlace) -> TableNames {
        TableNames::with_prefix(place, format!("{}replaced_", beginning(place)))
    }

    /// Returns the names of the tables that a restore fills.
    pub(super) fn restored(place: &PostgresPlace) -> TableNames {
        TableNames::with_prefix(place, format!("{}restored_", beginning(place)))
    }

    /// Returns the name of a table or an index, with the schema.
    pub(super) fn name_of(&self, table: &str) -> String {
        format!("{}.{}", quoted(&self.schema), self.local_name_of(table))
    }

    /// Returns the name of a table or an index without the schema.
    pub(super) fn local_name_of(&self, table: &str) -> String {
        quoted(&self.plain_name_of(table))
    }

    /// Returns the name of a table as the catalog of the database has the name.
    pub(super) fn plain_name_of(&self, table: &str) -> String {
        format!("{}{table}", self.prefix)
    }

    fn with_prefix(place: &PostgresPlace, prefix: String) -> TableNames {
        let mut names =
            TableNames { schema: place.schema.clone(), prefix, ..TableNames::default() };
        names.record = names.name_of("record");
        names.meta = names.name_of("meta");
        names.stored = names.name_of("stored");
        names.change = names.name_of("change");
        names.progress = names.name_of("progress");
        names.node = names.name_of("node");
        names
    }
}

/// Returns the beginning of the names of tables in use.
fn beginning(place: &PostgresPlace) -> String {
    match place.table.is_empty() {
        true => String::new(),
        false => format!("{}_", place.table),
    }
}

/// Returns a name in quotation marks.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the name of the place for messages: servers, database, schema and tables.
pub(crate) fn name_of(place: &PostgresPlace) -> PathBuf {
    PathBuf::from(place.to_string())
}

#[cfg(test)]
mod tests;
