//! Due work that loses a race against requests begins again at once, in its turn.
//!
//! The fault this file prevents: a rotation or a revocation never finishes, because callers keep
//! changing a record that the component reads before the component asks its target. Due work runs
//! at least once, so that the host may repeat a call although the call asked its target before.

use crate::core::Core;
use bulkhead_store::{Turn, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use tokio::time::Instant;

/// Most attempts of one call.
const MOST: u32 = 4;

/// Counts the attempts of one call, and holds the turn for which the call waits between attempts.
pub(super) struct Attempts {
    turn: Turn,
    until: Instant,
    made: u32,
}

impl Attempts {
    /// Creates the counter of a call that ends at `until`.
    pub(super) fn new(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.turn(), until, made: 0 }
    }

    /// Begins an attempt with the unit of work `unit`.
    pub(super) fn begin(&mut self, unit: Unit) -> Unit {
        self.made += 1;
        unit.in_turn(&self.turn)
    }

    /// Returns whether the call is to be repeated after an attempt with the result `ended`. On
    /// `true`, the turn of the call has come.
    pub(super) async fn continue_after(&self, ended: &Result<(), Failure>) -> bool {
        ended.as_ref().is_err_and(|failure| failure.kind == Kind::Conflict)
            && self.made < MOST
            && Instant::now() < self.until
            && Box::pin(self.turn.wait(self.until)).await
    }
}
