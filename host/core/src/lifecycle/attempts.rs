//! The attempts of a call of due work: one that loses a race against requests is made again at
//! once, in its turn.
//!
//! The fault this file stops: a rotation or a revocation that never finishes, because callers keep
//! changing a record that the component reads before it asks its target. Due work is done at least
//! once, so that it may begin again, although it asked its target before.

use crate::core::Core;
use bulkhead_store::{Turn, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use tokio::time::Instant;

/// Attempts of one call at most.
const MOST: u32 = 4;

/// The attempts of one call, and the turn that the call waits for between two of them.
pub(super) struct Attempts {
    turn: Turn,
    until: Instant,
    made: u32,
}

impl Attempts {
    /// The attempts of a call that ends at `until`.
    pub(super) fn new(core: &Core, until: Instant) -> Self {
        Self { turn: core.store.turn(), until, made: 0 }
    }

    /// Begins an attempt: `unit` is its unit of work.
    pub(super) fn begin(&mut self, unit: Unit) -> Unit {
        self.made += 1;
        unit.in_turn(&self.turn)
    }

    /// Whether the call is to be made again after an attempt that `ended` so. If it is, its turn
    /// has come.
    pub(super) async fn continue_after(&self, ended: &Result<(), Failure>) -> bool {
        ended.as_ref().is_err_and(|failure| failure.kind == Kind::Conflict)
            && self.made < MOST
            && Instant::now() < self.until
            && Box::pin(self.turn.wait(self.until)).await
    }
}
