//! The proof that the database still takes writes, and the time for which a proof counts.
//!
//! This file prevents stale answers after a failover: the old primary server may answer reads for
//! some time, and knows nothing of a token that another node revoked on the new primary. A proof is
//! a commit that waits for the flush and for a synchronous standby, so that the standby had not
//! been promoted when the proof began. A node uses its memory for its proof time after the begin of
//! a proof, and stores the proof time with the proof: the writer of a change waits a little longer
//! than the stored time for a node that has not read the change (decision T67).
//!
//! Slow commits lengthen the proof time. A longer time counts once it is stored, and a shorter time
//! counts at once, so that no node uses its memory for longer than a new primary shows.

use std::time::Duration;

/// Proof time while commits are quick, and the proof time of a node without a stored one.
pub const QUICK_PROOF_TIME: Duration = Duration::from_millis(400);
/// Maximum proof time.
pub const MOST_PROOF_TIME: Duration = Duration::from_millis(4_000);
/// Pause between the begins of two proofs, unless a proof takes longer.
pub const PROOF_PAUSE: Duration = Duration::from_millis(150);
/// Time that the writer of a change adds to the proof time of a node.
const PROOF_MARGIN: Duration = Duration::from_millis(100);

/// Another living node, as its rows show it to the writer of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherNode {
    /// The last commit of the writer that the node has read.
    pub seen: i64,
    /// The stored proof time of the node.
    pub proof_time: Duration,
}

impl OtherNode {
    /// Returns the time after which the node uses nothing in memory that is older than a commit.
    pub fn in_force_time(&self) -> Duration {
        in_force_after(self.proof_time)
    }
}

/// Returns the time after which a change is in force on a node with this proof time.
pub fn in_force_after(proof_time: Duration) -> Duration {
    proof_time.clamp(QUICK_PROOF_TIME, MOST_PROOF_TIME) + PROOF_MARGIN
}

/// The proofs of this process. Moments are readings of the steady clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteProofs {
    /// The moment before the last proof.
    begun: u64,
    /// Time after that moment in which memory is used.
    time: Duration,
    /// The longest duration of the proofs so far; an earlier proof counts less with each later one.
    slowest: Duration,
}

impl WriteProofs {
    /// Returns the moment until which the last proof counts.
    pub fn counts_until(&self) -> u64 {
        self.begun.saturating_add(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX))
    }

    /// Begins a proof. Returns the proof time to be stored with the proof.
    pub fn begin(&mut self) -> Duration {
        // The age of a proof reaches two durations and a pause until the next one is stored.
        let needed = self.slowest * 3 + PROOF_PAUSE;
        let time = needed.clamp(QUICK_PROOF_TIME, MOST_PROOF_TIME);
        self.time = self.time.min(time);
        time
    }

    /// Records a stored proof with its proof time. The steady clock read `begun` before the proof,
    /// and `now` after its answer.
    pub fn end(&mut self, (begun, now): (u64, u64), time: Duration) {
        let duration = Duration::from_millis(now.saturating_sub(begun)).min(MOST_PROOF_TIME);
        self.slowest = duration.max(self.slowest - self.slowest / 16);
        (self.begun, self.time) = (begun, time);
    }
}

#[cfg(test)]
mod tests;
