//! The claim of a data directory on a database that several machines reach.
//!
//! This file prevents a server that starts on a database in use by another node, on a database
//! that lost acknowledged writes, or on the database of another cluster. The keys of an opening are
//! read under the claim: the node before may have rotated the keys shortly before its end, and an
//! older keyring would later replace the newer keyring.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::DataDirectory;
use crate::database::{Database, remove_abandoned_restore};
use crate::identity::{self, StoreIdentity};
use bulkhead_place::claim_watch::{ClaimTimes, ClaimingNode};
use bulkhead_place::node_files::{self, KnownCommit, MarkFile, NodeId};
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_place::write_failure::UNUSABLE;
use bulkhead_record::fault::StoreFault;

impl DataDirectory {
    /// Checks, at the start of a process, that the inspected database may be opened. Nothing is
    /// written.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another node holds the database, if acknowledged writes are
    /// lost, or if the directory belonged to another cluster.
    pub(super) async fn check_claim(&self) -> Result<(), StoreFault> {
        let Some(properties) = self.properties() else { return self.check_unmarked() };
        if !self.has_claims() {
            return Ok(());
        }
        let node = node_files::read_node(self.path())?;
        let mark = MarkFile::open(self.path(), &properties.cluster_name)?;
        let claimant = self.shared(self.node_with(node, mark)?);
        self.place().check_claim(&claimant).await
    }

    /// Checks that the directory did not belong to a database with data, because the present
    /// database has none: a new cluster would take its place. A configuration that no longer names
    /// the database server would otherwise begin an empty file.
    ///
    /// # Errors
    /// [`StoreFault::Refused`].
    pub(super) fn check_unmarked(&self) -> Result<(), StoreFault> {
        node_files::check_unmarked(self.path(), &self.name())
    }

    /// Opens the database with the identity `found`, and claims the database for this process.
    /// Returns the identity that the database has under the claim.
    ///
    /// # Errors
    /// As [`DataDirectory::check_claim`]; [`StoreFault::Refused`] if the data were migrated to
    /// another database, or the clock of this machine is wrong ([`DataDirectory::begin_time`]);
    /// [`StoreFault::Unavailable`] if the database cannot be opened, or the data were replaced by
    /// another cluster meanwhile. The claim is given back.
    pub(super) async fn open_claimed(
        &self,
        found: StoreIdentity,
    ) -> Result<(Database, StoreIdentity), StoreFault> {
        let database = self.open_database().await?;
        if !self.has_claims() {
            return Ok((database, found));
        }
        // A wrong clock takes no claim.
        let claimed = match self.begin_time(&database).await {
            Ok(()) => self.claim(&database, &found.cluster_name()).await,
            Err(fault) => Err(fault),
        };
        match claimed {
            Ok(identity) => Ok((database, identity)),
            Err(fault) => {
                database.close().await;
                Err(fault)
            }
        }
    }

    async fn claim(&self, database: &Database, cluster: &str) -> Result<StoreIdentity, StoreFault> {
        let node = self.claiming_node(node_files::ensure_node(self.path())?, cluster)?;
        let (mark, row) = (Arc::clone(&node.mark), node.row_name());
        let commits = database.take_claim(node).await?;
        let identity = match database.identity_rows().await {
            Ok(rows) => identity::of_rows_for_start(self.place(), &rows),
            Err(fault) => Err(fault),
        };
        let replaced = |identity: &StoreIdentity| identity.cluster_name() != cluster;
        if identity.as_ref().map_or(true, replaced) {
            // The mark would name a cluster or a commit that this process never worked with.
            mark.close();
        }
        let identity = identity?;
        if replaced(&identity) {
            self.forget_properties();
            return Err(StoreFault::Unavailable(format!(
                "the data in {} were replaced by the data of another cluster during the opening; \
                 nothing was changed; unseal or start the server again",
                self.name().display()
            )));
        }
        if let DatabaseChoice::Postgres(place) = self.choice() {
            // The tables do no harm, and the next opening tries again.
            drop(remove_abandoned_restore(place).await);
        }
        mark.raise(KnownCommit { node: row, commits });
        Ok(identity)
    }

    /// Returns this process as the claimant of a database whose data are replaced, whichever
    /// cluster they are of. Accepts any number of commits.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if a file of the directory cannot be read.
    pub(super) fn replacing_node(&self) -> Result<ClaimingNode, StoreFault> {
        let node = node_files::ensure_node(self.path())?;
        self.node_with(node, MarkFile::unread(self.path()))
    }

    /// Returns this process as the claimant of a database, before a restore. The mark of the
    /// directory stays and is not compared: the restore may still be refused.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if a file of the directory cannot be read.
    pub(crate) fn unmarked_node(&self) -> Result<ClaimingNode, StoreFault> {
        let node = node_files::read_node(self.path())?;
        self.node_with(node, MarkFile::unread(self.path()))
    }

    /// Returns a fault of the sealed data as a caller without a token sees it: without the place of
    /// the database and the other node. The caller of this function logs the fault.
    pub fn answer(&self, fault: StoreFault) -> StoreFault {
        match fault {
            StoreFault::Unavailable(_) if self.has_claims() => {
                StoreFault::Unavailable(UNUSABLE.to_owned())
            }
            StoreFault::Refused(_) if self.has_claims() => StoreFault::Refused(UNUSABLE.to_owned()),
            other => other,
        }
    }

    fn has_claims(&self) -> bool {
        matches!(self.choice(), DatabaseChoice::Postgres(_))
    }

    fn claiming_node(
        &self,
        node: Option<NodeId>,
        cluster: &str,
    ) -> Result<ClaimingNode, StoreFault> {
        let claimant = self.node_with(node, MarkFile::open(self.path(), cluster)?)?;
        Ok(self.shared(claimant))
    }

    /// Returns the claimant with the other nodes and the description of the settings.
    fn shared(&self, claimant: ClaimingNode) -> ClaimingNode {
        let description = self.options.node.clone();
        ClaimingNode { sharing: self.sharing, description, ..claimant }
    }

    fn node_with(&self, node: Option<NodeId>, mark: MarkFile) -> Result<ClaimingNode, StoreFault> {
        ClaimingNode::of_process(node, mark, self.claim_times)
    }
}

/// Returns this process, with the settings `options`, as a claimant of the database of `cluster`.
///
/// # Errors
/// As [`MarkFile::open`].
pub(super) fn claimant(
    options: &StoreOptions,
    node: Option<NodeId>,
    cluster: &str,
) -> Result<ClaimingNode, StoreFault> {
    let mark = MarkFile::open(&options.directory, cluster)?;
    let claimant = ClaimingNode::of_process(node, mark, ClaimTimes::default())?;
    let description = options.node.clone();
    Ok(ClaimingNode { sharing: options.sharing, description, ..claimant })
}
