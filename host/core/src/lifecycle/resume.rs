//! Resuming the unfinished work of an earlier process.

use super::ending::in_background;
use super::leave_groups::let_members_leave;
use super::{disable, remount, swap};
use crate::core::Core;
use crate::mounts::{MountRecord, Phase, UnavailableMount};
use std::sync::Arc;

/// Resumes the removal and the moves of mounts, the probation of new plugin versions, and the
/// removal of members from deleted groups.
pub(crate) fn resume(core: &Arc<Core>) {
    let_members_leave(core);
    for mount in core.mounts.all() {
        resume_mount(core, mount.record.clone());
    }
    for UnavailableMount { record, .. } in core.mounts.unavailable() {
        resume_mount(core, record);
    }
}

/// Continues the work that an earlier process left at a mount, whether its plugin is available or
/// not.
pub(super) fn resume_mount(core: &Arc<Core>, record: MountRecord) {
    match record.phase {
        Phase::Serving => swap::watch_probation(core, &record.uuid),
        Phase::Moving { .. } => remount::carry_out(core, &record.uuid),
        Phase::Ending | Phase::Erasing => {
            let work = disable::resume_removal(Arc::clone(core), record);
            // If the service is sealed again at once, the next unsealing goes on.
            drop(in_background(core, work));
        }
    }
}
