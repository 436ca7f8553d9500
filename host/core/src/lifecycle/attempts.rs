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

/// Returns the outcome of due work whose attempt failed and was postponed.
pub(super) fn outcome_of(failure: &Failure) -> DueOutcome {
    if lost_a_race(failure) { DueOutcome::Delayed } else { DueOutcome::Failed }
}
