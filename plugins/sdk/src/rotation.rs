//! Rotation by itself: the settings that configurations and static roles share, when a rotation is
//! due, and whether one that was missed waits for the next time.
//!
//! The faults this file stops: settings that contradict each other and mean whichever the reader
//! asks first, and a rotation outside of the hours that an operator set aside for it.
//!
//! An engine keeps [`Settings`] in its record beside the times of [`Times`], sets a timer for
//! [`Times::due`], and asks [`Settings::decide`] when it is woken.
//!
//! ```
//! use bulkhead_sdk::rotation::{Decision, Settings, Times};
//!
//! let settings = Settings { period: 86_400, ..Settings::default() };
//! let now = 1_767_225_600_000;
//! let times = settings.rotated_at(now)?;
//! assert_eq!(times, Times { last: Some(now), due: Some(now + 86_400_000) });
//! assert_eq!(settings.decide(&times, now)?, Decision::Wait(now + 86_400_000));
//! assert_eq!(settings.decide(&times, now + 90_000_000)?, Decision::Rotate);
//! # Ok::<(), bulkhead_sdk::Failure>(())
//! ```

use crate::call::Call;
use crate::database_plugin::StoreTime;
use crate::schedule::Schedule;
use crate::table::Field;
use bulkhead_wire::duration::show;
use bulkhead_wire::failure::{Failure, quoted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const PERIOD: Field = Field::seconds("rotation_period", "seconds between rotations; 0 is none");
const SCHEDULE: Field =
    Field::text("rotation_schedule", "five fields of cron, instead of a period");
const WINDOW: Field =
    Field::seconds("rotation_window", "seconds after a scheduled time in which it may happen");
const DISABLED: Field =
    Field::flag("disable_automated_rotation", "whether nothing is rotated by itself");

/// The fields of a configuration whose own credential is rotated.
pub const CONFIG_FIELDS: &[Field] = &[PERIOD, SCHEDULE, WINDOW, DISABLED];
/// The fields of a role whose credential is rotated.
pub const ROLE_FIELDS: &[Field] = &[PERIOD, SCHEDULE, WINDOW];

/// Shortest window, in seconds.
pub const MIN_WINDOW: u64 = 3_600;

/// What the settings of a kind of credential must be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Shortest period, in seconds.
    pub min_period: u64,
    /// Whether there must be a period or a schedule.
    pub is_required: bool,
}

impl Bounds {
    /// Of a configuration: neither period nor schedule means no rotation (decision P9).
    pub const CONFIG: Self = Self { min_period: 10, is_required: false };
    /// Of a static role.
    pub const STATIC_ROLE: Self = Self { min_period: 5, is_required: true };
}

/// When a credential is rotated: by a period, or by a schedule with or without a window, or not at
/// all. It is a part of an engine's stored record, nested or by `#[serde(flatten)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// In seconds; 0 is none.
    #[serde(default, rename = "rotation_period")]
    pub period: u64,
    /// An expression that was read; empty is none.
    #[serde(default, rename = "rotation_schedule")]
    pub schedule: String,
    /// Seconds after a scheduled time; 0 is without end.
    #[serde(default, rename = "rotation_window")]
    pub window: u64,
    /// Nothing is rotated by itself.
    #[serde(default, rename = "disable_automated_rotation")]
    pub is_disabled: bool,
}

/// When a credential was rotated, and when it will be. A part of a stored record, as [`Settings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// `None` where it never was.
    #[serde(default, rename = "last_rotation")]
    pub last: Option<StoreTime>,
    /// `None` where nothing is due.
    #[serde(default, rename = "next_rotation")]
    pub due: Option<StoreTime>,
}

/// What is to be done at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Rotate now.
    Rotate,
    /// It is not due before this time.
    Wait(StoreTime),
    /// It was due, and the window for it is over: not before this time, or never again by itself.
    /// Worth a line in the log.
    Missed(Option<StoreTime>),
    /// Nothing is rotated by itself.
    Off,
}

impl Settings {
    /// Puts the call's fields into the settings, and keeps what is absent. A period takes the place
    /// of schedule and window, a schedule that of the period. Tells whether
    /// [`due_after`](Self::due_after) may have another answer than before.
    ///
    /// # Errors
    /// Invalid request where they contradict each other or `bounds`; the settings are then as they
    /// were.
    pub fn merge(&mut self, call: &Call, bounds: Bounds) -> Result<bool, Failure> {
        let mut merged = self.clone();
        let (mut period, mut schedule) = (0, String::new());
        call.merge("rotation_period", &mut period)?;
        call.merge("rotation_schedule", &mut schedule)?;
        call.merge("rotation_window", &mut merged.window)?;
        call.merge("disable_automated_rotation", &mut merged.is_disabled)?;
        let asks_for_window = call.is_given("rotation_window") && merged.window != 0;
        match (period > 0, !schedule.trim().is_empty()) {
            (true, true) => return Err(refused(BOTH)),
            (true, false) if asks_for_window => return Err(refused(WINDOW_OF_PERIOD)),
            (true, false) => merged.replace(period, String::new(), 0),
            (false, true) => merged.replace(0, schedule.trim().to_owned(), merged.window),
            (false, false) => merged.clear(call),
        }
        if asks_for_window && merged.schedule.is_empty() {
            return Err(refused(WINDOW_ALONE));
        }
        merged.check(bounds)?;
        let is_changed = merged != *self;
        *self = merged;
        Ok(is_changed)
    }

    fn replace(&mut self, period: u64, schedule: String, window: u64) {
        *self = Self { period, schedule, window, is_disabled: self.is_disabled };
    }

