//! Metrics of the engine: age of the passwords, and results of rotations and check-outs.
//!
//! This file prevents accounts from being forgotten: an account that is never read is never
//! rotated, so the engine reports the ages of all accounts at regular intervals. No metric contains
//! an account's name.

use crate::account::Account;
use crate::settings::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::metric::seconds;
use bulkhead_sdk::{Failure, Host, Metric};

const ROTATIONS: Metric = Metric::counter("rotations_total", "Attempts to change a password.")
    .with_label("outcome", &["done", "refused", "unknown"]);
const CHECK_OUTS: Metric = Metric::counter("check_outs_total", "Requests to check out an account.")
    .with_label("outcome", &["lent", "none"]);
const AGE: Metric = Metric::summary(
    "replaced_password_age_seconds",
    "How old passwords were when others took their places.",
);
const PASSWORDS: Metric = Metric::gauge("passwords", "Passwords of accounts by their age.")
    .with_label("age", &["day", "week", "month", "quarter", "year", "older", "never"]);
const OLDEST: Metric = Metric::gauge(
    "oldest_password_timestamp_seconds",
    "When the oldest of the passwords was set, in seconds since 1970.",
);
const BINDPASS: Metric = Metric::gauge(
    "bindpass_timestamp_seconds",
    "When bindpass was last rotated, in seconds since 1970.",
);

/// All metrics of the engine.
pub(crate) const METRICS: &[Metric] = &[ROTATIONS, CHECK_OUTS, AGE, PASSWORDS, OLDEST, BINDPASS];
/// Key of the timer.
pub(crate) const KEY: &str = "figures";
/// Lane of the timer. A look does not contact the directory and must not wait for the directory's
/// lane.
const LANE: &str = "figures";
/// Interval between two looks, in milliseconds.
const LOOK_INTERVAL_MS: u64 = 300_000;
/// Number of records after which a look drops its earlier reads from conflict detection.
const LOOK_BATCH_RECORDS: usize = 1_000;
const DAY: u64 = 86_400;
/// Age classes: exclusive upper bound in days, and label. Older passwords count as `older`.
const AGES: [(u64, &str); 5] =
    [(1, "day"), (7, "week"), (31, "month"), (92, "quarter"), (366, "year")];

/// Counts the result of a rotation.
pub(crate) fn count_rotation(host: &dyn Host, outcome: &str) {
    host.metrics().count(&ROTATIONS, outcome, 1);
}

/// Counts the result of a check-out.
pub(crate) fn count_check_out(host: &dyn Host, outcome: &str) {
    host.metrics().count(&CHECK_OUTS, outcome, 1);
}

/// Counts a successful rotation, and records the age of the replaced password.
pub(crate) fn rotated(host: &dyn Host, before: &Account) {
    count_rotation(host, "done");
    if let Some(rotated) = before.rotated {
        let age = host.clock().now().saturating_sub(rotated);
        host.metrics().observe(&AGE, "", seconds(age));
    }
}

/// Schedules the first look at all accounts.
///
/// # Errors
/// A refusal of the clock.
pub(crate) fn begin(host: &dyn Host) -> Result<(), Failure> {
    host.clock().schedule(KEY, host.clock().now(), LANE)
}

/// Cancels the looks.
///
/// # Errors
/// A refusal of the clock.
pub(crate) fn end(host: &dyn Host) -> Result<(), Failure> {
    host.clock().cancel(KEY)
}

/// Reports the ages of all accounts, and schedules the next look.
///
/// # Errors
/// A refusal of the storage or clock.
pub(crate) fn look(host: &dyn Host) -> Result<(), Failure> {
    let Some(config) = Config::find(host)? else { return Ok(()) };
    let now = host.clock().now();
    host.clock().schedule(KEY, now.saturating_add(LOOK_INTERVAL_MS), LANE)?;
    host.storage().checkpoint()?;
    let mut ages = PasswordAges::default();
    let mut seen = 0_usize;
    host.storage().scan("account/", |_, entry: bulkhead_sdk::host::Entry<Account>| {
        ages.add(entry.value.rotated, now);
        seen += 1;
        // The figures need no consistent snapshot, so the reads need not stay free of conflicts.
        if seen.is_multiple_of(LOOK_BATCH_RECORDS) {
            host.storage().checkpoint().map(drop)
        } else {
            Ok(())
        }
    })?;
    ages.publish(host);
    if let Some(rotated) = config.bindpass_rotated {
        host.metrics().set(&BINDPASS, "", seconds(rotated));
    }
    Ok(())
}

/// Number of passwords of each age.
#[derive(Default)]
struct PasswordAges {
    counts: [u32; AGES.len()],
    older: u32,
    never: u32,
    oldest: Option<StoreTime>,
}

impl PasswordAges {
    fn add(&mut self, rotated: Option<StoreTime>, now: StoreTime) {
        let Some(rotated) = rotated else {
            self.never += 1;
            return;
        };
        let days = now.saturating_sub(rotated) / (DAY * 1_000);
        let class = AGES.iter().zip(&mut self.counts).find(|((most, _), _)| days < *most);
        *class.map_or(&mut self.older, |(_, count)| count) += 1;
        self.oldest = Some(self.oldest.map_or(rotated, |oldest| oldest.min(rotated)));
    }

    fn publish(&self, host: &dyn Host) {
        let classes = AGES.iter().zip(self.counts).map(|((_, age), count)| (*age, count));
        for (age, count) in classes.chain([("older", self.older), ("never", self.never)]) {
            host.metrics().set(&PASSWORDS, age, count.into());
        }
        if let Some(oldest) = self.oldest {
            host.metrics().set(&OLDEST, "", seconds(oldest));
        }
    }
}

#[cfg(test)]
mod tests;
