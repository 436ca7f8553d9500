//! Going on with what an earlier process left half-done.

use super::ending::in_background;
use super::leave_groups::let_members_leave;
use super::{disable, remount, swap};
use crate::core::Core;
use crate::mounts::Phase;
use std::sync::Arc;

/// Goes on with the mounts that an earlier process left on their way out or elsewhere, with the
/// probation of new versions, and with the groups that were left with members.
pub(crate) fn resume(core: &Arc<Core>) {
    let_members_leave(core);
    for mount in core.mounts.all() {
        match mount.record.phase {
            Phase::Serving => swap::watch_probation(core, &mount.record.uuid),
            Phase::Moving { .. } => remount::carry_out(core, &mount.record.uuid),
            Phase::Ending | Phase::Erasing => {
                let work = disable::resume_removal(Arc::clone(core), mount);
                // Sealed again at once, it is for the next unsealing.
                drop(in_background(core, work));
            }
        }
    }
}
