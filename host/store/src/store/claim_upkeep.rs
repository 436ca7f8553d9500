//! The tasks of an open store on a database that several machines reach: one renews the claim, one
//! reads the changes of other nodes, one proves that the database takes writes, and one writes what
//! follows from the reads.
//!
//! This file prevents a node that stops answering because of its own upkeep: a write may wait for
//! other writes and for a standby, and a read of changes must never wait for a write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Store;
use crate::change_watch::{AWAITED_READ_PAUSE, READ_PAUSE};
use crate::database_clock::CLOCK_TOLERANCE_MS;
use crate::foreign_changes::ExpiredClaim;
use crate::open_data::OpenData;
use bulkhead_place::former_epochs::FormerEpochs;
use bulkhead_place::node_description::LivingNode;
use bulkhead_place::write_proof::PROOF_PAUSE;
use bulkhead_record::fault::StoreFault;
use bulkhead_wire::hexadecimal;

/// Renews the claim until the claim is lost, the store is closed or the last handle is dropped.
pub(super) fn begin(data: &Arc<OpenData>) {
    begin_reading(data);
    begin_proving(data);
    let Some(pause) = data.database.claim_pause() else { return };
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        loop {
            sleep(pause).await;
            let Some(data) = data.upgrade() else { return };
            if !data.database.keep_claim().await {
                return;
            }
        }
    });
}

/// Reads the changes of other nodes until the store is closed or the last handle is dropped.
fn begin_reading(data: &Arc<OpenData>) {
    let Some(wanted) = data.changes.wanted() else { return };
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        let (mut forgetting, mut writing) = (ForgettingPlan::default(), None::<JoinHandle<()>>);
        while let Some(data) = data.upgrade()
            && data.database.claim_pause().is_some()
        {
            // A failure shows in the age of the last read, and in the condition of the database.
            let silent = data.read_changes().await.unwrap_or_default();
            if data.database.is_claim_ended() {
                return;
            }
            if writing.as_ref().is_none_or(JoinHandle::is_finished) {
                let write = match silent.is_empty() {
                    true => forgetting.next(data.database.own_commits()),
                    false => Some(UpkeepWrite::EndClaims(silent)),
                };
                writing = write.map(|write| tokio::spawn(write.run(Arc::clone(&data))));
            }
            drop(data);
            pause(&wanted).await;
        }
    });
}

/// Waits until the next read is due, or wanted.
async fn pause(wanted: &Notify) {
    let awaited = async {
        sleep(AWAITED_READ_PAUSE).await;
        wanted.notified().await;
    };
    tokio::select! {
        () = sleep(READ_PAUSE) => {}
        () = awaited => {}
    }
}

/// Proves that the database takes writes until the store is closed or the last handle is dropped.
fn begin_proving(data: &Arc<OpenData>) {
    if !data.changes.is_shared() {
        return;
    }
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        while let Some(data) = data.upgrade()
            && !data.database.is_claim_ended()
        {
            let begun = Instant::now();
            // A failure shows in the age of the last proof.
            let pause = match data.prove_writes().await {
                Ok(()) => PROOF_PAUSE.saturating_sub(begun.elapsed()),
                Err(_) => READ_PAUSE,
            };
            drop(data);
            tokio::time::sleep(pause).await;
        }
    });
}

/// A write that follows from the reads of changes.
#[derive(Debug, PartialEq, Eq)]
enum UpkeepWrite {
    /// Removes the stored changes of this node up to this commit.
    ForgetChanges(i64),
    EndClaims(Vec<ExpiredClaim>),
}

impl UpkeepWrite {
    /// Writes. A failure shows in the condition of the database: the reads find a claim that was
    /// not ended again, and changes that are still stored are planned a minute later.
    async fn run(self, data: Arc<OpenData>) {
        drop(match self {
            UpkeepWrite::ForgetChanges(until) => data.database.forget_changes(until).await,
            UpkeepWrite::EndClaims(silent) => data.database.end_claims(&silent).await,
        });
    }
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
    /// Returns the removal of the changes that may be removed, if the time has come. `last` is the
    /// last commit.
    fn next(&mut self, last: i64) -> Option<UpkeepWrite> {
        let now = Instant::now();
        let (commit, since) = *self.marked.get_or_insert((last, now));
        if now.duration_since(since) < STORED_TIME {
            return None;
        }
        self.marked = Some((last, now));
        (last > commit).then_some(UpkeepWrite::ForgetChanges(commit))
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

    /// Waits until the memory of this process includes every commit that another node had answered
    /// before the call, for at most 2 s. Returns at once if this process works alone.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the claim on the database is lost or in doubt, or the changes
    /// of other nodes cannot be read.
    pub async fn await_fresh(&self) -> Result<(), StoreFault> {
        self.data.check_fresh().await
    }

    /// Waits until the memory of this process includes every commit that any node had answered at
    /// the store time `time`, in milliseconds, for at most 2 s. Returns at once if this process
    /// works alone, or `time` is long past.
    ///
    /// # Errors
    /// As [`Store::await_fresh`].
    pub async fn await_time(&self, time: u64) -> Result<(), StoreFault> {
        self.data.check_fresh().await?;
        // The read of changes that makes memory fresh began after such a commit by any clock.
        match self.now() > time.saturating_add(CLOCK_TOLERANCE_MS) {
            true => Ok(()),
            false => self.data.changes.await_next().await,
        }
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

    /// Returns whether `epoch` is of an earlier opening of this data directory by a node that
    /// shares its database. No work of such an epoch runs any more.
    pub fn is_of_earlier_opening(&self, epoch: &str) -> bool {
        self.former.as_ref().is_some_and(|former| former.epochs().contains(epoch))
    }

    /// Returns whether work of earlier openings of this data directory may be unfinished; always
    /// true if this process works alone.
    pub fn may_have_former_work(&self) -> bool {
        self.former.as_ref().is_none_or(|former| !former.epochs().is_empty())
    }

    /// Notes that the work of all earlier openings of this data directory has ended, or is due.
    pub fn forget_former_work(&self) {
        self.former.iter().for_each(FormerEpochs::forget);
    }

    /// Returns the nodes that share the database and have a claim, this node among them, the oldest
    /// first. Empty if this node works alone.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn nodes(&self) -> Result<Vec<LivingNode>, StoreFault> {
        self.database().check_claim()?;
        self.database().living_nodes().await
    }

    /// Returns the reason why another node has the database, or why the database has lost commits;
    /// `None` while this process works on the database. The store then refuses reads and writes,
    /// and [`Store::write_changes`] reports the change.
    pub fn claim_loss(&self) -> Option<&str> {
        self.database().claim_loss()
    }

    /// Returns whether this node has not read the changes of other nodes for a second. The store
    /// then refuses reads until the next read of changes.
    pub fn has_unread_changes(&self) -> bool {
        self.data.changes.is_late()
    }

    /// Returns whether [`Store::claim_loss`] means that another node ended the claim of this node,
    /// because nothing renewed the claim. This node may then open the data again.
    pub fn is_ended_as_silent(&self) -> bool {
        self.database().is_ended_as_silent()
    }

    /// Returns whether the database has not confirmed the claim of this process for too long. The
    /// store then refuses reads and writes until the next confirmation.
    pub fn is_claim_in_doubt(&self) -> bool {
        self.database().is_claim_in_doubt()
    }
}
