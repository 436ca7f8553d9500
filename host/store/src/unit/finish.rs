//! The end of a unit of work, in which the host adds its own part.

use super::{Part, Unit};
use crate::fault::StoreFault;

/// How often the host's part is computed before its conflict is the caller's.
pub(super) const MOST_ATTEMPTS: u32 = 16;

/// The end of a unit, to which the host adds what it knows best itself (a lease, the check of a
/// token). Both are committed as one. When a conflict lies in the host's part alone, a token that
/// was renewed meanwhile, only that part is done again; so an effect that the unit made needs not
/// be undone for it:
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
pub struct Finish {
    pub(super) unit: Unit,
    pub(super) attempts: u32,
}

impl Finish {
    /// The unit, for the host's part, which begins anew.
    pub fn restart_host_part(&mut self) -> &mut Unit {
        self.unit.host = Some(Part::default());
        &mut self.unit
    }

    /// Commits; `false` when the host's part is to be done again.
    ///
    /// # Errors
    /// As [`Unit::commit`]: nothing of the last segment was stored.
    pub async fn try_commit(&mut self) -> Result<bool, StoreFault> {
        self.attempts += 1;
        match self.unit.end_segment().await {
            Ok(_) => Ok(true),
            Err(StoreFault::Conflict) if self.attempts < MOST_ATTEMPTS && !self.gave_way() => {
                self.unit.check(&self.unit.work.reads).await?;
                self.unit.spoiled = None;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Whether it is another request's turn: the host's part would be refused again until that is
    /// over.
    fn gave_way(&self) -> bool {
        self.unit.turn.as_ref().is_some_and(|turn| turn.take_gave_way())
    }
}
