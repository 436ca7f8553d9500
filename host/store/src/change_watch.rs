//! The reads of what other nodes commit, and the certainty that records in memory are fresh.
//!
//! This file prevents stale answers on a shared database: a revoked token must not pass because
//! another node revoked the token. Records in memory are used only while a read of changes began a
//! short time ago, and a proof of this node counts ([`bulkhead_place::write_proof`]), by a clock
//! that also counts the sleep of the machine. A commit of another node that is answered after a
//! longer time is therefore in force on this node (decisions T64 and T67).
//!
//! Each read sees one state of the database. A record in memory that was read before a read began
//! belongs to the state of that read, unless the read evicted the record: such a record is settled.
//! Settled records belong to one state, all other records must be compared in the database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bulkhead_wire::sync;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, Notify, watch};
use tokio::time::{sleep, timeout};

use crate::foreign_changes::KnownCommits;
use crate::silent_nodes::SilentNodes;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_place::write_proof::{
    MOST_PROOF_TIME, OtherNode, QUICK_PROOF_TIME, WriteProofs, in_force_after,
};
use bulkhead_record::fault::StoreFault;

/// Pause between two reads of changes.
pub(crate) const READ_PAUSE: Duration = Duration::from_millis(25);
/// Pause between two reads of changes while a request waits for the next.
pub(crate) const AWAITED_READ_PAUSE: Duration = Duration::from_millis(5);
/// Time after the begin of a read in which records in memory are used.
const FRESH_TIME: Duration = QUICK_PROOF_TIME;
/// Time after the end of freshness at which a node reports that it is cut off.
const LATE_TIME: Duration = Duration::from_millis(600);
/// Age of the last written progress at which a node writes its progress again.
const PROGRESS_AGE: Duration = Duration::from_millis(150);
/// Pause between two looks at the progress of other nodes.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Maximum time for which a request waits for a read of changes.
const WAIT_TIME: Duration = Duration::from_secs(2);

/// The number of a read of changes of this process, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadNumber(pub(crate) u64);

impl ReadNumber {
    /// After every read: the process is alone.
    const ALONE: ReadNumber = ReadNumber(u64::MAX);

    /// Returns whether other nodes may write to the database.
    pub(crate) fn is_shared(self) -> bool {
        self != ReadNumber::ALONE
    }
}

/// The state of the reads of changes of a process. A process that is alone reads no changes, and
/// its records in memory are always fresh and settled.
pub(crate) struct ChangeWatch {
    /// `None` if the process is alone.
    shared: Option<SharedWatch>,
}

struct SharedWatch {
    begun: AtomicU64,
    /// Number of the last proof that began.
    proofs: AtomicU64,
    ended: watch::Sender<EndedReads>,
    known: Mutex<KnownCommits>,
    /// The last commit of this process that every other node has read, as far as known.
    seen: AsyncMutex<i64>,
    /// Held during a read: one read runs at a time.
    reading: AsyncMutex<SilentNodes>,
    /// Notified when a request waits for the next read.
    wanted: Arc<Notify>,
}

/// What is certain about the memory of this process. Moments are readings of the steady clock, in
/// milliseconds.
#[derive(Clone, Copy, Default)]
struct EndedReads {
    /// The last read whose changes are evicted.
    last: ReadNumber,
    /// The moment before its begin.
    read: u64,
    /// The moment before the last written progress.
    progress: u64,
    proofs: WriteProofs,
    /// A stored proof that no read has shown so far, and the moment after its answer.
    stored: Option<(StartedProof, u64)>,
    /// The store is being closed, and proves nothing more.
    is_closed: bool,
}

/// A proof of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartedProof {
    /// Number of the proof of this process, from 1.
    pub(crate) number: u64,
    /// The moment before the proof.
    pub(crate) begun: u64,
    /// The proof time to be stored.
    pub(crate) time: Duration,
}

/// A look at the other living nodes.
pub(crate) type NodesLook<'a> = BoxFuture<'a, Result<Vec<OtherNode>, StoreFault>>;

impl SharedWatch {
    /// Returns whether `commit`, which was answered by the database before the moment `stored`, is
    /// in force on every other node, after a look if not known so far.
    async fn is_in_force(&self, (commit, stored): (i64, u64), look: NodesLook<'_>) -> bool {
        let mut seen = self.seen.lock().await;
        if *seen >= commit {
            return true;
        }
        let Ok(others) = look.await else { return false };
        if let Some(least) = others.iter().map(|other| other.seen).min() {
            *seen = least;
        }
        let has_seen = |other: &OtherNode| other.seen >= commit;
        others.iter().all(|other| has_seen(other) || is_older(stored, other.in_force_time()))
    }
}

