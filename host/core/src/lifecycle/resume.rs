//! Ending and resuming the unfinished work of earlier processes.

use super::ending::outside_of_request;
use super::leave_groups::let_members_leave;
use super::{disable, remount, swap};
use crate::core::Core;
use crate::mounts::{MountPhase, MountRecord, UnavailableMount};
use bulkhead_access::background::guards;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Makes the reservations and guards of dead processes due now. On a node that shares its database,
/// these are the earlier processes of its data directory: the rows of another node are due by
/// themselves after the last moment of their call.
///
/// # Errors
/// 503 if the store cannot be read or written.
pub(super) async fn end_work_of_dead_epochs(core: &Core) -> Result<(), Failure> {
    if !core.store.may_have_former_work() {
        return Ok(());
    }
    core.leases.undo_dead().await?;
    guards::release_dead(&core.store, &*core.log).await?;
    core.store.forget_former_work();
    Ok(())
}

/// Resumes the removal and the moves of mounts, the probation of new plugin versions, and the
/// removal of members from deleted groups.
pub(crate) fn resume(core: &Arc<Core>) {
    let_members_leave(core);
    for mount in core.mounts.all() {
        resume_mount(core, mount.record.clone());
    }
    for UnavailableMount { record, .. } in core.mounts.list_unavailable() {
        resume_mount(core, record);
    }
}

/// Continues the work that an earlier process left at a mount, whether its plugin is available or
/// not.
pub(super) fn resume_mount(core: &Arc<Core>, record: MountRecord) {
    match record.phase {
        MountPhase::Serving => swap::watch_probation(core, &record.uuid),
        MountPhase::Moving { .. } => remount::carry_out(core, &record.uuid),
        MountPhase::Ending | MountPhase::Erasing => {
            let work = disable::resume_removal(Arc::clone(core), record);
            // If the service is sealed again at once, the next unsealing goes on.
            drop(outside_of_request(core, work));
        }
    }
}

#[cfg(test)]
mod tests;
