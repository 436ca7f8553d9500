//! Counts of runs of due work, by kind and outcome.

use bulkhead_store::Space;
use bulkhead_wire::event_counts::{CountedEvent, EventCounts};

/// The outcome of a run whose result could be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueOutcome {
    /// The work is done.
    Done,
    /// The attempt failed; the next attempt is scheduled, if there is one.
    Failed,
    /// The work waits: for its plugin, for a share of the store, or after a conflict in the store.
    Delayed,
    /// Nothing was due any more. Not counted.
    Moot,
}

impl CountedEvent<3> for DueOutcome {
    const COUNTED: [Self; 3] = [Self::Done, Self::Failed, Self::Delayed];
}

impl DueOutcome {
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
    /// In the order of [`KINDS`].
    runs: [EventCounts<DueOutcome, 3>; KINDS.len()],
}

impl DueRunCounts {
    /// Counts a run.
    pub(super) fn note(&self, space: Space, outcome: DueOutcome) {
        let found = KINDS.iter().zip(&self.runs).find(|((kind, _), _)| *kind == space);
        if let Some((_, runs)) = found {
            runs.note(outcome);
        }
    }

    /// Returns the word of the kind, the outcome and the number of runs, for numbers that are not
    /// 0.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, DueOutcome, u64)> {
        let by_kind = KINDS.iter().zip(&self.runs);
        let read = by_kind.flat_map(|((_, kind), runs)| {
            runs.read().into_iter().map(|(outcome, count)| (*kind, outcome, count))
        });
        read.filter(|(_, _, count)| *count > 0).collect()
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
