//! What a commit changed in the mounts, to take effect in this process
//! (`lifecycle/after_commit.rs`).

use super::builtin::Builtin;
use super::record::MountRecord;
use super::version::Swap;

/// What a commit changed, to take effect in this process.
pub(crate) enum Change {
    /// A new mount.
    Enabled(Box<MountRecord>),
    /// Other settings, and the version of the plugin that the mount is to be swapped to.
    Tuned { record: Box<MountRecord>, swap: Option<Swap> },
    /// Other settings of a part of the server.
    TunedBuiltin(Builtin, Box<MountRecord>),
    /// On its way to another path.
    Moving(Box<MountRecord>),
}
