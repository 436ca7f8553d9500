//! The claim of this process on a database that several machines reach. A file of SQLite has the
//! lock of its directory instead.

use std::time::Duration;

use super::{Database, DatabasePlace};
use crate::postgres;
use bulkhead_place::claim_watch::ClaimingNode;
use bulkhead_record::fault::StoreFault;

impl DatabasePlace<'_> {
    /// Checks that `node` may open the initialised database. Nothing is written. Waits while the
    /// claim of another node is neither renewed nor expired.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another node holds the claim, or if acknowledged commits that the
    /// node knows of are lost; [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn check_claim(self, node: &ClaimingNode) -> Result<(), StoreFault> {
        match self {
            Self::SqliteIn(_) => Ok(()),
            Self::Postgres(place) => postgres::check_claim(place, node).await,
        }
    }
}

impl Database {
    /// Takes the claim for `node`, on which each later write depends, until the close. Waits while
    /// the claim of another node is neither renewed nor expired. Returns the number of the last
    /// commit.
    ///
    /// # Errors
    /// As [`DatabasePlace::check_claim`].
    pub(crate) async fn take_claim(&self, node: ClaimingNode) -> Result<i64, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(0),
            Self::Postgres(database) => database.take_claim(node).await,
        }
    }

    /// Records that the store is open for requests: from then on, faults of a server are in the log
    /// alone, and callers see a sentence without the place of the server.
    pub(crate) fn begin_service(&self) {
        if let Self::Postgres(database) = self {
            database.begin_service();
        }
    }

    /// Checks that the claim of this process holds, before a record in memory is used. One look at
    /// a number in memory, and at a clock.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the claim is lost or in doubt.
    pub(crate) fn check_claim(&self) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(database) => database.check_claim(),
        }
    }

    /// Returns the random bytes of the claim of this process; `None` without a claim.
    pub(crate) fn claim_holder(&self) -> Option<[u8; 16]> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => database.claim_holder(),
        }
    }

    /// Returns whether the claim was not confirmed for too long: [`Database::check_claim`] fails
    /// until the next confirmation.
    pub(crate) fn is_claim_in_doubt(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(database) => database.is_claim_in_doubt(),
        }
    }

    /// Returns the pause between two calls of [`Database::keep_claim`]; `None` if the database
    /// needs none.
    pub(crate) fn claim_pause(&self) -> Option<Duration> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => database.claim_pause(),
        }
    }

    /// Renews the claim of an idle process, and notes the last known commit in the data directory.
    /// Returns `false` once the claim is lost or given back.
    pub(crate) async fn keep_claim(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(database) => database.keep_claim().await,
        }
    }

    /// Returns the reason for the loss of the claim.
    pub(crate) fn claim_loss(&self) -> Option<&str> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => database.stopped(),
        }
    }
}
