//! Removing the members of groups that were deleted or lost their auth method.
//!
//! Such a group gives no rights after its commit; the work here only deletes memberships. The
//! remaining work is stored, so that another process can go on after a crash.

use super::ending::in_background;
use crate::core::Core;
use bulkhead_access::identity::membership;
use bulkhead_access::log::cause;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Removes the members of all such groups, in the background.
pub fn let_members_leave(core: &Arc<Core>) {
    let work = leave(Arc::clone(core));
    // If the service is being sealed, the work goes on at the next unsealing.
    drop(in_background(core, work));
}

async fn leave(core: Arc<Core>) {
    if let Err(failure) = all_leave(&core).await {
        // Nothing is lost: the next unsealing, or the next such change, goes on with the work.
        core.log.line(LogLevel::Warn, "group-clearing-delayed", &[cause(&failure)]);
    }
}

async fn all_leave(core: &Core) -> Result<(), Failure> {
    for group in membership::groups_with_removals(&core.store).await? {
        membership::all_leave(&core.store, &group).await?;
    }
    Ok(())
}
