//! Changes of mounts by a commit, to be applied in this process (`lifecycle/after_commit.rs`).

use super::builtin::Builtin;
use super::record::MountRecord;
use super::version::Swap;

/// A committed change, to be applied in this process.
pub(crate) enum Change {
    /// A new mount.
    Enabled(Box<MountRecord>),
    /// New settings, and the swap to another version of the plugin.
    Tuned { record: Box<MountRecord>, swap: Option<Swap> },
    /// New settings of a built-in mount.
    TunedBuiltin(Builtin, Box<MountRecord>),
    /// A mount that begins to move to another path.
    Moving(Box<MountRecord>),
}
