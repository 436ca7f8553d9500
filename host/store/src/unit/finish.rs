//! The end of a unit of work, where the host adds its own part.

use super::{Unit, UnitPart};
use bulkhead_record::fault::StoreFault;

/// Maximum number of times that the host's part is computed before a conflict is returned to the
/// caller.
pub(super) const MOST_ATTEMPTS: u32 = 16;

/// The end of a unit, to which the host adds its own records (a lease, the check of a token). Both
/// parts are committed together. If a conflict lies in the host's part alone, such as a token
/// renewed meanwhile, only the host's part is repeated, so an external effect of the unit need not
/// be undone:
///
/// ```text
/// let mut finish = unit.finish();
/// loop {
///     let lease = write_lease(finish.restart_host_part()).await?;
///     if finish.try_commit().await? {
///         break Ok(lease);
///     }
/// }
/// ```
pub struct UnitFinish {
    pub(super) unit: Unit,
    pub(super) attempts: u32,
}

impl UnitFinish {
    /// Returns the unit for the host's part, which starts empty again.
    pub fn restart_host_part(&mut self) -> &mut Unit {
        self.unit.host = Some(UnitPart::default());
        &mut self.unit
    }

    /// Commits; returns `false` if the host's part must be repeated.
    ///
    /// # Errors
    /// As [`Unit::commit`]: nothing of the last segment was stored.
    pub async fn try_commit(&mut self) -> Result<bool, StoreFault> {
        self.attempts += 1;
        match self.unit.end_segment().await {
            Ok(_) => Ok(true),
            Err(StoreFault::Conflict) if self.attempts < MOST_ATTEMPTS && !self.has_yielded() => {
                self.unit.check(&self.unit.work.reads).await?;
                self.unit.spoiled = None;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Returns `true` if another request has its turn: the host's part would be refused until that
    /// turn is over.
    fn has_yielded(&self) -> bool {
        self.unit.turn.as_ref().is_some_and(|turn| turn.take_yielded())
    }
}
