//! The decision to record a trace (decision H97).
//!
//! This file prevents callers from making the server export everything: the flag of a caller counts
//! for a few traces a second, the flag of a stranger for none, and a caller chooses no number that
//! decides by the ratio.

use bulkhead_wire::sync;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of traces a second that callers begin by their own flags, and at once.
const CALLER_TRACES_PER_SECOND: u32 = 10;
/// Number of random bits that decide by the ratio: the bits that ids of every kind have.
const RANDOM_BITS: u32 = 56;

/// The sampler.
pub(crate) struct Sampler {
    /// The ratio, as a number of 2^56.
    threshold: AtomicU64,
    by_callers: Mutex<CallerBudget>,
}

/// The traces that callers may begin.
struct CallerBudget {
    left: u32,
    /// Time of the last growth.
    grown: Instant,
}

impl Sampler {
    /// Creates a sampler for the ratio, from 0 to 1.
    pub(crate) fn new(ratio: f64) -> Self {
        let budget = CallerBudget { left: CALLER_TRACES_PER_SECOND, grown: Instant::now() };
        let sampler = Self { threshold: AtomicU64::new(0), by_callers: Mutex::new(budget) };
        sampler.set_ratio(ratio);
        sampler
    }

    /// Changes the ratio, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a ratio within 0 and 1 of 2^56 is a number within 0 and 2^56"
    )]
    pub(crate) fn set_ratio(&self, ratio: f64) {
        let threshold = ratio.clamp(0.0, 1.0) * (1_u64 << RANDOM_BITS) as f64;
        self.threshold.store(threshold as u64, Ordering::Relaxed);
    }

    /// Decides by the ratio. `random` is a number that no caller chose.
    pub(crate) fn samples(&self, random: u64) -> bool {
        let share = random & ((1 << RANDOM_BITS) - 1);
        share < self.threshold.load(Ordering::Relaxed)
    }

    /// Decides on the trace of a caller, by the flag of the caller. A sampled trace over the limit
    /// is decided by the ratio.
    pub(crate) fn samples_of_caller(&self, is_sampled: bool, random: u64, now: Instant) -> bool {
        is_sampled && (self.take_of_caller(now) || self.samples(random))
    }

    fn take_of_caller(&self, now: Instant) -> bool {
        let mut budget = sync::lock(&self.by_callers);
        if now.saturating_duration_since(budget.grown) >= Duration::from_secs(1) {
            *budget = CallerBudget { left: CALLER_TRACES_PER_SECOND, grown: now };
        }
        let has_room = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are spread evenly.
    fn spread() -> impl Iterator<Item = u64> {
        (0..10_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8)
    }

    #[test]
    fn ratio_decides_on_its_share_of_traces() {
        for (ratio, least, most) in [(0.0, 0, 0), (0.01, 80, 120), (1.0, 10_000, 10_000)] {
            let sampler = Sampler::new(ratio);
            let count = spread().filter(|random| sampler.samples(*random)).count();
            assert!((least..=most).contains(&count), "{ratio}: {count}");
        }
        let sampler = Sampler::new(0.0);
        sampler.set_ratio(1.0);
        assert!(sampler.samples(u64::MAX));
        sampler.set_ratio(f64::NAN);
        assert!(!sampler.samples(0), "a number that is none samples nothing");
    }

    #[test]
    fn callers_begin_a_few_traces_each_second() {
        let (sampler, begin) = (Sampler::new(0.0), Instant::now());
        let count = |at: Instant| {
            let taken = (0..1_000).filter(|_| sampler.samples_of_caller(true, 0, at));
            u32::try_from(taken.count()).unwrap()
        };
        assert_eq!(count(begin), CALLER_TRACES_PER_SECOND);
        assert_eq!(count(begin + Duration::from_millis(900)), 0);
        assert_eq!(count(begin + Duration::from_secs(2)), CALLER_TRACES_PER_SECOND);
        assert!(!Sampler::new(1.0).samples_of_caller(false, 0, begin), "the caller samples not");
    }
}
