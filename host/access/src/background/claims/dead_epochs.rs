//! Claims of dead processes.
//!
//! This file prevents records of claims from staying after the death of another node, at addresses
//! that nobody claims again.

use super::{ClaimRecords, Claims};
use bulkhead_store::StoreFault;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two looks at the living epochs.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Maximum time between two removals: a process may start and die between two looks.
const REMOVED_EVERY: Duration = Duration::from_secs(60);

/// The epochs at the last look whose dead epochs have no records.
#[derive(Default)]
struct KnownEpochs {
    living: BTreeSet<String>,
    removed: Option<Instant>,
}

impl Claims {
    /// Removes the records of claims of other processes after the death of each process. Never
    /// ends.
    pub(in crate::background) async fn watch_epochs(&self) {
        let Some(records) = &self.records else { return std::future::pending().await };
        let mut epochs = KnownEpochs::default();
        loop {
            // A failure is a part of an outage, which has its own lines in the log. The next look
            // finds the same epochs missing.
            drop(epochs.look(records).await);
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

impl KnownEpochs {
    async fn look(&mut self, records: &ClaimRecords) -> Result<(), StoreFault> {
        let living = records.living_epochs().await?;
        let has_died = !self.living.is_subset(&living);
        if has_died || self.removed.is_none_or(|removed| removed.elapsed() >= REMOVED_EVERY) {
            records.remove_dead().await?;
            self.removed = Some(Instant::now());
        }
        self.living = living;
        Ok(())
    }
}
