//! Counts of lives: creations, renewals and ends of tokens, or of the leases of a mount.
//!
//! This file prevents labels from callers: an end counts for one of a few causes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The cause of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl EndCause {
    const ALL: [Self; 6] =
        [Self::Revoked, Self::Expired, Self::UsedUp, Self::TokenEnded, Self::Undone, Self::GivenUp];

    /// Returns the place of the constant in [`Self::ALL`].
    fn place(self) -> usize {
        Self::ALL.iter().position(|other| *other == self).unwrap_or_default()
    }

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
    /// By cause, in the order of [`EndCause::ALL`].
    ended: [AtomicU64; 6],
    failed_ends: AtomicU64,
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
        if let Some(count) = self.ended.get(cause.place()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an attempt to end that failed.
    pub fn note_failed_end(&self) {
        self.failed_ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts.
    #[must_use]
    pub fn read(&self) -> LifecycleReading {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ended = EndCause::ALL.into_iter().zip(self.ended.iter().map(load));
        LifecycleReading {
            created: load(&self.created),
            renewed: load(&self.renewed),
            ended: ended.filter(|(_, count)| *count > 0).collect(),
            failed_ends: load(&self.failed_ends),
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
        for cause in [EndCause::GivenUp, EndCause::Revoked, EndCause::GivenUp] {
            counts.note_end(cause);
        }
        let ended = vec![(EndCause::Revoked, 1), (EndCause::GivenUp, 2)];
        let expected = LifecycleReading { created: 1, renewed: 1, ended, failed_ends: 1 };
        assert_eq!(counts.read(), expected);
    }
}