impl EndedReads {
    fn is_fresh(&self) -> bool {
        steady_milliseconds() < self.fresh_until()
    }

    /// Returns the moment until which records in memory are used.
    fn fresh_until(&self) -> u64 {
        let fresh_time = u64::try_from(FRESH_TIME.as_millis()).unwrap_or_default();
        self.read.saturating_add(fresh_time).min(self.proofs.counts_until())
    }

    /// Returns the rest of `time` after the end of freshness; zero once the time is over.
    fn rest_of(&self, time: Duration) -> Duration {
        let end = Duration::from_millis(self.fresh_until()) + time;
        end.saturating_sub(Duration::from_millis(steady_milliseconds()))
    }
}

/// Returns whether a moment is at least `age` ago.
fn is_older(moment: u64, age: Duration) -> bool {
    Duration::from_millis(steady_milliseconds().saturating_sub(moment)) >= age
}

impl ChangeWatch {
    /// Creates the watch of the process with the row `own` in a shared database; `None` if the
    /// process is alone. A shared database is read before the first record in memory is used.
    pub(crate) fn new(own: Option<String>) -> ChangeWatch {
        let shared = own.map(|own| SharedWatch {
            begun: AtomicU64::new(0),
            proofs: AtomicU64::new(0),
            ended: watch::Sender::default(),
            known: Mutex::new(KnownCommits::of_node(own)),
            seen: AsyncMutex::default(),
            reading: AsyncMutex::default(),
            wanted: Arc::default(),
        });
        ChangeWatch { shared }
    }

    /// Returns whether other nodes may write to the database.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the known commits; `None` if the process is alone.
    pub(crate) fn known(&self) -> Option<KnownCommits> {
        self.shared.as_ref().map(|shared| sync::lock(&shared.known).clone())
    }

