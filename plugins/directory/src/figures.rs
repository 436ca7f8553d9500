//! What the engine tells in figures: how old passwords are, and what came of rotations and
//! check-outs.
//!
//! The fault this file rules out: the account that is forgotten. One that is never read is never
//! rotated, so that every account is looked at from time to time. No account's name is told.

use crate::account::Account;
use crate::settings::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::metric::seconds;
use bulkhead_sdk::{Failure, Host, Metric};

const ROTATIONS: Metric = Metric::counter("rotations_total", "Passwords that were to be changed.")
    .by("outcome", &["done", "refused", "unknown"]);
const CHECK_OUTS: Metric = Metric::counter("check_outs_total", "Accounts that were asked for.")
    .by("outcome", &["lent", "none"]);
const AGE: Metric = Metric::summary(
    "replaced_password_age_seconds",
    "How old passwords were when others took their places.",
);
const PASSWORDS: Metric = Metric::gauge("passwords", "Passwords of accounts by their age.")
    .by("age", &["day", "week", "month", "quarter", "year", "older", "never"]);
const OLDEST: Metric = Metric::gauge(
    "oldest_password_timestamp_seconds",
    "When the oldest of the passwords was set, in seconds since 1970.",
);
const BINDPASS: Metric = Metric::gauge(
    "bindpass_timestamp_seconds",
    "When bindpass was last rotated, in seconds since 1970.",
);

/// All of them.
pub(crate) const METRICS: &[Metric] = &[ROTATIONS, CHECK_OUTS, AGE, PASSWORDS, OLDEST, BINDPASS];
/// The key of the timer.
pub(crate) const KEY: &str = "figures";
/// The lane of the timer: a look waits for no directory.
const LANE: &str = "figures";
/// Milliseconds between two looks.
const EVERY: u64 = 300_000;
/// Records after which earlier ones are not remembered any more.
const PIECE: usize = 1_000;
const DAY: u64 = 86_400;
/// The most days of each age, but for the last ones.
const AGES: [(u64, &str); 5] =
    [(1, "day"), (7, "week"), (31, "month"), (92, "quarter"), (366, "year")];

/// Counts what came of a change of a password.
pub(crate) fn count_rotation(host: &dyn Host, outcome: &str) {
    host.metrics().count(&ROTATIONS, outcome, 1);
}

/// Counts what came of a check-out.
pub(crate) fn count_check_out(host: &dyn Host, outcome: &str) {
    host.metrics().count(&CHECK_OUTS, outcome, 1);
}

/// Counts a password that took the place of the account's.
pub(crate) fn rotated(host: &dyn Host, before: &Account) {
    count_rotation(host, "done");
    if let Some(rotated) = before.rotated {
        let age = host.clock().now().saturating_sub(rotated);
        host.metrics().observe(&AGE, "", seconds(age));
    }
}

/// Begins to look at all accounts.
///
/// # Errors
/// What the clock refused.
pub(crate) fn begin(host: &dyn Host) -> Result<(), Failure> {
    host.clock().schedule(KEY, host.clock().now(), LANE)
}

/// Looks no more.
///
/// # Errors
/// What the clock refused.
pub(crate) fn end(host: &dyn Host) -> Result<(), Failure> {
    host.clock().cancel(KEY)
}

/// Looks at all accounts, and tells when to look again.
///
/// # Errors
/// What the storage refused.
pub(crate) fn look(host: &dyn Host) -> Result<(), Failure> {
    let Some(config) = Config::find(host)? else { return Ok(()) };
    let now = host.clock().now();
    host.clock().schedule(KEY, now.saturating_add(EVERY), LANE)?;
    host.storage().checkpoint()?;
    let mut ages = Ages::default();
    let mut seen = 0_usize;
    host.storage().scan("account/", |_, entry: bulkhead_sdk::host::Entry<Account>| {
        ages.add(entry.value.rotated, now);
        seen += 1;
        // What is told is of no single moment: nothing has to stay as it was read.
        if seen.is_multiple_of(PIECE) { host.storage().checkpoint().map(drop) } else { Ok(()) }
    })?;
    ages.tell(host);
    if let Some(rotated) = config.bindpass_rotated {
        host.metrics().set(&BINDPASS, "", seconds(rotated));
    }
    Ok(())
}

/// How many passwords are how old.
#[derive(Default)]
struct Ages {
    counts: [u32; AGES.len()],
    older: u32,
    never: u32,
    oldest: Option<StoreTime>,
}

impl Ages {
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

    fn tell(&self, host: &dyn Host) {
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
