//! The mark of the store time that the data have reached. Commits write the mark with their rows.
//!
//! This file prevents a restart with the machine's clock set back from prolonging tokens and
//! leases. The mark is at most a second older than the last commit, and costs no flush of its own.
//! Of nodes that share a database, one writes the mark each second: transactions that write the
//! same row disturb each other.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::StoreClock;

/// Milliseconds after which a commit writes the mark again.
const MARK_INTERVAL_MS: u64 = 1_000;

/// The store time of the data at the last write of the mark.
pub(crate) struct TimeMark {
    clock: Arc<StoreClock>,
    /// Milliseconds since 1970; 0 before the first write.
    written: AtomicU64,
}

impl TimeMark {
    /// Creates the mark of this clock's time. The first commit writes the mark.
    pub(crate) fn new(clock: &Arc<StoreClock>) -> TimeMark {
        TimeMark { clock: Arc::clone(clock), written: AtomicU64::new(0) }
    }

    /// Returns the time that a commit has to write; `None` while the mark is fresh.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_after(MARK_INTERVAL_MS)
    }

    /// Returns the time to write if the mark is `age` milliseconds old or older.
    pub(crate) fn due_after(&self, age: u64) -> Option<u64> {
        let now = self.clock.now();
        let is_old = now.saturating_sub(self.written.load(Ordering::Relaxed)) >= age;
        is_old.then_some(now)
    }

    /// Records that `time` was written, by this process or another node.
    pub(crate) fn note(&self, time: u64) {
        self.written.fetch_max(time, Ordering::Relaxed);
    }
}
