//! Times that come again: a cron expression, and when it is next due in store time.
//!
//! Five fields (minute, hour, day of the month, month, day of the week with Sunday as 0), and in
//! front of them `CRON_TZ=Europe/Paris` where the times are not UTC (decision C3). Where both day
//! fields are restricted, either of them suffices. A time is due when a clock on the wall of its
//! zone shows it: one that is skipped when clocks are set forward is not due on that day, one that
//! is shown twice is due twice.
//!
//! The faults this file stops: a schedule that means another day to the calendar below than to the
//! servers it was written for (`schedule/dialect.rs` translates), and one that is stored and never
//! comes.
//!
//! ```
//! use bulkhead_sdk::schedule::Schedule;
//!
//! let nightly = Schedule::parse("30 2 * * mon-fri")?;
//! let friday_evening = 1_767_978_000_000; // 2026-01-09T17:00:00Z
//! let monday = nightly.next_after(friday_evening);
//! assert_eq!(monday, Some(1_768_185_000_000)); // 2026-01-12T02:30:00Z
//! # Ok::<(), String>(())
//! ```

mod dialect;
mod zone;

use crate::database_plugin::StoreTime;
use chrono::{DateTime, Utc};
use dialect::Fields;
use zone::Zone;

/// How far ahead a due time is looked for: five years, in seconds. None is so far apart but for the
/// 29th of February around a year that is none of four.
const SEARCHED: i64 = 5 * 366 * 86_400;
/// Times that a zone's clocks are set within that, at most.
const MOST_CHANGES: usize = 64;
/// Longest expression, in bytes.
const LONGEST: usize = 1_024;
/// 2001-01-01T00:00:00Z: whether a schedule is ever due is asked from here.
const ANY_TIME: StoreTime = 978_307_200_000;

/// A cron expression that is due at some time.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// A day is due when any of these says so: two where both day fields are restricted.
    calendars: Vec<cron::Schedule>,
    zone: Zone,
}

impl Schedule {
    /// Reads an expression.
    ///
    /// # Errors
    /// A message with what was wrong, which value, and what to write: another number of fields, a
    /// word or number that the field does not know, an unknown zone, a descriptor such as `@daily`,
    /// and a schedule that is never due, such as the 30th of February.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it has {} bytes; at most {LONGEST} are read", text.len()));
        }
        let (zone, fields) = zone::split(text)?;
        let fields = Fields::parse(fields)?;
        let read = |calendar: String| {
            calendar.parse().map_err(|error: cron::error::Error| error.to_string())
        };
        let calendars = fields.calendars().into_iter().map(read).collect::<Result<_, _>>()?;
        let schedule = Self { calendars, zone };
        match schedule.next_after(ANY_TIME) {
            Some(_) => Ok(schedule),
            None => Err(format!("{text:?} is never due; choose a day that there is")),
        }
    }

    /// The first due time after `time`, in milliseconds; `None` when there is none within five
    /// years.
    #[must_use]
    pub fn next_after(&self, time: StoreTime) -> Option<StoreTime> {
        let start = i64::try_from(time / 1_000).ok()?;
        let (mut begun, mut after) = (start, start);
        for _ in 0..MOST_CHANGES {
            let span = self.zone.span(begun)?;
            let due =
                self.next_on_wall(after.checked_add(span.offset)?).map(|due| due - span.offset);
            match (due, span.end) {
                // The clocks are set before: look from there on, that second included.
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

    /// The first time after `seconds` that a clock on the wall shows, both as if it were UTC.
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
