//! Retries after conflicts: requests and background calls begin again at once, in their turn.
//!
//! This file prevents a rotation or a revocation that never finishes, or that counts as refused by
//! its target, because other work keeps changing a record that the component reads before the call
//! to the target. Due work and renewals run at least once, so that the host may repeat a call that
//! has already reached its target.

use crate::core::Core;
use bulkhead_access::background::DueOutcome;
use bulkhead_store::{QueueTicket, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of attempts of one call. More than a few occur only in two cases: many others
/// list records in different ways, so that each attempt conflicts with some listing; or requests
/// that changed their target, and therefore yield to no turn, follow each other without a pause, as
/// rotations may.
const MAX_ATTEMPTS: u32 = 256;
/// Pause before an attempt that has no turn to wait for.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Counts the attempts of one call, and holds the turn for which the call waits between attempts.
pub struct CallAttempts {
    turn: QueueTicket,
    until: Instant,
    made: u32,
}

impl CallAttempts {
    /// Creates the counter of due work that ends at `until`.
    pub(super) fn of_due_work(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.due_work_ticket(), until, made: 0 }
    }

    /// Creates the counter of a call that ends at `until` and for which a caller waits.
    pub fn for_caller(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.queue_ticket(), until, made: 0 }
    }

    /// Counts an attempt and returns the turn of its unit of work.
    pub fn begin_attempt(&mut self) -> &QueueTicket {
        self.made += 1;
        &self.turn
    }

    /// Begins an attempt with the unit of work `unit`.
    pub(super) fn begin(&mut self, unit: Unit) -> Unit {
        unit.with_ticket(self.begin_attempt())
    }

    /// Returns true if the call must be repeated after an attempt with the result `ended`. The turn
    /// of the call has then come.
    pub async fn continue_after<T>(&self, ended: &Result<T, Failure>) -> bool {
        let goes_on = ended.as_ref().is_err_and(lost_a_race)
            && self.made < MAX_ATTEMPTS
            && Instant::now() < self.until;
        if goes_on && !Box::pin(self.turn.wait(self.until)).await {
            // The conflict was not in a unit of the call, but in a unit that the host began for the
            // call.
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        goes_on
    }
}

/// Returns true if the failure is a conflict of our own store. A conflict in a component or a
/// target has another kind.
pub(super) fn lost_a_race(failure: &Failure) -> bool {
    failure.kind == FailureKind::Conflict
}

/// A failure of due work before its outcome is stored.
pub(super) struct UnfinishedWork {
    pub(super) failure: Failure,
    /// True if the component could not be called: the mount rests or has no plugin, or no slot is
    /// free.
    pub(super) is_waiting: bool,
}

impl UnfinishedWork {
    /// Makes the failure of work whose component was not called. The work waits if the failure may
    /// pass by itself; a mount that does not exist any more is worth no wait.
    pub(super) fn before_call(failure: Failure) -> Self {
        Self { is_waiting: failure.kind == FailureKind::Unavailable, failure }
    }

    /// Returns whether an attempt was made, and failed by more than a conflict of our own store.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_waiting && !lost_a_race(&self.failure)
    }

    /// Returns the outcome of the work once the work is postponed.
    pub(super) fn outcome(&self) -> DueOutcome {
        if self.has_failed() { DueOutcome::Failed } else { DueOutcome::Delayed }
    }
}

impl From<Failure> for UnfinishedWork {
    fn from(failure: Failure) -> Self {
        Self { failure, is_waiting: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_attempt_or_after_conflict_is_delayed() {
        let failure = |kind| Failure::new(kind, "");
        for kind in [FailureKind::Unavailable, FailureKind::Unreachable, FailureKind::Internal] {
            let attempted = UnfinishedWork::from(failure(kind));
            assert_eq!(attempted.outcome(), DueOutcome::Failed, "{kind:?}");
        }
        let waiting = UnfinishedWork::before_call(failure(FailureKind::Unavailable));
        assert_eq!((waiting.outcome(), waiting.has_failed()), (DueOutcome::Delayed, false));
        let without_mount = UnfinishedWork::before_call(failure(FailureKind::Internal));
        assert_eq!(without_mount.outcome(), DueOutcome::Failed);
        let conflict = UnfinishedWork::from(failure(FailureKind::Conflict));
        assert_eq!((conflict.outcome(), conflict.has_failed()), (DueOutcome::Delayed, false));
    }
}
