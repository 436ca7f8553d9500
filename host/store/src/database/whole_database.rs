//! Work with all rows of a database: the reading of one state for a snapshot or a check, and the
//! filling of a new database by a restore.

use std::path::Path;

use futures_util::stream::BoxStream;

use crate::postgres::{PostgresFiller, PostgresReader};
use crate::sqlite::{SqliteFiller, SqliteReader};
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};
use bulkhead_record::raw_record::{FillFault, RawRecord, RawRecordResult};

/// A long read on a connection of its own. All answers are of one state.
pub(crate) enum DatabaseReader {
    Sqlite(SqliteReader),
    Postgres(PostgresReader),
}

impl DatabaseReader {
    /// Opens a file that no process writes.
    pub(super) async fn open_file(file: &Path) -> Result<DatabaseReader, StoreFault> {
        SqliteReader::open(file).await.map(DatabaseReader::Sqlite)
    }

    /// Returns all rows of the identity.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        match self {
            Self::Sqlite(reader) => reader.identity_rows().await,
            Self::Postgres(reader) => reader.identity_rows().await,
        }
    }

    /// Returns the number of records of all kinds.
    ///
    /// # Errors
    /// As [`DatabaseReader::identity_rows`].
    pub(crate) async fn count_records(&mut self) -> Result<u64, StoreFault> {
        match self {
            Self::Sqlite(reader) => reader.count_records().await,
            Self::Postgres(reader) => reader.count_records().await,
        }
    }

    /// Lets the database check its own structures. Returns a description of each damage.
    ///
    /// # Errors
    /// As [`DatabaseReader::identity_rows`].
    pub(crate) async fn find_damage(&mut self) -> Result<Vec<String>, StoreFault> {
        match self {
            Self::Sqlite(reader) => reader.find_damage().await,
            Self::Postgres(_) => Ok(PostgresReader::find_damage()),
        }
    }

    /// Returns all records, in the order of their first write. An error ends the reading.
    pub(crate) fn records(&mut self) -> BoxStream<'_, Result<RawRecordResult, StoreFault>> {
        match self {
            Self::Sqlite(reader) => reader.records(),
            Self::Postgres(reader) => reader.records(),
        }
    }

    /// Ends the read.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(reader) => reader.close().await,
            Self::Postgres(reader) => reader.close().await,
        }
    }
}

/// A new database that nothing else has open, filled in one transaction.
pub(crate) enum DatabaseFiller {
    Sqlite(SqliteFiller),
    Postgres(PostgresFiller),
}

impl DatabaseFiller {
    /// Opens an empty file. Nothing is flushed, and after an error the file is of no use.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the file cannot be opened.
    pub(crate) async fn open_file(file: &Path) -> Result<DatabaseFiller, StoreFault> {
        SqliteFiller::open(file).await.map(DatabaseFiller::Sqlite)
    }

    /// Connects for the filling of new tables beside the tables in use
    /// ([`exchange_tables`](super::exchange_tables)).
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the server cannot be reached.
    pub(crate) async fn open_beside(place: &PostgresPlace) -> Result<DatabaseFiller, StoreFault> {
        PostgresFiller::open(place).await.map(DatabaseFiller::Postgres)
    }

    /// Begins the transaction, and creates the tables as the first `schema` versions of the schema
    /// make them. The rows of the identity come from the snapshot, with the number of the version.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be written.
    pub(crate) async fn begin(&mut self, schema: usize) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(filler) => filler.begin(schema).await,
            Self::Postgres(filler) => filler.begin().await,
        }
    }

    /// Inserts rows of the identity and records, in their order.
    ///
    /// # Errors
    /// [`FillFault`].
    pub(crate) async fn insert(
        &mut self,
        identity: Vec<(String, Vec<u8>)>,
        records: Vec<RawRecord>,
    ) -> Result<(), FillFault> {
        match self {
            Self::Sqlite(filler) => filler.insert(identity, records).await,
            Self::Postgres(filler) => filler.insert(identity, records).await,
        }
    }

    /// Returns the rows of the identity that were inserted.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        match self {
            Self::Sqlite(filler) => filler.identity_rows().await,
            Self::Postgres(filler) => filler.identity_rows().await,
        }
    }

    /// Makes the changes to the identity, and commits. The caller flushes the closed file.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be written.
    pub(crate) async fn commit(&mut self, changes: Vec<MetaChange>) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(filler) => filler.commit(changes).await,
            Self::Postgres(filler) => filler.commit(changes).await,
        }
    }

    /// Closes the file, complete or not.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the last pages cannot be written.
    pub(crate) async fn close(self) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(filler) => filler.close().await,
            Self::Postgres(filler) => {
                filler.close().await;
                Ok(())
            }
        }
    }
}
