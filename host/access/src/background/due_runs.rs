//! Counts of runs of due work, by kind and outcome.

use bulkhead_store::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of a run whose result could be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueOutcome {
    /// The work is done.
    Done,
    /// The attempt failed; the next attempt is scheduled, if there is one.
    Failed,
    /// The work waits: for its plugin, for a share of the store, or after a conflict in the store.
    Delayed,
    /// Nothing was due any more.
    Moot,
}

impl DueOutcome {
    /// The counted outcomes.
    const COUNTED: [Self; 3] = [Self::Done, Self::Failed, Self::Delayed];

    /// Returns the value of the label.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Delayed => "delayed",
            Self::Moot => "moot",
        }
    }
}

/// The kinds of due rows, each with the value of its label.
const KINDS: [(Space, &str); 5] = [
    (Space::Lease, "lease"),
    (Space::Reservation, "reservation"),
    (Space::Timer, "timer"),
    (Space::Token, "token"),
    (Space::Core, "key"),
];

/// Counts of runs since the service was opened.
#[derive(Debug, Default)]
pub struct DueRunCounts {
    /// By kind and outcome, in the order of the constants.
    runs: [[AtomicU64; 3]; 5],
}

impl DueRunCounts {
    /// Counts a run.
    pub(super) fn note(&self, space: Space, outcome: DueOutcome) {
        let kind = KINDS.iter().position(|(kind, _)| *kind == space);
        let outcome = DueOutcome::COUNTED.iter().position(|counted| *counted == outcome);
        let (Some(kind), Some(outcome)) = (kind, outcome) else { return };
        if let Some(count) = self.runs.get(kind).and_then(|kind| kind.get(outcome)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the word of the kind, the outcome and the number of runs, for numbers that are not
    /// 0.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, DueOutcome, u64)> {
        let mut read = Vec::new();
        for ((_, kind), outcomes) in KINDS.into_iter().zip(&self.runs) {
            for (outcome, count) in DueOutcome::COUNTED.into_iter().zip(outcomes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    read.push((kind, outcome, count));
                }
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_by_kind_and_outcome() {
        let counts = DueRunCounts::default();
        counts.note(Space::Timer, DueOutcome::Failed);
        counts.note(Space::Lease, DueOutcome::Done);
        counts.note(Space::Lease, DueOutcome::Done);
        counts.note(Space::Lease, DueOutcome::Moot);
        counts.note(Space::Data, DueOutcome::Done);
        let expected = [("lease", DueOutcome::Done, 2), ("timer", DueOutcome::Failed, 1)];
        assert_eq!(counts.read(), expected);
    }
}
