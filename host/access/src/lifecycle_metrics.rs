//! Counts of lives: creations, renewals and ends of tokens, or of the leases of a mount.
//!
//! This file prevents labels from callers: an end counts for one of a few causes.

use bulkhead_wire::event_counts::{CountedEvent, EventCounts};
use bulkhead_wire::sync;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of overdue leases of a mount that are counted.
const MAX_OVERDUE: usize = 100_000;

/// The cause of an end. The words are a part of the stored format of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndCause {
    /// An operator, the owner, or the end of a mount or a parent.
    Revoked,
    /// The lifetime is over.
    Expired,
    /// No use is left.
    UsedUp,
    /// The owning token ended.
    TokenEnded,
    /// The caller did not receive the answer.
    Undone,
    /// The last attempt of a forced end failed.
    GivenUp,
}

impl CountedEvent<6> for EndCause {
    const COUNTED: [Self; 6] =
        [Self::Revoked, Self::Expired, Self::UsedUp, Self::TokenEnded, Self::Undone, Self::GivenUp];
}

impl EndCause {
    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::UsedUp => "used-up",
            Self::TokenEnded => "token-ended",
            Self::Undone => "undone",
            Self::GivenUp => "given-up",
        }
    }
}

/// Counts since the service was opened or the mount was enabled.
#[derive(Debug, Default)]
pub struct LifecycleCounts {
    created: AtomicU64,
    renewed: AtomicU64,
    ended: EventCounts<EndCause, 6>,
    failed_ends: AtomicU64,
    overdue: Mutex<HashSet<u64>>,
    /// Randomly keyed, so that no caller chooses two leases with the same hash.
    hasher: RandomState,
}

/// The counts at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleReading {
    /// Number of creations.
    pub created: u64,
    /// Number of renewals.
    pub renewed: u64,
    /// Numbers of ends that are not 0, by cause.
    pub ended: Vec<(EndCause, u64)>,
    /// Number of failed attempts to end.
    pub failed_ends: u64,
    /// Number of leases and reservations whose end was put off, and that still exist; at most
    /// 100,000.
    pub overdue: u64,
}

impl LifecycleCounts {
    /// Counts a committed creation.
    pub fn note_created(&self) {
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a committed renewal.
    pub fn note_renewed(&self) {
        self.renewed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a committed end.
    pub fn note_end(&self, cause: EndCause) {
        self.ended.note(cause);
    }

    /// Counts an attempt to end that failed.
    pub fn note_failed_end(&self) {
        self.failed_ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the end of the row `key` is put off, so that the row is overdue.
    pub fn note_overdue(&self, key: &str) {
        let mut overdue = sync::lock(&self.overdue);
        if overdue.len() < MAX_OVERDUE {
            overdue.insert(self.hasher.hash_one(key));
        }
    }

    /// Notes that the row `key` does not exist any more.
    pub fn note_gone(&self, key: &str) {
        sync::lock(&self.overdue).remove(&self.hasher.hash_one(key));
    }

    /// Returns the counts.
    #[must_use]
    pub fn read(&self) -> LifecycleReading {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LifecycleReading {
            created: load(&self.created),
            renewed: load(&self.renewed),
            ended: self.ended.read().into_iter().filter(|(_, count)| *count > 0).collect(),
            failed_ends: load(&self.failed_ends),
            overdue: sync::lock(&self.overdue).len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_count_by_cause() {
        let counts = LifecycleCounts::default();
        counts.note_created();
        counts.note_renewed();
        counts.note_failed_end();
        counts.note_overdue("a");
        for cause in [EndCause::GivenUp, EndCause::Revoked, EndCause::GivenUp] {
            counts.note_end(cause);
        }
        let ended = vec![(EndCause::Revoked, 1), (EndCause::GivenUp, 2)];
        let expected =
            LifecycleReading { created: 1, renewed: 1, ended, failed_ends: 1, overdue: 1 };
        assert_eq!(counts.read(), expected);
    }

    #[test]
    fn overdue_rows_count_once_until_gone() {
        let counts = LifecycleCounts::default();
        for key in ["a", "b", "a"] {
            counts.note_overdue(key);
        }
        assert_eq!(counts.read().overdue, 2);
        ["a", "c"].into_iter().for_each(|key| counts.note_gone(key));
        assert_eq!(counts.read().overdue, 1);
    }
}
