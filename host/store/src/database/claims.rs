//! The claim of this process on a database that several machines reach. A file of SQLite has the
//! lock of its directory instead.

use std::time::Duration;

use super::{Database, DatabasePlace};
use crate::change_watch::StartedProof;
use crate::foreign_changes::{ExpiredClaim, ForeignChanges, KnownCommits};
use crate::postgres;
use bulkhead_place::claim_watch::ClaimingNode;
use bulkhead_place::node_description::LivingNode;
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_place::write_proof::OtherNode;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaRows;

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

    /// Returns whether the claim is lost or was given back.
    pub(crate) fn is_claim_ended(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(database) => database.is_claim_ended(),
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

    /// Returns whether another node ended the claim because nothing renewed the claim.
    pub(crate) fn is_ended_as_silent(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(database) => database.is_ended_as_silent(),
        }
    }

    /// Returns the name of the row of this node if other nodes may write to the database at the
    /// same time.
    pub(crate) fn shared_row(&self) -> Option<String> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => database.shared_row(),
        }
    }

    /// Reads what other nodes committed after the known commits, in one state of the database.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn read_changes(
        &self,
        known: &KnownCommits,
    ) -> Result<ForeignChanges, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(ForeignChanges::default()),
            Self::Postgres(database) => database.read_changes(known).await,
        }
    }

    /// Returns the number of the last known commit of this process; 0 without a claim.
    pub(crate) fn own_commits(&self) -> i64 {
        match self {
            Self::Sqlite(_) => 0,
            Self::Postgres(database) => database.own_commits(),
        }
    }

    /// Removes the stored changes of this process up to commit `until`. A node that has not read
    /// them finds a gap.
    ///
    /// # Errors
    /// [`WriteFailure`].
    pub(crate) async fn forget_changes(&self, until: i64) -> Result<(), WriteFailure> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(database) => database.forget_changes(until).await,
        }
    }

    /// Returns the random bytes of the claims of all processes that may commit.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn living_holders(&self) -> Result<Vec<Vec<u8>>, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(Vec::new()),
            Self::Postgres(database) => database.living_holders().await,
        }
    }

    /// Returns the nodes with a claim that share the database, the oldest first; none if this
    /// process works alone.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn living_nodes(&self) -> Result<Vec<LivingNode>, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(Vec::new()),
            Self::Postgres(database) => database.living_nodes().await,
        }
    }

    /// Ends claims of nodes that share the database, unless they were renewed meanwhile.
    ///
    /// # Errors
    /// [`WriteFailure`].
    pub(crate) async fn end_claims(&self, silent: &[ExpiredClaim]) -> Result<(), WriteFailure> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(database) => database.end_claims(silent).await,
        }
    }

    /// Returns the time in which a node that reaches the database renews an ended claim.
    pub(crate) fn claim_silence(&self) -> Duration {
        match self {
            Self::Sqlite(_) => Duration::ZERO,
            Self::Postgres(database) => database.claim_silence(),
        }
    }

    /// Writes the commits of other nodes that this process has read, and waits neither for the
    /// flush nor for a standby. Returns `false` if the process no longer has its claim.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database does not take the write.
    pub(crate) async fn write_progress(&self, known: &KnownCommits) -> Result<bool, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(database) => database.write_progress(known).await,
        }
    }

    /// Stores a proof of this process with its proof time, and waits for the flush and for a
    /// synchronous standby. Returns `false` if the process no longer has its claim.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database does not take the write.
    pub(crate) async fn write_proof(&self, proof: &StartedProof) -> Result<bool, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(database) => database.write_proof(proof).await,
        }
    }

    /// Returns the other living nodes, with the last commits of this process that they have read
    /// and their proof times.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn other_nodes(&self) -> Result<Vec<OtherNode>, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(Vec::new()),
            Self::Postgres(database) => database.other_nodes().await,
        }
    }

    /// Returns the clock of the database server, in milliseconds since 1970; `None` without a
    /// server.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn read_clock(&self) -> Result<Option<u64>, StoreFault> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(database) => database.read_clock().await,
        }
    }

    /// Returns all rows of the identity, of one state, on the connection of the reads of changes:
    /// requests that occupy all other connections do not delay the answer.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn followed_identity(&self) -> Result<MetaRows, StoreFault> {
        match self {
            Self::Sqlite(database) => database.identity_rows().await,
            Self::Postgres(database) => database.followed_identity().await,
        }
    }
}
