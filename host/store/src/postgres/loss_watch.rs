//! The reads that showed a loss of commits, until the loss is certain.

use std::sync::Mutex;
use std::time::Duration;

use bulkhead_wire::sync;

/// Time for which each read must show a loss.
const LOSS_TIME: Duration = Duration::from_millis(300);

/// The reads that showed a loss.
#[derive(Default)]
pub(super) struct LossWatch {
    /// The moment of the first of the last reads that all showed a loss, by the steady clock.
    since: Mutex<Option<u64>>,
}

impl LossWatch {
    /// Records a read. Returns whether the loss is certain.
    pub(super) fn note(&self, is_lost: bool, now: u64) -> bool {
        let mut since = sync::lock(&self.since);
        *since = is_lost.then(|| since.unwrap_or(now));
        since.is_some_and(|since| Duration::from_millis(now.saturating_sub(since)) >= LOSS_TIME)
    }
}

#[cfg(test)]
mod tests;
