//! The claim of a data directory on a database that several machines reach.
//!
//! This file prevents a server that starts on a database in use by another node, on a database
//! that lost acknowledged writes, or on the database of another cluster.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use super::DataDirectory;
use crate::claim_watch::{ClaimTimes, ClaimingNode};
use crate::database::Database;
use crate::node_files::{self, MarkFile, NodeId};
use crate::options::DatabaseChoice;
use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;

impl DataDirectory {
    /// Checks, at the start of a process, that the inspected database may be opened. Nothing is
    /// written.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another node holds the database, if acknowledged writes are
    /// lost, or if the directory belonged to another cluster.
    pub(super) async fn check_claim(&self) -> Result<(), StoreFault> {
        if !self.has_claims() {
            return Ok(());
        }
        let Some(properties) = self.properties() else { return self.check_unmarked() };
        let node = node_files::read_node(self.path())?;
        let mark = MarkFile::open(self.path(), &properties.cluster_name)?;
        self.place().check_claim(&self.claiming_node(node, mark)?).await
    }

    /// Checks that the directory did not belong to a database with data, because the present
    /// database has none: a new cluster would take its place.
    ///
    /// # Errors
    /// [`StoreFault::Refused`].
    pub(super) fn check_unmarked(&self) -> Result<(), StoreFault> {
        match self.has_claims() {
            true => node_files::check_unmarked(self.path(), &self.name()),
            false => Ok(()),
        }
    }

    /// Opens the initialised database of `cluster`, and claims the database for this process.
    ///
    /// # Errors
    /// As [`DataDirectory::check_claim`]; [`StoreFault::Unavailable`] if the database cannot be
    /// opened.
    pub(super) async fn open_claimed(&self, cluster: &str) -> Result<Database, StoreFault> {
        let database = self.open_database().await?;
        if self.has_claims() {
            let node = node_files::ensure_node(self.path())?;
            let marked = MarkFile::open(self.path(), cluster);
            let claimed = match marked.and_then(|mark| self.claiming_node(node, mark)) {
                Ok(node) => database.take_claim(node).await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = claimed {
                database.close().await;
                return Err(fault);
            }
        }
        Ok(database)
    }

    /// Returns this process as the claimant of a database whose data are replaced, whichever
    /// cluster they are of.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if a file of the directory cannot be read or removed.
    pub(super) fn replacing_node(&self) -> Result<ClaimingNode, StoreFault> {
        // Removed before the replacement: a process that dies in between has no mark.
        node_files::remove_mark(self.path())?;
        let node = node_files::ensure_node(self.path())?;
        self.claiming_node(node, MarkFile::unwritten(self.path()))
    }

    /// Returns this process as the claimant of a database, before a restore. The mark of the
    /// directory stays and is not compared: the restore may still be refused.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if a file of the directory cannot be read.
    pub(super) fn unmarked_node(&self) -> Result<ClaimingNode, StoreFault> {
        let node = node_files::read_node(self.path())?;
        self.claiming_node(node, MarkFile::unwritten(self.path()))
    }

    fn has_claims(&self) -> bool {
        matches!(self.choice(), DatabaseChoice::Postgres(_))
    }

    fn claiming_node(
        &self,
        node: Option<NodeId>,
        mark: MarkFile,
    ) -> Result<ClaimingNode, StoreFault> {
        Ok(ClaimingNode {
            holder: cipher::random()?,
            node,
            place: node_files::process_name(),
            times: self.claim_times,
            mark: Arc::new(mark),
        })
    }
}

/// Returns this process, with the data directory `path`, as a claimant of the database of
/// `cluster`.
///
/// # Errors
/// As [`MarkFile::open`].
pub(super) fn claimant(
    path: &Path,
    node: Option<NodeId>,
    cluster: &str,
) -> Result<ClaimingNode, StoreFault> {
    Ok(ClaimingNode {
        holder: cipher::random()?,
        node,
        place: node_files::process_name(),
        times: ClaimTimes::default(),
        mark: Arc::new(MarkFile::open(path, cluster)?),
    })
}
