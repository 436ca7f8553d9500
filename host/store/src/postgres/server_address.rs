//! The address of the server, the names of the tables, and new connections.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::time::timeout;

use crate::fault::StoreFault;
use crate::postgres_place::{PasswordSource, PostgresPlace, PostgresTlsMode};

use super::postgres_error::PostgresError;

/// Maximum time for a connection and its login.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum number of prepared statements per connection. The statements of a commit come in a few
/// dozen forms.
const CACHED_STATEMENTS: usize = 128;

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
    pub(super) writer: String,
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
        names.writer = names.name_of("writer");
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

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the options of every connection.
///
/// # Errors
/// [`StoreFault::Refused`] if the password or a certificate cannot be used.
pub(super) fn connect_options(place: &PostgresPlace) -> Result<PgConnectOptions, StoreFault> {
    let mut options = PgConnectOptions::new_without_pgpass()
        .username(&place.user)
        .database(&place.database)
        .application_name(&place.application_name)
        .ssl_mode(match place.tls.mode {
            PostgresTlsMode::Disable => PgSslMode::Disable,
            PostgresTlsMode::Prefer => PgSslMode::Prefer,
            PostgresTlsMode::Require => PgSslMode::Require,
            PostgresTlsMode::VerifyCa => PgSslMode::VerifyCa,
            PostgresTlsMode::VerifyFull => PgSslMode::VerifyFull,
        });
    if let Some(server) = place.servers.first() {
        options = match server.is_socket() {
            true => options.socket(&server.host).port(server.port),
            false => options.host(&server.host).port(server.port),
        };
    }
    if let PasswordSource::Fixed(password) = &place.password {
        options = options.password(password.expose());
    }
    Ok(options.statement_cache_capacity(CACHED_STATEMENTS).disable_statement_logging())
}

/// Returns the name of the place for messages: servers, database, schema and tables.
pub(crate) fn name_of(place: &PostgresPlace) -> PathBuf {
    PathBuf::from(place.to_string())
}

/// Opens a connection.
///
/// # Errors
/// The error of the driver, or the end of the time.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, PostgresError> {
    match timeout(CONNECT_TIME, options.connect()).await {
        Ok(connected) => Ok(connected?),
        Err(_) => {
            let seconds = CONNECT_TIME.as_secs();
            let text = format!("no connection within {seconds} s");
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_quoted_in_table_names() {
        let place = PostgresPlace::from_url("postgresql://u@h/d").unwrap();
        let place = PostgresPlace { schema: "a\"; DROP TABLE b".into(), ..place };
        let names = TableNames::of(&place);
        assert_eq!(names.record, "\"a\"\"; DROP TABLE b\".\"bulkhead_record\"");
    }
}
