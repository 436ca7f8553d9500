//! The budget of bytes that the due work of a mount writes: a burst, and a rate.
//!
//! This file prevents timers that write and schedule themselves again, which one request starts and
//! nothing ends, from writing at the speed of the disk. A mount over its budget waits, and no other
//! mount.

use bulkhead_wire::sync;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Burst in bytes: some thousands of rotations that are due together.
const BURST_BYTES: u64 = 64 << 20;
/// Bytes a second: several times the rate of a busy engine.
const BYTES_PER_SECOND: u64 = 4 << 20;
/// Interval between two log lines about one mount.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The budget of one mount.
#[derive(Default)]
pub(super) struct DueWrites(Mutex<WrittenBytes>);

#[derive(Default)]
struct WrittenBytes {
    /// Bytes that the rate has not covered yet.
    bytes: u64,
    /// The moment of the last count.
    at: Option<Instant>,
    last_logged: Option<Instant>,
}

impl WrittenBytes {
    fn uncovered_bytes(&self, now: Instant) -> u64 {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let good = u128::from(BYTES_PER_SECOND) * passed.as_millis() / 1_000;
        self.bytes.saturating_sub(u64::try_from(good).unwrap_or(u64::MAX))
    }
}

impl DueWrites {
    /// Counts written bytes. Returns `true` if the mount is over its burst, at most once a minute.
    pub(super) fn count(&self, bytes: usize, now: Instant) -> bool {
        let mut written = sync::lock(&self.0);
        written.bytes = written.uncovered_bytes(now).saturating_add(bytes as u64);
        written.at = Some(now);
        let is_recent = |last_logged| now.saturating_duration_since(last_logged) < LOG_INTERVAL;
        if written.bytes <= BURST_BYTES || written.last_logged.is_some_and(is_recent) {
            return false;
        }
        written.last_logged = Some(now);
        true
    }

    /// Returns how long timers have to wait until the mount is within its burst again.
    pub(super) fn remaining_wait(&self, now: Instant) -> Option<Duration> {
        let over = sync::lock(&self.0)
            .uncovered_bytes(now)
            .checked_sub(BURST_BYTES)
            .filter(|over| *over > 0)?;
        Some(Duration::from_millis(over.saturating_mul(1_000).div_ceil(BYTES_PER_SECOND)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_writes_over_burst_cause_wait() {
        let (writes, began) = (DueWrites::default(), Instant::now());
        assert!(!writes.count(BURST_BYTES as usize, began));
        assert_eq!(writes.remaining_wait(began), None);
        assert!(writes.count(2 * BYTES_PER_SECOND as usize, began), "the first excess is logged");
        assert!(!writes.count(0, began), "a second excess at once is not logged");
        assert_eq!(writes.remaining_wait(began), Some(Duration::from_secs(2)));
        let later = began + Duration::from_millis(1_500);
        assert_eq!(writes.remaining_wait(later), Some(Duration::from_millis(500)));
        assert_eq!(writes.remaining_wait(began + Duration::from_secs(2)), None);
        assert!(
            writes.count(BURST_BYTES as usize + 1, began + LOG_INTERVAL),
            "an excess is logged again after the interval"
        );
    }

    #[test]
    fn a_mount_within_its_write_budget_never_waits() {
        let (writes, mut now) = (DueWrites::default(), Instant::now());
        for _ in 0..10_000 {
            assert!(!writes.count(BYTES_PER_SECOND as usize / 10, now));
            assert_eq!(writes.remaining_wait(now), None);
            now += Duration::from_millis(100);
        }
        writes.count(usize::MAX, now);
        assert!(writes.remaining_wait(now).is_some_and(|wait| wait > Duration::from_secs(1_000)));
    }
}
