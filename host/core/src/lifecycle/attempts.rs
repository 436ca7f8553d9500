//! Requests, and calls that no request makes, begin again at once after a lost race, in their turn.
//!
//! The fault this file prevents: a rotation or a revocation never finishes, or counts as one that
//! its target refused, because callers or other due work keep changing a record that the component
//! reads before the component asks its target. Due work and renewals run at least once, so that the
//! host may repeat a call although the call asked its target before.

use crate::core::Core;
use bulkhead_store::{Turn, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::time::Duration;
use tokio::time::Instant;

/// Most attempts of one call. More than a few are made only where records are listed in different
/// ways by many others, of whom each attempt meets some; or where requests that have changed their
/// target, and so give way to no turn, follow each other without a pause, as rotations may.
const MOST: u32 = 256;
/// Before an attempt that has no turn to wait for.
const PAUSE: Duration = Duration::from_millis(5);

/// Counts the attempts of one call, and holds the turn for which the call waits between attempts.
pub(crate) struct Attempts {
    turn: Turn,
    until: Instant,
    made: u32,
}

impl Attempts {
    /// Creates the counter of due work that ends at `until`.
    pub(super) fn of_due_work(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.turn_of_due_work(), until, made: 0 }
    }

    /// Creates the counter of a call that ends at `until` and for which a caller waits.
    pub(crate) fn for_caller(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.turn(), until, made: 0 }
    }

    /// Counts an attempt and returns the turn of its unit of work.
    pub(crate) fn next(&mut self) -> &Turn {
        self.made += 1;
        &self.turn
    }

    /// Begins an attempt with the unit of work `unit`.
    pub(super) fn begin(&mut self, unit: Unit) -> Unit {
        unit.in_turn(self.next())
    }

    /// Returns whether the call is to be repeated after an attempt with the result `ended`. On
    /// `true`, the turn of the call has come.
    pub(crate) async fn continue_after<T>(&self, ended: &Result<T, Failure>) -> bool {
        let goes_on = ended.as_ref().is_err_and(lost_a_race)
            && self.made < MOST
            && Instant::now() < self.until;
        if goes_on && !Box::pin(self.turn.wait(self.until)).await {
            // Met by no unit of the call itself, but by one that the host made for it.
            tokio::time::sleep(PAUSE).await;
        }
        goes_on
    }
}

/// Whether the failure is a conflict of our own store. A component's or a target's conflict reaches
/// core as another kind.
pub(super) fn lost_a_race(failure: &Failure) -> bool {
    failure.kind == Kind::Conflict
}
