//! Changes of mounts by a commit, to be applied in this process (`lifecycle/after_commit.rs`).

use super::builtin::BuiltinMount;
use super::record::MountRecord;
use super::version::VersionSwap;

/// A committed change, to be applied in this process.
pub enum MountChange {
    /// A new mount.
    Enabled(Box<MountRecord>),
    /// New settings, and the swap to another version of the plugin.
    Tuned {
        /// Committed record with the new settings.
        record: Box<MountRecord>,
        /// Swap to carry out after the new settings apply; `None` if the version stays.
        swap: Option<VersionSwap>,
    },
    /// New settings, and a change to a later version of the plugin's API.
    Upgraded {
        /// Committed record with the new settings.
        record: Box<MountRecord>,
        /// API version to which the plugin migrates the mount's data.
        api_version: u64,
    },
    /// New settings of a built-in mount.
    TunedBuiltin(BuiltinMount, Box<MountRecord>),
    /// A mount that begins to move to another path.
    Moving(Box<MountRecord>),
}
