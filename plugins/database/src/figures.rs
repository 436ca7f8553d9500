//! What the engine tells in figures: what came of users and of rotations, and how late these were.
//! No role's, connection's or user's name is told.

use bulkhead_sdk::metric::seconds;
use bulkhead_sdk::{Failure, Host, Metric};

const DONE: &str = "done";
const FAILED: &str = "failed";
const MISSED: &str = "missed";

/// Users that were to be made.
pub(crate) const CREATIONS: Metric =
    Metric::counter("creations_total", "Users that were to be made.")
        .by("outcome", &[DONE, FAILED]);
/// Users that were to be prolonged.
pub(crate) const RENEWALS: Metric =
    Metric::counter("renewals_total", "Users that were to be prolonged.")
        .by("outcome", &[DONE, FAILED]);
/// Users that were to be removed; one that is tried again counts again.
pub(crate) const REVOCATIONS: Metric =
    Metric::counter("revocations_total", "Attempts to remove a user.")
        .by("outcome", &[DONE, FAILED]);
/// Rotations of static roles.
pub(crate) const ROTATIONS: Metric =
    Metric::counter("rotations_total", "Attempts to rotate a static role.")
        .by("outcome", &[DONE, FAILED, MISSED]);
/// Rotations of the connections' own users.
pub(crate) const ROOT_ROTATIONS: Metric =
    Metric::counter("root_rotations_total", "Attempts to rotate a connection's own user.")
        .by("outcome", &[DONE, FAILED, MISSED]);
const DELAY: Metric = Metric::summary(
    "rotation_delay_seconds",
    "How long after they were due static roles were rotated.",
);

/// All of them.
pub(crate) const METRICS: &[Metric] =
    &[CREATIONS, RENEWALS, REVOCATIONS, ROTATIONS, ROOT_ROTATIONS, DELAY];

/// What came of a rotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The new credential is in force.
    Done,
    /// It is tried again.
    Failed,
    /// Its window is over: the next one is due at the next scheduled time.
    Missed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Done => DONE,
            Self::Failed => FAILED,
            Self::Missed => MISSED,
        }
    }
}

/// Counts whether it was `done`, which it gives back.
pub(crate) fn counted<T>(
    host: &dyn Host,
    metric: &Metric,
    done: Result<T, Failure>,
) -> Result<T, Failure> {
    let outcome = if done.is_ok() { Outcome::Done } else { Outcome::Failed };
    count(host, metric, outcome);
    done
}

/// Counts what came of it.
pub(crate) fn count(host: &dyn Host, metric: &Metric, outcome: Outcome) {
    host.metrics().count(metric, outcome.name(), 1);
}

/// A static role that was due then, in milliseconds of store time, is rotated now.
pub(crate) fn observe_delay(host: &dyn Host, due: Option<u64>) {
    let late = due.and_then(|due| host.clock().now().checked_sub(due));
    if let Some(late) = late {
        host.metrics().observe(&DELAY, "", seconds(late));
    }
}

#[cfg(test)]
mod tests;