    /// A period of 0 and an empty schedule that are said end what they name.
    fn clear(&mut self, call: &Call) {
        if call.is_given("rotation_period") {
            self.period = 0;
        }
        if call.is_given("rotation_schedule") {
            (self.schedule, self.window) = (String::new(), 0);
        }
    }

    /// Returns a warning if a write removed the window of `before` together with its schedule.
    #[must_use]
    pub fn lost_window(&self, before: &Self) -> Option<String> {
        let is_lost = before.window > 0 && self.schedule.is_empty();
        is_lost.then(|| {
            format!(
                "rotation_window of {} was removed together with rotation_schedule {}; give both \
                 again to return to a schedule",
                show(before.window),
                quoted(&before.schedule)
            )
        })
    }

    fn check(&self, bounds: Bounds) -> Result<(), Failure> {
        if self.period > 0 && self.period < bounds.min_period {
            let least = bounds.min_period;
            return Err(refused(format!("rotation_period must be {least} seconds or more")));
        }
        if self.window > 0 && self.window < MIN_WINDOW {
            return Err(refused(format!("rotation_window must be {MIN_WINDOW} seconds or more")));
        }
        if !self.schedule.is_empty() {
            Schedule::parse(&self.schedule).map_err(|why| {
                let schedule = quoted(&self.schedule);
                refused(format!("could not parse rotation_schedule {schedule}: {why}"))
            })?;
        }
        if bounds.is_required && !self.has_time() {
            return Err(refused(NEITHER));
        }
        Ok(())
    }

    /// Is there a period or a schedule?
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.period > 0 || !self.schedule.is_empty()
    }

    /// When the rotation after `last` is due; `None` where nothing is rotated by itself.
    ///
    /// # Errors
    /// Internal where a stored schedule does not read.
    pub fn due_after(&self, last: StoreTime) -> Result<Option<StoreTime>, Failure> {
        if self.is_disabled {
            return Ok(None);
        }
        if self.schedule.is_empty() {
            let period = (self.period > 0).then(|| self.period.saturating_mul(1_000));
            return Ok(period.map(|period| last.saturating_add(period)));
        }
        let schedule = Schedule::parse(&self.schedule).map_err(|why| {
            Failure::internal(format!("the stored rotation_schedule does not parse: {why}"))
        })?;
        Ok(schedule.next_after(last))
    }

    /// The times of a credential that was rotated now. A schedule goes on as it was, also
    /// after a rotation by hand, and however late it came.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn rotated_at(&self, now: StoreTime) -> Result<Times, Failure> {
        Ok(Times { last: Some(now), due: self.due_after(now)? })
    }

    /// The times after these settings were changed: nothing is rotated by that, and what they make
    /// due counts from the last rotation, or from now where there was none.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn changed_at(&self, times: &Times, now: StoreTime) -> Result<Times, Failure> {
        let due = self.due_after(times.last.unwrap_or(now))?;
        Ok(Times { last: times.last, due })
    }

    /// What is to be done now with what is due at `times.due`: to be asked at each attempt, so that
    /// attempts end with their window.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn decide(&self, times: &Times, now: StoreTime) -> Result<Decision, Failure> {
        let Some(due) = times.due.filter(|_| !self.is_disabled && self.has_time()) else {
            return Ok(Decision::Off);
        };
        if now < due {
            return Ok(Decision::Wait(due));
        }
        let window = self.window.saturating_mul(1_000);
        if self.window > 0 && now >= due.saturating_add(window) {
            return Ok(Decision::Missed(self.due_after(now)?));
        }
        Ok(Decision::Rotate)
    }

    /// All settings, as a configuration shows them.
    #[must_use]
    pub fn show(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(shown)) => shown,
            _ => Map::new(),
        }
    }

    /// The period, or the schedule with its window where there is one, as a static role shows them.
    #[must_use]
    pub fn show_chosen(&self) -> Map<String, Value> {
        let mut shown = Map::new();
        if self.schedule.is_empty() {
            shown.insert("rotation_period".to_owned(), json!(self.period));
            return shown;
        }
        shown.insert("rotation_schedule".to_owned(), json!(self.schedule));
        if self.window > 0 {
            shown.insert("rotation_window".to_owned(), json!(self.window));
        }
        shown
    }
}

impl Times {
    /// Seconds until the next rotation, rounded; 0 where it is due or nothing is.
    #[must_use]
    pub fn ttl(&self, now: StoreTime) -> u64 {
        let left = self.due.unwrap_or_default().saturating_sub(now);
        left.saturating_add(500) / 1_000
    }

    /// The time of the last rotation under both of its names, in UTC; nothing where there was none.
    #[must_use]
    pub fn show_last(&self) -> Map<String, Value> {
        let shown = self.last.and_then(|last| {
            let seconds = i64::try_from(last / 1_000).ok()?;
            let time = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
            let nanosecond = u32::try_from(last % 1_000).ok()? * 1_000_000;
            time.replace_nanosecond(nanosecond).ok()?.format(&Rfc3339).ok()
        });
        let names = ["last_service_rotation", "last_vault_rotation"];
        let pairs = shown.iter().flat_map(|time| names.map(|name| (name.to_owned(), json!(time))));
        pairs.collect()
    }
}

const BOTH: &str = "mutually exclusive fields rotation_period and rotation_schedule were both \
                    specified; only one of them can be provided";
const NEITHER: &str = "one of rotation_schedule or rotation_period must be provided";
const WINDOW_OF_PERIOD: &str =
    "rotation_window does not apply to rotation_period; give it with a rotation_schedule";
const WINDOW_ALONE: &str = "cannot use rotation_window without rotation_schedule";

fn refused(message: impl Into<String>) -> Failure {
    Failure::invalid(message.into())
}

#[cfg(test)]
mod tests;
