//! The location and flushing mode of a store, and its node.

use std::path::PathBuf;

use crate::claim_watch::NodeSharing;
use crate::node_description::NodeDescription;
use crate::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;

/// The moment at which a commit is flushed to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Before the commit is acknowledged.
    #[default]
    EveryCommit,
    /// At the discretion of the operating system. For benchmarks only, to measure the disk's share
    /// of the time: a power cut loses acknowledged writes and can damage the database.
    Never,
}

/// The settings with which a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The data directory. Created with mode 0700 if missing; held by a single process at a time.
    pub directory: PathBuf,
    /// The point at which commits are flushed to disk.
    pub flushing: FlushPolicy,
    /// The database with the records.
    pub database: DatabaseChoice,
    /// The other nodes on the database.
    pub sharing: NodeSharing,
    /// The node in the lists of other nodes.
    pub node: NodeDescription,
}

/// The database of a store.
#[derive(Clone, Debug, Default)]
pub enum DatabaseChoice {
    /// SQLite, in a file of the data directory.
    #[default]
    SqliteFile,
    /// PostgreSQL. The data directory holds no records, and its lock is of this machine alone.
    Postgres(Box<PostgresPlace>),
}

impl DatabaseChoice {
    /// Returns the PostgreSQL database at a connection URL; SQLite without a URL.
    ///
    /// # Errors
    /// As [`PostgresPlace::from_url`].
    pub fn of_url(url: Option<&str>) -> Result<DatabaseChoice, StoreFault> {
        let place = url.map(PostgresPlace::from_url).transpose()?;
        Ok(place.map_or(Self::SqliteFile, |place| Self::Postgres(Box::new(place))))
    }

    /// Returns the name of the database, as `storage` of a configuration has it.
    pub fn kind(&self) -> &'static str {
        match self {
            DatabaseChoice::SqliteFile => "sqlite",
            DatabaseChoice::Postgres(_) => "postgresql",
        }
    }
}

impl StoreOptions {
    /// Returns the options of a store in `directory`, with every commit flushed, of a node that
    /// works alone.
    pub fn at(directory: impl Into<PathBuf>) -> StoreOptions {
        StoreOptions {
            directory: directory.into(),
            flushing: FlushPolicy::EveryCommit,
            database: DatabaseChoice::SqliteFile,
            sharing: NodeSharing::Alone,
            node: NodeDescription::default(),
        }
    }

    /// Returns whether other nodes share the database.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.sharing == NodeSharing::Shared
    }
}
