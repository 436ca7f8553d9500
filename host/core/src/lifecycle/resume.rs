//! Resuming the unfinished work of an earlier process.

use super::ending::in_background;
use super::leave_groups::let_members_leave;
use super::{disable, remount, swap};
use crate::core::Core;
use crate::mounts::Phase;
use std::sync::Arc;

/// Resumes the removal and the moves of mounts, the probation of new plugin versions, and the
/// removal of members from deleted groups.
pub(crate) fn resume(core: &Arc<Core>) {
    let_members_leave(core);
    for mount in core.mounts.all() {
        match mount.record.phase {
            Phase::Serving => swap::watch_probation(core, &mount.record.uuid),
            Phase::Moving { .. } => remount::carry_out(core, &mount.record.uuid),
            Phase::Ending | Phase::Erasing => {
                let work = disable::resume_removal(Arc::clone(core), mount);
                // If the service is being sealed, the removal goes on at the next unsealing.
                drop(in_background(core, work));
            }
        }
    }
}
