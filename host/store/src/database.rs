//! The operations that a database offers to the store. Everything above this file exists once and
//! knows neither SQL nor a driver.
//!
//! This file prevents a second meaning of an operation: a database is a variant of [`Database`],
//! and serves exactly these operations, with these outcomes. `tests/tidy/sql.rs` refuses SQL and
//! the driver outside of the folder of a variant.
//!
//! Rules for every database:
//!
//! - **One table for all kinds of records**, with the columns of [`SealedRow`]; the primary key is
//!   the kind's number and the key. Texts are compared by their bytes. Numbers are signed, of 64
//!   bits; stamps and sealed bodies are bytes. A row also has a number that grows with the first
//!   write and never changes ([`Database::list_owned`]).
//! - **A table of the identity**: names and bytes ([`MetaRows`]). The row `schema` belongs to the
//!   database; every other row belongs to `crate::identity`.
//! - **Counters of stored bytes** are updated in the transaction that writes the rows, by the rule
//!   of `bulkhead_record::stored_limit`, also for writes that no question concerns.
//! - **Writes are serial.** Questions and writes of [`Database::commit_group`] are one serializable
//!   transaction: no other write falls between an answer and the commit, and a key that appears in
//!   a listed range counts as a change. No caller holds a transaction open while waiting for a
//!   network, a lock of the store or a client.
//! - **Reads see committed rows only**, and a read that begins after the acknowledgement of a
//!   commit sees the commit. Reads do not wait for a write, and a write does not wait for reads.
//! - **A single process works on a database**, or nodes that share the database and read each
//!   other's changes ([`Database::read_changes`]). SQLite has the lock of the directory. A database
//!   that several machines reach has claims, which each commit checks ([`Database::take_claim`]).
//! - **An outcome is never guessed.** A write that may have been stored is
//!   [`WriteFailure::Unknown`]. On SQLite the committer then compares stamps
//!   ([`Database::look_up_stamps`]), because a stamp is new at each write. PostgreSQL decides by
//!   the number of the commit before it answers, because another node may have replaced the
//!   records.
//! - **A dropped future leaves nothing half-way**: the transaction is rolled back, and the
//!   connection is not used again.
//! - **Errors contain no bound value**: keys may be names of tenants, bodies are sealed secrets.

mod claims;
mod condition;
mod reads;
#[cfg(test)]
mod tests;
mod whole_database;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bulkhead_wire::duration_histogram::HistogramReading;

use crate::activity::DatabaseSizes;
use crate::postgres::{self, PostgresDatabase, PostgresReader};
pub(crate) use crate::postgres::{
    check_unclaimed, copy_tables, drop_copy, exchange_tables, has_copies, put_copy_back,
    remove_abandoned_restore, remove_tables, replaced_tables,
};
use crate::server_report::DatabaseServerReport;
use crate::sqlite::{self, SqliteDatabase};
use bulkhead_place::directory;
use bulkhead_place::options::FlushPolicy;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_place::write_failure::{IdentityFailure, TransactionOutcome, WriteFailure};
use bulkhead_record::committed_state::{AddressState, CommittedState, GroupWrites, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};
use bulkhead_record::record::Address;
use bulkhead_record::rows::SealedRow;
pub(crate) use whole_database::{DatabaseFiller, DatabaseReader};

/// Number of schema versions that this program knows.
pub(crate) const SCHEMA_COUNT: usize = sqlite::SCHEMA_COUNT;

