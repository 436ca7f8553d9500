//! The two classes of mounts, which are listed separately.

use crate::catalog::PluginType;
use bulkhead_wire::name::MountPath;

/// The class of a mount. The two classes are listed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountClass {
    /// Secrets engines, and `sys/`.
    Secret,
    /// Auth methods, all below `auth/`.
    Auth,
}

impl MountClass {
    /// Returns the type of plugin that serves mounts of this class.
    pub fn plugin_type(self) -> PluginType {
        match self {
            Self::Secret => PluginType::Secret,
            Self::Auth => PluginType::Auth,
        }
    }

    /// Returns the class of a mount at `path`: [`Self::Auth`] below `auth/`, else [`Self::Secret`].
    pub fn of(path: &MountPath) -> Self {
        if path.is_auth() { Self::Auth } else { Self::Secret }
    }
}
