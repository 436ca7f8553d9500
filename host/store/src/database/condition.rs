//! The ability of an open database to write, as its writes show.

use tokio::sync::watch;

use super::Database;
use bulkhead_place::write_condition::WriteCondition;
use bulkhead_record::fault::StoreFault;

impl Database {
    /// Returns the error after which nothing more is written until the database is opened again:
    /// whether flushed data are on the disk is unknown.
    pub(crate) fn stopped(&self) -> Option<&str> {
        match self {
            Self::Sqlite(database) => database.stopped(),
            Self::Postgres(database) => database.stopped(),
        }
    }

    /// Returns a sentence for each setting of the database that can lose an acknowledged commit.
    pub(crate) fn durability_doubts(&self) -> &[String] {
        match self {
            Self::Sqlite(_) => &[],
            Self::Postgres(database) => database.durability_doubts(),
        }
    }

    /// Returns the ability to write, as the last write showed.
    pub(crate) fn write_condition(&self) -> WriteCondition {
        match self {
            Self::Sqlite(database) => database.write_condition(),
            Self::Postgres(database) => database.write_condition(),
        }
    }

    /// Returns the cause of [`WriteCondition::Refused`]; `None` in another condition.
    pub(crate) fn write_refusal(&self) -> Option<StoreFault> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => database.write_refusal(),
        }
    }

    /// Returns a receiver of the changes of [`Database::write_condition`].
    pub(crate) fn write_changes(&self) -> watch::Receiver<WriteCondition> {
        match self {
            Self::Sqlite(database) => database.write_changes(),
            Self::Postgres(database) => database.write_changes(),
        }
    }
}
