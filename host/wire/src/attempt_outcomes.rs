//! Outcomes of named attempts that a schedule repeats, such as scheduled snapshots.
//!
//! This file prevents a failure that a restart hides: the time of the last success is also the time
//! of an older result that an attempt finds.

use crate::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The outcomes, by the name of the attempt.
#[derive(Debug, Default)]
pub struct AttemptOutcomes(Mutex<BTreeMap<String, AttemptOutcome>>);

/// The outcomes of the attempts of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// Time of the latest result, in milliseconds since 1970. `None`: no result is known.
    pub succeeded_at: Option<u64>,
    /// Number of failed attempts.
    pub failures: u64,
    /// True if the last attempt failed.
    pub is_failing: bool,
}

impl AttemptOutcomes {
    /// Notes an attempt: the time of its result, in milliseconds since 1970, or `None` for a
    /// failure.
    pub fn note(&self, name: &str, succeeded_at: Option<u64>) {
        let mut outcomes = sync::lock(&self.0);
        let outcome = outcomes.entry(name.to_owned()).or_default();
        outcome.succeeded_at = outcome.succeeded_at.max(succeeded_at);
        outcome.is_failing = succeeded_at.is_none();
        outcome.failures += u64::from(outcome.is_failing);
    }

    /// Notes the time of an older result, in milliseconds since 1970.
    pub fn note_earlier(&self, name: &str, succeeded_at: Option<u64>) {
        let mut outcomes = sync::lock(&self.0);
        let outcome = outcomes.entry(name.to_owned()).or_default();
        outcome.succeeded_at = outcome.succeeded_at.max(succeeded_at);
    }

    /// Returns the number of names whose last attempt failed.
    #[must_use]
    pub fn count_failing(&self) -> usize {
        sync::lock(&self.0).values().filter(|outcome| outcome.is_failing).count()
    }

    /// Returns the outcomes of each name, in order.
    #[must_use]
    pub fn read(&self) -> Vec<(String, AttemptOutcome)> {
        sync::lock(&self.0).iter().map(|(name, outcome)| (name.clone(), *outcome)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_attempts_are_counted_until_success() {
        let outcomes = AttemptOutcomes::default();
        for name in ["a", "a", "b"] {
            outcomes.note(name, None);
        }
        assert_eq!(outcomes.count_failing(), 2);
        outcomes.note("a", Some(7));
        assert_eq!(outcomes.count_failing(), 1);
        let a = AttemptOutcome { succeeded_at: Some(7), failures: 2, is_failing: false };
        assert_eq!(outcomes.read()[0], ("a".to_owned(), a));
    }

    #[test]
    fn earlier_result_ends_no_failure() {
        let outcomes = AttemptOutcomes::default();
        outcomes.note("a", None);
        outcomes.note_earlier("a", Some(5));
        outcomes.note_earlier("a", None);
        let (_, outcome) = outcomes.read()[0];
        assert_eq!((outcome.succeeded_at, outcome.is_failing), (Some(5), true));
    }
}
