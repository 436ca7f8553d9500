//! The limit on lines of one event.
//!
//! This file prevents a flood of one event, such as a target that refuses each of a thousand
//! requests a second, from filling the disk of the log and hiding the other lines. The number of
//! lines that were left out is never lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of lines of one event about one mount in a window.
const MAX_LINES: u32 = 1_000;

/// Length of the window.
const WINDOW: Duration = Duration::from_secs(10);

/// Interval at which the lines that were left out are counted in the log.
pub(super) const LEFT_OUT_PERIOD: Duration = WINDOW;

/// Maximum number of events whose lines are counted; components choose the names of events. The
/// events above the maximum share a count.
const MAX_EVENTS: usize = 1_024;

/// The lines of the present windows.
#[derive(Default)]
pub(super) struct FloodLimiter {
    /// By event and mount.
    windows: HashMap<(String, String), EventWindow>,
}

struct EventWindow {
    begin: Instant,
    lines: u32,
    left_out: u64,
}

/// The decision about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineAdmission {
    /// The line is written, and says that so many lines before were left out.
    Admitted {
        left_out: u64,
    },
    LeftOut,
}

/// Lines of an event that were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) event: String,
    /// Empty for an event without a mount.
    pub(super) mount: String,
    pub(super) lines: u64,
}

impl FloodLimiter {
    /// Decides about a line of an event about a mount.
    pub(super) fn admit(&mut self, (event, mount): (&str, &str), now: Instant) -> LineAdmission {
        let mut key = (event.to_owned(), mount.to_owned());
        if self.windows.len() >= MAX_EVENTS && !self.windows.contains_key(&key) {
            self.windows.retain(|_, window| !(window.has_ended(now) && window.left_out == 0));
            if self.windows.len() >= MAX_EVENTS {
                key = (String::new(), String::new());
            }
        }
        let fresh = || EventWindow { begin: now, lines: 0, left_out: 0 };
        let window = self.windows.entry(key).or_insert_with(fresh);
        let mut left_out = 0;
        if window.has_ended(now) {
            left_out = window.left_out;
            *window = fresh();
        }
        if window.lines >= MAX_LINES {
            window.left_out += 1;
            return LineAdmission::LeftOut;
        }
        window.lines += 1;
        LineAdmission::Admitted { left_out }
    }

    /// Removes the windows that ended, and returns the lines that they left out.
    pub(super) fn take_ended(&mut self, now: Instant) -> Vec<LeftOut> {
        let ended = self.windows.extract_if(|_, window| window.has_ended(now));
        ended
            .filter(|(_, window)| window.left_out > 0)
            .map(|((event, mount), window)| LeftOut { event, mount, lines: window.left_out })
            .collect()
    }
}

impl EventWindow {
    fn has_ended(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begin) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMITTED: LineAdmission = LineAdmission::Admitted { left_out: 0 };

    fn flood(limiter: &mut FloodLimiter, mount: &str, lines: u32, now: Instant) {
        for _ in 0..lines {
            limiter.admit(("http-failed", mount), now);
        }
    }

    #[test]
    fn lines_above_limit_are_left_out_and_counted() {
        let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
        flood(&mut limiter, "a/", MAX_LINES, begin);
        assert_eq!(limiter.admit(("http-failed", "a/"), begin), LineAdmission::LeftOut);
        assert_eq!(limiter.admit(("http-failed", "a/"), begin), LineAdmission::LeftOut);
        assert_eq!(limiter.admit(("http-failed", "b/"), begin), ADMITTED);
        assert_eq!(limiter.admit(("sealed", ""), begin), ADMITTED);
        assert!(limiter.take_ended(begin).is_empty());
        let later = begin + WINDOW;
        let next = limiter.admit(("http-failed", "a/"), later);
        assert_eq!(next, LineAdmission::Admitted { left_out: 2 });
        assert_eq!(limiter.admit(("http-failed", "a/"), later), ADMITTED);
    }

    #[test]
    fn end_of_flood_reports_count_once() {
        let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
        flood(&mut limiter, "a/", MAX_LINES + 7, begin);
        flood(&mut limiter, "b/", 3, begin);
        let (event, mount) = ("http-failed".to_owned(), "a/".to_owned());
        let later = begin + WINDOW;
        assert_eq!(limiter.take_ended(later), [LeftOut { event, mount, lines: 7 }]);
        assert!(limiter.take_ended(later).is_empty());
        assert_eq!(limiter.admit(("http-failed", "a/"), later), ADMITTED);
    }

    #[test]
    fn made_up_events_share_a_count_above_maximum() {
        let (mut limiter, begin) = (FloodLimiter::default(), Instant::now());
        for number in 0..MAX_EVENTS + 10 {
            assert_eq!(limiter.admit((&format!("e{number}"), ""), begin), ADMITTED);
        }
        assert_eq!(limiter.windows.len(), MAX_EVENTS + 1);
        let later = begin + WINDOW;
        assert_eq!(limiter.admit(("another", ""), later), ADMITTED);
        assert_eq!(limiter.windows.len(), 1);
    }
}
