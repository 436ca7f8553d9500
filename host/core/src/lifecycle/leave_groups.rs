//! Taking entities out of groups that were deleted, or that lost their auth method.
//!
//! Such a group gives no rights from its commit on; what is done here is to forget who was in it.
//! What is left of that is written down, so that another process goes on where this one died.

use super::ending::in_background;
use crate::core::Core;
use crate::identity::membership;
use crate::log::cause;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Lets the entities leave that are to, in the background.
pub(crate) fn let_members_leave(core: &Arc<Core>) {
    let work = leave(Arc::clone(core));
    // Sealed meanwhile, it is for the next unsealing.
    drop(in_background(core, work));
}

async fn leave(core: Arc<Core>) {
    if let Err(failure) = all_leave(&core).await {
        // Nothing is lost: the next unsealing, or the next such change, goes on with it.
        core.log.line("warn", "group-clearing-delayed", &[cause(&failure)]);
    }
}

async fn all_leave(core: &Core) -> Result<(), Failure> {
    for group in membership::leaving(&core.store).await? {
        membership::all_leave(&core.store, &group).await?;
    }
    Ok(())
}
