//! The database of the records, before and after the sources outside of the file are read.
//!
//! This file prevents a password in a report of the configuration: a report has the servers, the
//! database and the tables, or the place of the connection URL.

use super::connection_source::{ConnectionSource, pass_file};
use super::place_values::PlaceValues;
use crate::config::seal::SealEnvironment;
use bulkhead_store::{
    DatabaseChoice, PasswordSource, PostgresPlace, PostgresServer, PostgresTlsMode,
};
use std::fmt;

/// The database of the records.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseSettings {
    /// The database is known, perhaps without the password file of the environment.
    Known(DatabaseChoice),
    /// PostgreSQL by the block of a configuration file.
    Block(Box<PostgresSettings>),
}

/// PostgreSQL by the block of a configuration file.
#[derive(Clone, Debug)]
pub(crate) struct PostgresSettings {
    pub(super) source: ConnectionSource,
    pub(super) values: PlaceValues,
    pub(super) retries: ConnectRetries,
}

/// Maximum number of further attempts of a start to reach the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConnectRetries {
    /// The start fails if the database cannot be reached.
    #[default]
    Never,
    /// This number of further attempts.
    Some(u64),
    /// Attempts until the database is reached.
    Always,
}

impl ConnectRetries {
    /// Returns the meaning of `max_connect_retries`; 0 is without end, as in published servers.
    pub(super) fn of_setting(count: Option<u64>) -> Self {
        match count {
            None => Self::Never,
            Some(0) => Self::Always,
            Some(count) => Self::Some(count),
        }
    }

    /// Returns whether an attempt follows after `failed` failed attempts.
    pub(crate) fn allow_after(self, failed: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Some(count) => failed <= count,
            Self::Always => true,
        }
    }
}

impl DatabaseSettings {
    /// Returns the name of the database, as clients of this API read it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Known(choice) => choice.kind(),
            Self::Block(_) => "postgresql",
        }
    }

    /// Returns true if the records are in a file of the data directory.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::Known(DatabaseChoice::SqliteFile))
    }

    /// Returns the number of attempts to reach the database.
    pub(crate) fn connect_retries(&self) -> ConnectRetries {
        match self {
            Self::Known(_) => ConnectRetries::Never,
            Self::Block(settings) => settings.retries,
        }
    }

    /// Returns true if the configuration file has the password itself.
    pub(crate) fn has_written_password(&self) -> bool {
        let Self::Block(settings) = self else { return false };
        let ConnectionSource::Written(url) = &settings.source else { return false };
        let place = settings.values.place_at(url.expose());
        place.is_ok_and(|place| matches!(place.password, PasswordSource::Fixed(_)))
    }

    /// Reads the connection URL, unless it is known, and the environment's name of a password file.
    ///
    /// # Errors
    /// The unusable URL, variable or file, and the remedy.
    pub(crate) fn load(&self, environment: SealEnvironment<'_>) -> Result<DatabaseChoice, String> {
        let mut place = match self {
            Self::Known(DatabaseChoice::SqliteFile) => return Ok(DatabaseChoice::SqliteFile),
            Self::Known(DatabaseChoice::Postgres(place)) => place.clone(),
            Self::Block(settings) => {
                let url = settings.source.load(environment)?;
                let place = settings.values.place_at(url.expose());
                Box::new(place.map_err(|why| format!("{}: {why}", settings.source))?)
            }
        };
        if matches!(place.password, PasswordSource::Missing)
            && let Some(file) = pass_file(environment)
        {
            place.password = PasswordSource::PassFile(file);
        }
        Ok(DatabaseChoice::Postgres(place))
    }
}

impl PostgresSettings {
    /// Checks the URL if the configuration file has it.
    ///
    /// # Errors
    /// The unusable part of the URL, or the setting that is given twice.
    pub(super) fn check_written(&self) -> Result<(), String> {
        match &self.source {
            ConnectionSource::Written(url) => self.values.place_at(url.expose()).map(drop),
            ConnectionSource::Place(_) | ConnectionSource::Variables => Ok(()),
        }
    }
}

impl fmt::Display for DatabaseSettings {
    /// Writes the database for a report: never a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(DatabaseChoice::SqliteFile) => f.write_str("SQLite"),
            Self::Known(DatabaseChoice::Postgres(place)) => place.fmt(f),
            Self::Block(settings) => {
                if let ConnectionSource::Written(url) = &settings.source
                    && let Ok(place) = settings.values.place_at(url.expose())
                {
                    return place.fmt(f);
                }
                write!(f, "PostgreSQL at the URL of {}", settings.source)
            }
        }
    }
}

/// Returns the other machine, and its mode of TLS, if the connections there do not prove that the
/// machine is the database server.
pub(crate) fn unverified_server(place: &PostgresPlace) -> Option<(&PostgresServer, &'static str)> {
    let mode = match place.tls.mode {
        PostgresTlsMode::VerifyCa | PostgresTlsMode::VerifyFull => return None,
        PostgresTlsMode::Require if place.tls.root_certificates.is_some() => return None,
        PostgresTlsMode::Disable => "disable",
        PostgresTlsMode::Prefer => "prefer",
        PostgresTlsMode::Require => "require",
    };
    place.servers.iter().find(|server| !server.is_local()).map(|server| (server, mode))
}
