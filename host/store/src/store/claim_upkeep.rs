//! The tasks of an open store on a database that several machines reach: one renews the claim, and
//! one reads the changes of other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Store;
use crate::change_watch::READ_PAUSE;
use crate::open_data::OpenData;
use bulkhead_record::fault::StoreFault;
use bulkhead_wire::hexadecimal;

/// Renews the claim until the claim is lost, the store is closed or the last handle is dropped.
pub(super) fn begin(data: &Arc<OpenData>) {
    begin_reading(data);
    let Some(pause) = data.database.claim_pause() else { return };
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(pause).await;
            let Some(data) = data.upgrade() else { return };
            if !data.database.keep_claim().await {
                return;
            }
        }
    });
}

/// Reads the changes of other nodes until the store is closed or the last handle is dropped.
fn begin_reading(data: &Arc<OpenData>) {
    if !data.changes.is_shared() {
        return;
    }
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        let mut forgetting = ForgettingPlan::default();
        while let Some(data) = data.upgrade()
            && data.database.claim_pause().is_some()
        {
            // A failure shows in the age of the last read, and in the condition of the database.
            drop(data.read_changes().await);
            if data.database.is_claim_ended() {
                return;
            }
            if let Some(until) = forgetting.next(data.database.own_commits()) {
                drop(data.database.forget_changes(until).await);
            }
            drop(data);
            tokio::time::sleep(READ_PAUSE).await;
        }
    });
}

/// Time for which changes of this node are stored, at least.
const STORED_TIME: Duration = Duration::from_secs(60);

/// The plan by which a node removes its changes once every live node has read them or has lost its
/// claim.
#[derive(Default)]
struct ForgettingPlan {
    /// The number of a commit, and the moment at which the commit was the last.
    marked: Option<(i64, Instant)>,
}

impl ForgettingPlan {
    /// Returns the commit up to which changes may be removed, if the time has come.
    fn next(&mut self, last: i64) -> Option<i64> {
        let now = Instant::now();
        let (commit, since) = *self.marked.get_or_insert((last, now));
        if now.duration_since(since) < STORED_TIME {
            return None;
        }
        self.marked = Some((last, now));
        (last > commit).then_some(commit)
    }
}

impl Store {
    /// Returns the epoch of this process: the name of this opening of the data, 32 hexadecimal
    /// digits. No two openings have the same epoch. Work that only a living process completes names
    /// the epoch of the process.
    pub fn epoch(&self) -> &str {
        &self.data.epoch
    }

    /// Returns `true` if this node shares the database with other nodes: work on a record is
    /// claimed in the database, and not in memory alone.
    pub fn is_shared(&self) -> bool {
        self.data.changes.is_shared()
    }

    /// Returns the epochs of the processes that may work on the data now, this process among them.
    /// A process with another epoch commits nothing more.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn living_epochs(&self) -> Result<BTreeSet<String>, StoreFault> {
        self.database().check_claim()?;
        if !self.data.changes.is_shared() {
            return Ok(BTreeSet::from([self.data.epoch.clone()]));
        }
        let holders = self.database().living_holders().await?;
        Ok(holders.iter().map(|holder| hexadecimal::text(holder)).collect())
    }

    /// Returns the reason why another node has the database, or why the database has lost commits;
    /// `None` while this process works on the database. The store then refuses reads and writes,
    /// and [`Store::write_changes`] reports the change.
    pub fn claim_loss(&self) -> Option<&str> {
        self.database().claim_loss()
    }

    /// Returns whether the database has not confirmed the claim of this process for too long. The
    /// store then refuses reads and writes until the next confirmation.
    pub fn is_claim_in_doubt(&self) -> bool {
        self.database().is_claim_in_doubt()
    }
}
