//! The two kinds of mount, which are listed apart.

use crate::catalog::PluginType;
use bulkhead_wire::name::MountPath;

/// The two kinds of mount, which are listed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Secrets engines, and `sys/`.
    Secret,
    /// Auth methods, all below `auth/`.
    Auth,
}

impl Class {
    /// The type of plugin that serves such a mount.
    pub(crate) fn plugin_type(self) -> PluginType {
        match self {
            Self::Secret => PluginType::Secret,
            Self::Auth => PluginType::Auth,
        }
    }

    pub(crate) fn of(path: &MountPath) -> Self {
        if path.is_auth() { Self::Auth } else { Self::Secret }
    }
}