/// The place of a database that is not open.
#[derive(Clone, Copy)]
pub(crate) enum DatabasePlace<'a> {
    /// The SQLite database of this data directory.
    SqliteIn(&'a Path),
    /// The PostgreSQL database at this place.
    Postgres(&'a PostgresPlace),
}

impl DatabasePlace<'_> {
    /// Returns the name of the place for messages: the file, or the address of the server.
    pub(crate) fn name(self) -> PathBuf {
        match self {
            Self::SqliteIn(directory) => directory::database(directory),
            Self::Postgres(place) => postgres::name_of(place),
        }
    }

    /// Returns the identity without writing to the database; `None` if nothing was initialised:
    /// there is no database, or a database without tables, as after a crash before the first
    /// commit. A change that a dead process left half-way is rolled back.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if the database belongs to another program;
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn read_identity(self) -> Result<Option<MetaRows>, StoreFault> {
        match self {
            Self::SqliteIn(directory) => sqlite::read_meta(directory).await,
            Self::Postgres(place) => postgres::read_meta(place).await,
        }
    }

    /// Returns the identity like [`DatabasePlace::read_identity`], and creates and changes nothing.
    /// Returns `None` as well if an answer would need a change.
    ///
    /// # Errors
    /// As [`DatabasePlace::read_identity`].
    pub(crate) async fn examine(self) -> Result<Option<MetaRows>, StoreFault> {
        match self {
            Self::SqliteIn(directory) => sqlite::examine_meta(directory).await,
            Self::Postgres(place) => postgres::read_meta(place).await,
        }
    }

    /// Examines the server of the database; `None` without a server. Nothing is written.
    ///
    /// # Errors
    /// [`StoreFault`] if the server cannot be reached or does not answer.
    pub(crate) async fn examine_server(self) -> Result<Option<DatabaseServerReport>, StoreFault> {
        match self {
            Self::SqliteIn(_) => Ok(None),
            Self::Postgres(place) => postgres::examine_server(place).await.map(Some),
        }
    }

    /// Creates an empty database, if missing. The database of a server exists.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be created.
    pub(crate) fn create(self) -> Result<(), StoreFault> {
        match self {
            Self::SqliteIn(directory) => directory::ensure_database(directory),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Opens the database. The identity was read before, or the database is new.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be opened.
    pub(crate) async fn open(self, flushing: FlushPolicy) -> Result<Database, StoreFault> {
        match self {
            Self::SqliteIn(directory) => {
                let opened = SqliteDatabase::open(&directory::database(directory), flushing).await;
                opened.map(|database| Database::Sqlite(Box::new(database)))
            }
            Self::Postgres(place) => {
                let opened = PostgresDatabase::open(place, flushing).await;
                opened.map(|database| Database::Postgres(Box::new(database)))
            }
        }
    }

    /// Opens the database for a check of all rows. Nothing is written.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be opened.
    pub(crate) async fn open_for_check(self) -> Result<DatabaseReader, StoreFault> {
        match self {
            Self::SqliteIn(directory) => {
                DatabaseReader::open_file(&directory::database(directory)).await
            }
            Self::Postgres(place) => {
                PostgresReader::open(place).await.map(DatabaseReader::Postgres)
            }
        }
    }
}

/// An open database. All operations may run at the same time.
pub(crate) enum Database {
    Sqlite(Box<SqliteDatabase>),
    Postgres(Box<PostgresDatabase>),
}

/// The identity and the schema.
impl Database {
    /// Adds the parts of the schema that an earlier release did not have, in one transaction.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read or written.
    pub(crate) async fn migrate(&self) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(database) => database.migrate().await,
            Self::Postgres(database) => database.migrate().await,
        }
    }

    /// Creates the tables and writes the identity and the first records, in one transaction.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database failed, also if the tables exist already.
    pub(crate) async fn initialise(
        &self,
        identity: Vec<MetaChange>,
        records: &[SealedRow],
    ) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(database) => database.initialise(identity, records).await,
            Self::Postgres(database) => database.initialise(identity, records).await,
        }
    }

    /// Returns all rows of the identity, of one state.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn identity_rows(&self) -> Result<MetaRows, StoreFault> {
        match self {
            Self::Sqlite(database) => database.identity_rows().await,
            Self::Postgres(database) => database.identity_rows().await,
        }
    }

    /// Makes the changes in one transaction. If the answer of the commit is lost, waits for the
    /// decision of the database and looks the result up.
    ///
    /// # Errors
    /// [`IdentityFailure`].
    pub(crate) async fn change_identity(
        &self,
        changes: Vec<MetaChange>,
    ) -> Result<(), IdentityFailure> {
        self.replace_identity(&[], changes).await.map(drop)
    }

    /// Makes the changes like [`Database::change_identity`] if the rows are as in `replaced`: a row
    /// has the value, or is missing. Otherwise, because another process changed a row, the outcome
    /// is [`TransactionOutcome::Conflict`], and nothing is written.
    ///
    /// # Errors
    /// [`IdentityFailure`].
    pub(crate) async fn replace_identity(
        &self,
        replaced: &[MetaChange],
        changes: Vec<MetaChange>,
    ) -> Result<TransactionOutcome, IdentityFailure> {
        match self {
            Self::Sqlite(database) => {
                let replacing = database.replace_identity(replaced, changes).await;
                replacing.map_err(IdentityFailure::Undone)
            }
            Self::Postgres(database) => database.replace_identity(replaced, changes).await,
        }
    }
}

