//! The address of the server, the names of the tables, and new connections.

use std::io;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use crate::fault::StoreFault;
use crate::options::PostgresPlace;

use super::postgres_error::PostgresError;

/// Maximum time for a connection and its login.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum number of prepared statements per connection. The statements of a commit come in a few
/// dozen forms.
const CACHED_STATEMENTS: usize = 128;

/// The names of the tables, with their schema and in quotation marks.
#[derive(Clone)]
pub(super) struct TableNames {
    /// The schema alone, without quotation marks.
    pub(super) schema: String,
    /// Beginning of the names of tables and indexes.
    pub(super) prefix: &'static str,
    pub(super) record: String,
    pub(super) meta: String,
    pub(super) stored: String,
    pub(super) writer: String,
}

impl TableNames {
    /// Returns the names of the tables in use.
    pub(super) fn of(place: &PostgresPlace) -> TableNames {
        TableNames::with_prefix(place, "")
    }

    /// Returns the names of the tables that a restore fills.
    pub(super) fn restored(place: &PostgresPlace) -> TableNames {
        TableNames::with_prefix(place, "restored_")
    }

    /// Returns the name of a table or an index.
    pub(super) fn name_of(&self, table: &str) -> String {
        qualified(&self.schema, self.prefix, table)
    }

    fn with_prefix(place: &PostgresPlace, prefix: &'static str) -> TableNames {
        let schema = place.schema.clone();
        let name = |table| qualified(&schema, prefix, table);
        TableNames {
            prefix,
            record: name("record"),
            meta: name("meta"),
            stored: name("stored"),
            writer: name("writer"),
            schema,
        }
    }
}

fn qualified(schema: &str, prefix: &str, table: &str) -> String {
    format!("\"{}\".{prefix}{table}", schema.replace('"', "\"\""))
}

/// Returns the options of every connection.
///
/// # Errors
/// [`StoreFault::Refused`] if the connection URL cannot be read. The text does not repeat the URL,
/// which may hold a password.
pub(super) fn connect_options(place: &PostgresPlace) -> Result<PgConnectOptions, StoreFault> {
    let options = PgConnectOptions::from_str(&place.connection_url).map_err(|_| {
        StoreFault::Refused(
            "the connection URL of the database cannot be read; give \
             postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
                .into(),
        )
    })?;
    let options = match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("bulkhead"),
    };
    Ok(options.statement_cache_capacity(CACHED_STATEMENTS).disable_statement_logging())
}

/// Returns the name of the place for messages: host, port, database and schema.
pub(crate) fn name_of(place: &PostgresPlace) -> PathBuf {
    let schema = &place.schema;
    let name = match connect_options(place) {
        Ok(options) => {
            let (host, port) = (options.get_host(), options.get_port());
            let database = options.get_database().unwrap_or(options.get_username());
            format!("postgresql://{host}:{port}/{database} (schema {schema})")
        }
        Err(_) => format!("the database (schema {schema})"),
    };
    PathBuf::from(name)
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

    fn place(url: &str, schema: &str) -> PostgresPlace {
        PostgresPlace { connection_url: url.into(), schema: schema.into() }
    }

    #[test]
    fn names_and_messages_hide_the_password() {
        let place = place("postgresql://u:hunter2@db.example:6000/vault", "a");
        let name = name_of(&place).display().to_string();
        assert_eq!(name, "postgresql://db.example:6000/vault (schema a)");
        assert!(!format!("{place:?}").contains("hunter2"));
    }

    #[test]
    fn unreadable_url_is_refused_without_repetition() {
        let fault = connect_options(&place("nonsense hunter2", "a")).err().unwrap();
        assert!(!fault.to_string().contains("hunter2"), "{fault}");
    }

    #[test]
    fn schema_is_quoted_in_table_names() {
        let names = TableNames::of(&place("", "a\"; DROP TABLE b"));
        assert_eq!(names.record, "\"a\"\"; DROP TABLE b\".record");
    }
}
