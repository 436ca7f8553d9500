//! The mark of the store time that the data have reached, written beside what is committed anyway.
//!
//! The attack this file stops: a restart with the machine's clock set back, which would prolong
//! each token and lease. The mark is at most a second older than what the last commit bears, and
//! costs no flush of its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

/// Milliseconds within which the mark is not written again.
const FRESH: u64 = 1_000;

/// The store time of the data, as it was last written.
pub(crate) struct TimeMark {
    clock: Arc<Clock>,
    /// Milliseconds since 1970; 0 before the first writing.
    written: AtomicU64,
}

impl TimeMark {
    /// A mark of this clock's time, still to be written.
    pub(crate) fn new(clock: &Arc<Clock>) -> TimeMark {
        TimeMark { clock: Arc::clone(clock), written: AtomicU64::new(0) }
    }

    /// The time to be written with a commit; `None` where the mark is fresh.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_after(FRESH)
    }

    /// The time to be written where the mark is so many milliseconds old.
    pub(crate) fn due_after(&self, age: u64) -> Option<u64> {
        let now = self.clock.now();
        let is_old = now.saturating_sub(self.written.load(Ordering::Relaxed)) >= age;
        is_old.then_some(now)
    }

    /// Takes note that `time` was written.
    pub(crate) fn note(&self, time: u64) {
        self.written.fetch_max(time, Ordering::Relaxed);
    }
}
