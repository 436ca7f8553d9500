//! Store time: the one clock by which records are due.
//!
//! The attack this file stops: two clocks. An expiry that is computed from one clock and compared
//! with another lets a credential live too long or end too early, so nothing else in the host reads
//! the system's clock for meaning.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 that never run backwards while the process lives, even when the system's
/// clock is set back.
#[derive(Default)]
pub(crate) struct Clock {
    latest: AtomicU64,
}

impl Clock {
    /// The store time now.
    pub(crate) fn now(&self) -> u64 {
        self.not_before(system_milliseconds())
    }

    fn not_before(&self, reading: u64) -> u64 {
        self.latest.fetch_max(reading, Ordering::Relaxed).max(reading)
    }
}

/// A system clock before 1970 reads as 1970: then what is due stays undone rather than ended too
/// early.
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
fn system_milliseconds() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_clock_that_is_set_back_does_not_turn_store_time_back() {
        let clock = Clock::default();
        assert_eq!(clock.not_before(2_000), 2_000);
        assert_eq!(clock.not_before(1_500), 2_000);
        assert_eq!(clock.not_before(2_001), 2_001);
    }

    #[test]
    fn store_time_counts_milliseconds_since_1970() {
        let from_2020_to_2200 = 1_577_836_800_000..7_258_118_400_000;
        assert!(from_2020_to_2200.contains(&Clock::default().now()));
    }
}