    /// Waits for the end of another read; `None` if the process is alone. A read runs under the
    /// returned lock.
    pub(crate) async fn hold_reading(&self) -> Option<MutexGuard<'_, SilentNodes>> {
        Some(self.shared.as_ref()?.reading.lock().await)
    }

    /// Begins a read under the lock of [`ChangeWatch::hold_reading`]. Returns its number, the
    /// reading of the steady clock and the known commits.
    pub(crate) fn begin(&self) -> Option<(ReadNumber, u64, KnownCommits)> {
        let shared = self.shared.as_ref()?;
        let number = shared.begun.fetch_add(1, Ordering::SeqCst) + 1;
        Some((ReadNumber(number), steady_milliseconds(), sync::lock(&shared.known).clone()))
    }

    /// Ends a read, after all changed records were evicted. The read showed the proof `shown` of
    /// this process. A stored proof counts once a read shows the proof: the connection of the
    /// proofs may lead to another server than the reads, as during a failover.
    pub(crate) fn end(
        &self,
        (number, begun): (ReadNumber, u64),
        known: KnownCommits,
        shown: Option<u64>,
    ) {
        let Some(shared) = &self.shared else { return };
        *sync::lock(&shared.known) = known;
        shared.ended.send_modify(|ended| {
            (ended.last, ended.read) = (number, begun);
            if let Some((proof, now)) =
                ended.stored.take_if(|(proof, _)| shown >= Some(proof.number))
            {
                ended.proofs.end((proof.begun, now), proof.time);
            }
        });
    }

    /// Returns whether the progress of this process is to be written.
    pub(crate) fn is_progress_due(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| is_older(shared.ended.borrow().progress, PROGRESS_AGE))
    }

    /// Records that the progress was written. The steady clock read `begun` before.
    pub(crate) fn note_progress(&self, begun: u64) {
        if let Some(shared) = &self.shared {
            shared.ended.send_modify(|ended| ended.progress = begun);
        }
    }

    /// Begins a proof.
    pub(crate) fn begin_proof(&self) -> Option<StartedProof> {
        let shared = self.shared.as_ref()?;
        let mut time = Duration::ZERO;
        shared.ended.send_modify(|ended| time = ended.proofs.begin());
        let number = shared.proofs.fetch_add(1, Ordering::SeqCst) + 1;
        Some(StartedProof { number, begun: steady_milliseconds(), time })
    }

    /// Records that the database stored a proof.
    pub(crate) fn end_proof(&self, proof: StartedProof) {
        if let Some(shared) = &self.shared {
            let now = steady_milliseconds();
            shared.ended.send_modify(|ended| ended.stored = Some((proof, now)));
        }
    }

    /// Ends the proofs, before the store is closed.
    pub(crate) fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.ended.send_modify(|ended| ended.is_closed = true);
        }
    }

    /// Waits for [`ChangeWatch::close`].
    pub(crate) async fn closed(&self) {
        let Some(shared) = &self.shared else { return };
        let mut ended = shared.ended.subscribe();
        // The sender lives as long as this watch.
        drop(ended.wait_for(|ended| ended.is_closed).await);
    }

    /// Waits until every other living node has read the commits of this process up to `commit`, or
    /// answers nothing from memory.
    pub(crate) async fn await_others<'a>(&self, commit: i64, look: impl Fn() -> NodesLook<'a>) {
        let Some(shared) = &self.shared else { return };
        let stored = steady_milliseconds();
        let waiting = async {
            while !shared.is_in_force((commit, stored), look()).await {
                sleep(LOOK_PAUSE).await;
            }
        };
        // No node uses its memory for longer.
        drop(timeout(in_force_after(MOST_PROOF_TIME), waiting).await);
    }

    /// Returns the number of the last read that began. A record that was read from the database
    /// before this call is settled by any later read.
    pub(crate) fn last_begun(&self) -> ReadNumber {
        let begun = self.shared.as_ref().map(|shared| shared.begun.load(Ordering::SeqCst));
        ReadNumber(begun.unwrap_or_default())
    }

    /// Returns the number of the last read that ended; records with smaller numbers are settled.
    pub(crate) fn last_ended(&self) -> ReadNumber {
        let ended = self.shared.as_ref().map(|shared| shared.ended.borrow().last);
        ended.unwrap_or(ReadNumber::ALONE)
    }

    /// Checks that records in memory are fresh.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the last read began too long ago.
    pub(crate) fn check(&self) -> Result<(), StoreFault> {
        match &self.shared {
            Some(shared) if !shared.ended.borrow().is_fresh() => Err(not_fresh()),
            _ => Ok(()),
        }
    }

    /// Returns whether records in memory have not been fresh for a time that no short delay of the
    /// database explains.
    pub(crate) fn is_late(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.ended.borrow().rest_of(LATE_TIME).is_zero())
    }

    /// Runs a read of the database, as long as the changes of other nodes are read.
    ///
    /// # Errors
    /// The fault of the read, or [`StoreFault::Unavailable`] if records in memory stop being fresh
    /// for [`WAIT_TIME`]: the read may wait for a connection that is cut off.
    pub(crate) async fn while_followed<T>(
        &self,
        read: impl Future<Output = Result<T, StoreFault>>,
    ) -> Result<T, StoreFault> {
        let Some(shared) = &self.shared else { return read.await };
        self.await_fresh().await?;
        let silence = async {
            loop {
                let rest = shared.ended.borrow().rest_of(WAIT_TIME);
                if rest.is_zero() {
                    return not_fresh();
                }
                sleep(rest).await;
            }
        };
        tokio::select! {
            biased;
            outcome = read => outcome,
            fault = silence => Err(fault),
        }
    }

    /// Waits until records in memory are fresh, for at most [`WAIT_TIME`].
    ///
    /// # Errors
    /// As [`ChangeWatch::check`].
    pub(crate) async fn await_fresh(&self) -> Result<(), StoreFault> {
        self.await_read(EndedReads::is_fresh).await
    }

    /// Returns the notification that a request waits for the next read; `None` if the process is
    /// alone.
    pub(crate) fn wanted(&self) -> Option<Arc<Notify>> {
        self.shared.as_ref().map(|shared| Arc::clone(&shared.wanted))
    }

    /// Waits until a read that begins after this call has ended.
    ///
    /// # Errors
    /// As [`ChangeWatch::check`].
    pub(crate) async fn await_next(&self) -> Result<(), StoreFault> {
        let last = self.last_begun();
        self.shared.iter().for_each(|shared| shared.wanted.notify_one());
        self.await_read(|ended| ended.last > last).await
    }

    async fn await_read(&self, is_met: impl FnMut(&EndedReads) -> bool) -> Result<(), StoreFault> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut ended = shared.ended.subscribe();
        match timeout(WAIT_TIME, ended.wait_for(is_met)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(not_fresh()),
        }
    }
}

fn not_fresh() -> StoreFault {
    StoreFault::Unavailable(
        "this node has not read the changes of other nodes for too long, so records in memory may \
         be outdated; check the database server and the connection, and try again"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;
