//! Counts of durations in fixed ranges, shared by threads without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of ranges with an upper bound. One more range has no bound.
const RANGES: usize = 13;

/// Upper bounds for calls, in microseconds: from an answer out of memory to the time limit of a
/// call.
const CALL_BOUNDS: [u64; RANGES] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// Upper bounds for delays of due work, in microseconds: from a tenth of a second to a day.
const DELAY_BOUNDS: [u64; RANGES] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
    86_400_000_000,
];

/// A histogram of durations.
#[derive(Debug)]
pub struct DurationHistogram {
    /// Upper bounds of the ranges, in microseconds.
    bounds: &'static [u64; RANGES],
    ranges: [AtomicU64; RANGES + 1],
    microseconds: AtomicU64,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self::with_bounds(&CALL_BOUNDS)
    }
}

/// The content of a histogram at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramReading {
    /// Upper bounds in seconds, each with the number of durations up to the bound.
    pub cumulated: Vec<(f64, u64)>,
    /// Number of all durations.
    pub count: u64,
    /// Sum of all durations, in seconds.
    pub sum: f64,
}

impl DurationHistogram {
    /// Makes a histogram of delays, which may last a day.
    #[must_use]
    pub fn of_delays() -> Self {
        Self::with_bounds(&DELAY_BOUNDS)
    }

    fn with_bounds(bounds: &'static [u64; RANGES]) -> Self {
        Self { bounds, ranges: Default::default(), microseconds: AtomicU64::default() }
    }

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let time = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let range = self.bounds.iter().position(|bound| time <= *bound).unwrap_or(RANGES);
        if let Some(count) = self.ranges.get(range) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.microseconds.fetch_add(time, Ordering::Relaxed);
    }

    /// Returns the content. Durations that are counted meanwhile may be in the sum and not in the
    /// count.
    #[must_use]
    pub fn read(&self) -> HistogramReading {
        let mut count = 0;
        let mut cumulated = Vec::with_capacity(RANGES);
        for (range, bound) in self.ranges.iter().zip(self.bounds) {
            count += range.load(Ordering::Relaxed);
            cumulated.push((seconds(*bound), count));
        }
        let above = self.ranges.last().map_or(0, |range| range.load(Ordering::Relaxed));
        let sum = seconds(self.microseconds.load(Ordering::Relaxed));
        HistogramReading { cumulated, count: count + above, sum }
    }
}

/// Returns microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "no sum of times comes near the bounds of a float")]
#[must_use]
pub fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_each_bound() {
        let histogram = DurationHistogram::default();
        for micros in [0, 100, 101, 2_000_000, 11_000_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        let reading = histogram.read();
        let up_to = |bound: f64| reading.cumulated.iter().find(|(at, _)| *at == bound).unwrap().1;
        assert_eq!((up_to(0.0001), up_to(0.00025), up_to(1.0)), (2, 3, 3));
        assert_eq!((up_to(2.5), up_to(10.0), reading.count), (4, 4, 5));
        assert!((reading.sum - 13.000_201).abs() < 1e-9, "{}", reading.sum);
    }

    #[test]
    fn delays_are_counted_up_to_a_day() {
        let histogram = DurationHistogram::of_delays();
        for seconds in [0, 45, 7_200, 90_000] {
            histogram.observe(Duration::from_secs(seconds));
        }
        let reading = histogram.read();
        let counts: Vec<u64> = reading.cumulated.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3]);
        assert_eq!((reading.count, reading.cumulated[12].0), (4, 86_400.0));
    }

    #[test]
    fn longest_duration_does_not_overflow() {
        let histogram = DurationHistogram::default();
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.read().count, 1);
    }
}
