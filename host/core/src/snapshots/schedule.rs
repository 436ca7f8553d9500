//! The times of a scheduled snapshot: a cron expression, or `every` with a duration.
//!
//! This file prevents a snapshot that is missed for good: a due time that passed while the server
//! was off or sealed is due at the next opening, once.

use bulkhead_schedule::Schedule;
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use std::fmt;

/// Maximum distance of two snapshots of a schedule `every`, in seconds: 366 days.
const LONGEST_INTERVAL: u64 = 366 * 86_400;

/// The times of a scheduled snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotSchedule {
    text: String,
    times: ScheduledTimes,
}

#[derive(Clone, Debug)]
enum ScheduledTimes {
    Calendar(Schedule),
    /// Multiples of this number of milliseconds, counted from 1970: a restart moves no time.
    Interval(u64),
}

impl SnapshotSchedule {
    /// Parses a cron expression such as `0 3 * * *` or `CRON_TZ=Europe/Paris 30 2 * * mon-fri`, or
    /// an interval such as `every 6h`.
    ///
    /// # Errors
    /// A message with the value and the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let times = match text.trim().split_once(char::is_whitespace) {
            Some(("every", interval)) => interval_of(interval.trim())?,
            _ => Schedule::parse(text).map(ScheduledTimes::Calendar).map_err(|why| {
                format!("{}: {why}; or write an interval such as \"every 6h\"", quoted(text))
            })?,
        };
        Ok(Self { text: text.trim().to_owned(), times })
    }

    /// Returns the first due time after `last`, in milliseconds since 1970. Without `last`, the
    /// snapshot is due at once.
    pub fn due_after(&self, last: Option<u64>) -> u64 {
        let Some(last) = last else { return 0 };
        match &self.times {
            ScheduledTimes::Calendar(schedule) => schedule.next_after(last).unwrap_or(u64::MAX),
            ScheduledTimes::Interval(interval) => last
                .checked_div(*interval)
                .map_or(u64::MAX, |count| count.saturating_add(1).saturating_mul(*interval)),
        }
    }
}

fn interval_of(text: &str) -> Result<ScheduledTimes, String> {
    let seconds = duration::parse(text)?;
    if (1..=LONGEST_INTERVAL).contains(&seconds) {
        return Ok(ScheduledTimes::Interval(seconds.saturating_mul(1_000)));
    }
    Err(format!(
        "every {}: the interval is not between 1s and {}",
        quoted(text),
        duration::show(LONGEST_INTERVAL)
    ))
}

impl fmt::Display for SnapshotSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