/// Commits.
impl Database {
    /// Answers the questions, of one state, without a lock that a write would wait for.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn read_state<'a>(
        &self,
        questions: StateQuestions<'a>,
    ) -> Result<CommittedState<'a>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.read_state(questions).await,
            Self::Postgres(database) => database.read_state(questions).await,
        }
    }

    /// Answers the questions, lets `plan` decide by the answers, and writes and commits what the
    /// plan returns, in one serializable transaction. `None` rolls back: no unit of the group may
    /// commit. On success the writes survive a power cut, unless [`FlushPolicy::Never`] was chosen.
    ///
    /// A group has at most a few thousand rows and a few mebibytes (`crate::committer`). The plan
    /// runs once and never waits. A database that has to repeat the transaction, because another
    /// process wrote meanwhile, returns [`WriteFailure::Interfered`]: the committer then plans
    /// anew, and after some attempts submits each unit alone.
    ///
    /// The failpoints `commit.begin`, `commit.planned` and `commit.flushed` are passed in this
    /// order, before the questions, before the writes and after the commit.
    ///
    /// # Errors
    /// [`WriteFailure`].
    pub(crate) async fn commit_group<'a, 'w>(
        &self,
        questions: StateQuestions<'a>,
        plan: impl FnOnce(CommittedState<'a>) -> Option<GroupWrites<'w>>,
    ) -> Result<TransactionOutcome, WriteFailure> {
        match self {
            Self::Sqlite(database) => database.commit_group(questions, plan).await,
            Self::Postgres(database) => database.commit_group(questions, plan).await,
        }
    }

    /// Returns the stamps at these addresses, without absent addresses, over a new connection: an
    /// earlier error on a shared connection cannot matter. Asked after
    /// [`WriteFailure::Unknown`], to find out whether the group was stored.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read. Always on PostgreSQL, which has
    /// already looked for the number of the commit before it answers [`WriteFailure::Unknown`].
    pub(crate) async fn look_up_stamps<'a>(
        &self,
        addresses: impl Iterator<Item = &'a Address>,
    ) -> Result<BTreeMap<&'a Address, AddressState>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.look_up_stamps(addresses).await,
            Self::Postgres(_) => Err(StoreFault::Unavailable(
                "the database does not decide whether the commit is stored; try again later".into(),
            )),
        }
    }

    /// Waits until every earlier transaction that writes is stored or rolled back, also a
    /// transaction that the inspection of an unknown outcome gave up.
    ///
    /// # Errors
    /// [`WriteFailure::Refused`] if the database cannot say.
    pub(crate) async fn await_decisions(&self) -> Result<(), WriteFailure> {
        match self {
            // A connection that is gone rolls back.
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(database) => database.await_decisions().await,
        }
    }

    /// Counts a commit with a lost answer, once the commit is known to be stored.
    pub(crate) fn count_found_commit(&self) {
        match self {
            Self::Sqlite(database) => database.count_commit(TransactionOutcome::Committed),
            // Counted where the commit was found.
            Self::Postgres(_) => {}
        }
    }
}

/// The condition, the upkeep and the end.
impl Database {
    /// Returns the space of deleted rows to the file system, a little at a time between other
    /// commits. Does nothing if the database reuses the space by itself.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be written.
    pub(crate) async fn give_back_space(&self) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(database) => database.give_back_space().await,
            Self::Postgres(database) => database.give_back_space().await,
        }
    }

    /// Returns the number of flushed commits since the opening.
    pub(crate) fn flushes(&self) -> u64 {
        match self {
            Self::Sqlite(database) => database.flushes(),
            Self::Postgres(database) => database.flushes(),
        }
    }

    /// Returns the times of the writes and the flush of the commits.
    pub(crate) fn flush_time(&self) -> HistogramReading {
        match self {
            Self::Sqlite(database) => database.flush_time(),
            Self::Postgres(database) => database.flush_time(),
        }
    }

    /// Returns the number of reads since the opening, without reads of [`DatabaseReader`].
    pub(crate) fn read_queries(&self) -> u64 {
        match self {
            Self::Sqlite(database) => database.read_queries(),
            Self::Postgres(database) => database.read_queries(),
        }
    }

    /// Returns the present sizes, without a query.
    pub(crate) fn sizes(&self) -> DatabaseSizes {
        match self {
            Self::Sqlite(database) => database.sizes(),
            Self::Postgres(database) => database.sizes(),
        }
    }

    /// Waits for the current write and closes all connections; later calls fail as closed.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(database) => database.close().await,
            Self::Postgres(database) => database.close().await,
        }
    }

    /// Returns the SQLite database, whose tables a test reads and edits.
    #[cfg(test)]
    pub(crate) fn sqlite(&self) -> &SqliteDatabase {
        match self {
            Self::Sqlite(database) => database,
            Self::Postgres(_) => panic!("the database of this test is PostgreSQL"),
        }
    }
}
