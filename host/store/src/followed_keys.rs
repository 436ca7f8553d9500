//! Counts of changes on a shared database, for values in memory that were derived from records.
//!
//! This file prevents the use of a derived value, as a parsed policy, after another node changed
//! its record: the count rises before the change counts as read (`crate::change_watch`). A commit
//! of this node that waits for the other nodes counts before its answer, because the other nodes
//! show the change already.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bulkhead_wire::sync;

use bulkhead_record::record::{Address, Space};

/// The number of times that a node changed records below a prefix of a shared database. A look is
/// one read of memory.
#[derive(Clone, Debug, Default)]
pub struct ForeignChangeCount(Arc<AtomicU64>);

impl ForeignChangeCount {
    /// Returns the number. Equal numbers before and after the derivation of a value, and at its
    /// use, mean that no node changed a record meanwhile.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The prefixes with counts, all in [`Space::Core`].
#[derive(Default)]
pub(crate) struct FollowedKeys {
    counts: Mutex<Vec<(&'static str, ForeignChangeCount)>>,
}

impl FollowedKeys {
    /// Returns the count of a prefix.
    pub(crate) fn follow(&self, prefix: &'static str) -> ForeignChangeCount {
        let mut counts = sync::lock(&self.counts);
        if let Some((_, count)) = counts.iter().find(|(name, _)| *name == prefix) {
            return count.clone();
        }
        let count = ForeignChangeCount::default();
        counts.push((prefix, count.clone()));
        count
    }

    /// Counts a change of these records.
    pub(crate) fn note_changes(&self, changed: &[Address]) {
        let is_below = |address: &Address, prefix: &str| {
            address.space == Space::Core && address.key.starts_with(prefix)
        };
        for (prefix, count) in sync::lock(&self.counts).iter() {
            if changed.iter().any(|address| is_below(address, prefix)) {
                count.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Counts a change of every prefix.
    pub(crate) fn note_gap(&self) {
        for (_, count) in sync::lock(&self.counts).iter() {
            count.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
