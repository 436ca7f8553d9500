//! Automatic rotation: the settings that configurations and static roles share, the time of the
//! next rotation, and the decision on a missed rotation.
//!
//! This file prevents contradictory settings, which each reader could interpret differently, and a
//! rotation outside the hours that an operator set aside.
//!
//! An engine stores [`RotationSettings`] and [`RotationTimes`] in its record, sets a timer for
//! [`RotationTimes::due`], and calls [`RotationSettings::decide`] when the timer wakes the engine.
//!
//! ```
//! use bulkhead_sdk::rotation::{RotationDecision, RotationSettings, RotationTimes};
//!
//! let settings = RotationSettings { period: 86_400, ..RotationSettings::default() };
//! let now = 1_767_225_600_000;
//! let times = settings.rotated_at(now)?;
//! assert_eq!(times, RotationTimes { last: Some(now), due: Some(now + 86_400_000) });
//! assert_eq!(settings.decide(&times, now)?, RotationDecision::Wait(now + 86_400_000));
//! assert_eq!(settings.decide(&times, now + 90_000_000)?, RotationDecision::Rotate);
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

const PERIOD: Field =
    Field::seconds("rotation_period", "seconds between rotations; 0: no rotation");
const SCHEDULE: Field =
    Field::text("rotation_schedule", "five fields of cron, instead of a period");
const WINDOW: Field = Field::seconds(
    "rotation_window",
    "latest start of a rotation, in seconds after the scheduled time",
);
const DISABLED: Field =
    Field::flag("disable_automated_rotation", "whether nothing is rotated by itself");

/// Fields of a configuration that rotates its own credential.
pub const CONFIG_FIELDS: &[Field] = &[PERIOD, SCHEDULE, WINDOW, DISABLED];
/// Fields of a role that rotates a credential.
pub const ROLE_FIELDS: &[Field] = &[PERIOD, SCHEDULE, WINDOW];

/// Minimum rotation window, in seconds.
pub const MIN_WINDOW: u64 = 3_600;

/// Bounds on the settings of a kind of credential.
#[derive(Clone, Copy, Debug)]
pub struct RotationBounds {
    /// Minimum period, in seconds.
    pub min_period: u64,
    /// Requires a period or a schedule.
    pub is_required: bool,
}

impl RotationBounds {
    /// Bounds of a configuration: neither period nor schedule means no rotation (decision P9).
    pub const CONFIG: Self = Self { min_period: 10, is_required: false };
    /// Bounds of a static role.
    pub const STATIC_ROLE: Self = Self { min_period: 5, is_required: true };
}

/// Rotation settings of a credential: a period, or a schedule with or without a window, or neither.
/// Part of an engine's stored record, nested or by `#[serde(flatten)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationSettings {
    /// Seconds between rotations; 0: no period.
    #[serde(default, rename = "rotation_period")]
    pub period: u64,
    /// Valid cron expression; empty: no schedule.
    #[serde(default, rename = "rotation_schedule")]
    pub schedule: String,
    /// Seconds after a scheduled time within which the rotation may run; 0: no limit.
    #[serde(default, rename = "rotation_window")]
    pub window: u64,
    /// Disables automatic rotation.
    #[serde(default, rename = "disable_automated_rotation")]
    pub is_disabled: bool,
}

/// Times of the last and the next rotation of a credential. Part of a stored record, like
/// [`RotationSettings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationTimes {
    /// Last rotation; `None` before the first.
    #[serde(default, rename = "last_rotation")]
    pub last: Option<StoreTime>,
    /// Next rotation; `None` if none is scheduled.
    #[serde(default, rename = "next_rotation")]
    pub due: Option<StoreTime>,
}

/// Decision on a rotation at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationDecision {
    /// Rotate now.
    Rotate,
    /// Not due before this time.
    Wait(StoreTime),
    /// The window has passed. The next rotation is due at this time, or never. Worth a log line.
    Missed(Option<StoreTime>),
    /// No automatic rotation.
    Off,
}

impl RotationSettings {
    /// Merges the call's fields into the settings; absent fields keep their value. A period
    /// replaces schedule and window, and a schedule replaces the period. Returns true if the
    /// settings changed, so that the next rotation has to be recomputed.
    ///
    /// # Errors
    /// Invalid request if the fields contradict each other or `bounds`; the settings are then
    /// unchanged.
    pub fn merge(&mut self, call: &Call, bounds: RotationBounds) -> Result<bool, Failure> {
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

    /// Removes the period if the call gives 0, and schedule and window if the call gives an empty
    /// schedule.
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

    fn check(&self, bounds: RotationBounds) -> Result<(), Failure> {
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

    /// Returns true if there is a period or a schedule.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.period > 0 || !self.schedule.is_empty()
    }

    /// Returns the time of the rotation after `last`; `None` without automatic rotation.
    ///
    /// # Errors
    /// Internal if the stored schedule does not parse.
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

    /// Returns the times of a credential that was rotated now. A manual or late rotation does not
    /// shift a schedule.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn rotated_at(&self, now: StoreTime) -> Result<RotationTimes, Failure> {
        Ok(RotationTimes { last: Some(now), due: self.due_after(now)? })
    }

    /// Returns the times after a change of the settings. The change itself rotates nothing; the
    /// next rotation counts from the last one, or from now before the first.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn changed_at(
        &self,
        times: &RotationTimes,
        now: StoreTime,
    ) -> Result<RotationTimes, Failure> {
        let due = self.due_after(times.last.unwrap_or(now))?;
        Ok(RotationTimes { last: times.last, due })
    }

    /// Decides on the rotation due at `times.due`. To be called before each attempt, so that no
    /// attempt runs after the window.
    ///
    /// # Errors
    /// As [`due_after`](Self::due_after).
    pub fn decide(
        &self,
        times: &RotationTimes,
        now: StoreTime,
    ) -> Result<RotationDecision, Failure> {
        let Some(due) = times.due.filter(|_| !self.is_disabled && self.has_time()) else {
            return Ok(RotationDecision::Off);
        };
        if now < due {
            return Ok(RotationDecision::Wait(due));
        }
        let window = self.window.saturating_mul(1_000);
        if self.window > 0 && now >= due.saturating_add(window) {
            return Ok(RotationDecision::Missed(self.due_after(now)?));
        }
        Ok(RotationDecision::Rotate)
    }

    /// Returns all settings, for a read of a configuration.
    #[must_use]
    pub fn show(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(shown)) => shown,
            _ => Map::new(),
        }
    }

    /// Returns the period, or the schedule and its window if there is one, for a read of a static
    /// role.
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

impl RotationTimes {
    /// Returns the seconds until the next rotation, rounded; 0 if the rotation is due or none is
    /// scheduled.
    #[must_use]
    pub fn ttl(&self, now: StoreTime) -> u64 {
        let left = self.due.unwrap_or_default().saturating_sub(now);
        left.saturating_add(500) / 1_000
    }

    /// Returns the time of the last rotation in UTC, under both of its names; empty before the
    /// first.
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
    "rotation_window does not apply to rotation_period; use a rotation_schedule";
const WINDOW_ALONE: &str = "cannot use rotation_window without rotation_schedule";

fn refused(message: impl Into<String>) -> Failure {
    Failure::invalid(message.into())
}

#[cfg(test)]
mod tests;
