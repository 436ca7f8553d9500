//! Schedules: cron expressions, and their next due time in store time.
//!
//! An expression has five fields (minute, hour, day of the month, month, day of the week with
//! Sunday as 0), and a prefix such as `CRON_TZ=Europe/Paris` if the times are not UTC (decision
//! C3). If both day fields are restricted, a day needs to match only one. A time is due when a
//! clock on the wall of the zone shows that time: a time skipped by a forward clock change is not
//! due on that day, and a time shown twice is due twice.
//!
//! This file prevents a schedule from meaning another day to the cron library than to the servers
//! that the schedule was written for (`dialect.rs` translates), and refuses a schedule that is
//! never due. The crate is pure: components and the server read schedules alike.
//!
//! The modules in order: a module imports only from modules to its left. `tests/tidy` reads the
//! order from this page.
//!
//! ```text
//! dialect → zone
//! ```
//!
//! ```
//! use bulkhead_schedule::Schedule;
//!
//! let nightly = Schedule::parse("30 2 * * mon-fri")?;
//! let friday_evening = 1_767_978_000_000; // 2026-01-09T17:00:00Z
//! let monday = nightly.next_after(friday_evening);
//! assert_eq!(monday, Some(1_768_185_000_000)); // 2026-01-12T02:30:00Z
//! # Ok::<(), String>(())
//! ```

mod dialect;
mod zone;

use chrono::{DateTime, Utc};
use dialect::CronFields;
use zone::Zone;

/// Store time, in milliseconds since 1970.
type StoreTime = u64;

/// Maximum distance of a due time, in seconds: five years. Only the 29th of February around a year
/// such as 2100 is further away.
const SEARCHED: i64 = 5 * 366 * 86_400;
/// Maximum number of clock changes of a zone within [`SEARCHED`].
const SEARCHED_CHANGES: usize = 64;
/// Maximum length of an expression, in bytes.
const LONGEST: usize = 1_024;
/// 2001-01-01T00:00:00Z, from where `parse` looks for a due time.
const ANY_TIME: StoreTime = 978_307_200_000;

/// A cron expression that is due at least once.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// A day is due if any calendar matches; two calendars if both day fields are restricted.
    calendars: Vec<cron::Schedule>,
    zone: Zone,
}

impl Schedule {
    /// Parses an expression.
    ///
    /// # Errors
    /// A message with the cause, the value and the remedy: an expression over 1,024 bytes, a wrong
    /// number of fields, a word or number that the field does not allow, an unknown zone, a
    /// descriptor such as `@daily`, or a schedule that is never due, such as the 30th of February.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it has {} bytes; at most {LONGEST} are read", text.len()));
        }
        let (zone, fields) = zone::split(text)?;
        let fields = CronFields::parse(fields)?;
        let read = |calendar: String| {
            calendar.parse().map_err(|error: cron::error::Error| error.to_string())
        };
        let calendars = fields.calendars().into_iter().map(read).collect::<Result<_, _>>()?;
        let schedule = Self { calendars, zone };
        match schedule.next_after(ANY_TIME) {
            Some(_) => Ok(schedule),
            None => Err(format!("{text:?} is never due; choose an existing day")),
        }
    }

    /// Returns the first due time after `time`, in milliseconds; `None` if there is none within
    /// five years.
    #[must_use]
    pub fn next_after(&self, time: StoreTime) -> Option<StoreTime> {
        let start = i64::try_from(time / 1_000).ok()?;
        let (mut begun, mut after) = (start, start);
        for _ in 0..SEARCHED_CHANGES {
            let span = self.zone.span(begun)?;
            let due =
                self.next_on_wall(after.checked_add(span.offset)?).map(|due| due - span.offset);
            match (due, span.end) {
                // The clocks change first: continue from the change, including its second.
                (due, Some(end)) if due.is_none_or(|due| due >= end) => {
                    (begun, after) = (end, end - 1);
                }
                (due, _) => {
                    return due.filter(|due| due - start <= SEARCHED).and_then(milliseconds);
                }
            }
            if after - start > SEARCHED {
                return None;
            }
        }
        None
    }

    /// Returns the first due time after `seconds` on the clock on the wall, both written as if in
    /// UTC.
    fn next_on_wall(&self, seconds: i64) -> Option<i64> {
        let wall = DateTime::<Utc>::from_timestamp(seconds, 0)?;
        let next = |calendar: &cron::Schedule| calendar.after(&wall).next();
        self.calendars.iter().filter_map(next).min().map(|due| due.timestamp())
    }
}

fn milliseconds(seconds: i64) -> Option<StoreTime> {
    StoreTime::try_from(seconds).ok()?.checked_mul(1_000)
}

#[cfg(test)]
mod tests;
