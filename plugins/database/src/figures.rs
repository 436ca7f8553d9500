//! Metrics of the engine: outcomes for users and rotations, and the delay of rotations. The metrics
//! contain no name of a role, connection or user.

use bulkhead_sdk::metric::seconds;
use bulkhead_sdk::{Failure, Host, Metric};

const DONE: &str = "done";
const FAILED: &str = "failed";
const MISSED: &str = "missed";

/// Attempts to create a user.
pub(crate) const CREATIONS: Metric =
    Metric::counter("creations_total", "Attempts to create a user.")
        .with_label("outcome", &[DONE, FAILED]);
/// Attempts to renew a user.
pub(crate) const RENEWALS: Metric = Metric::counter("renewals_total", "Attempts to renew a user.")
    .with_label("outcome", &[DONE, FAILED]);
/// Attempts to remove a user; each retry counts again.
pub(crate) const REVOCATIONS: Metric =
    Metric::counter("revocations_total", "Attempts to remove a user.")
        .with_label("outcome", &[DONE, FAILED]);
/// Attempts to rotate a static role.
pub(crate) const ROTATIONS: Metric =
    Metric::counter("rotations_total", "Attempts to rotate a static role.")
        .with_label("outcome", &[DONE, FAILED, MISSED]);
/// Attempts to rotate a connection's own user.
pub(crate) const ROOT_ROTATIONS: Metric =
    Metric::counter("root_rotations_total", "Attempts to rotate a connection's own user.")
        .with_label("outcome", &[DONE, FAILED, MISSED]);
const DELAY: Metric = Metric::summary(
    "rotation_delay_seconds",
    "How long after they were due static roles were rotated.",
);

/// All metrics of the engine.
pub(crate) const METRICS: &[Metric] =
    &[CREATIONS, RENEWALS, REVOCATIONS, ROTATIONS, ROOT_ROTATIONS, DELAY];

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationOutcome {
    /// The operation succeeded.
    Done,
    /// The operation failed and may be retried.
    Failed,
    /// The rotation window is over; the next rotation is due at the next scheduled time.
    Missed,
}

impl OperationOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Done => DONE,
            Self::Failed => FAILED,
            Self::Missed => MISSED,
        }
    }
}

/// Counts the outcome of `done` and returns `done`.
pub(crate) fn counted<T>(
    host: &dyn Host,
    metric: &Metric,
    done: Result<T, Failure>,
) -> Result<T, Failure> {
    let outcome = if done.is_ok() { OperationOutcome::Done } else { OperationOutcome::Failed };
    count(host, metric, outcome);
    done
}

/// Counts an outcome.
pub(crate) fn count(host: &dyn Host, metric: &Metric, outcome: OperationOutcome) {
    host.metrics().count(metric, outcome.name(), 1);
}

/// Records the delay of a rotation that is done now. `due` is store time in milliseconds.
pub(crate) fn observe_delay(host: &dyn Host, due: Option<u64>) {
    let late = due.and_then(|due| host.clock().now().checked_sub(due));
    if let Some(late) = late {
        host.metrics().observe(&DELAY, "", seconds(late));
    }
}

#[cfg(test)]
mod tests;
