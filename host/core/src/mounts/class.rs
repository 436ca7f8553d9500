//! The two kinds of mount, which are listed apart.

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
    pub(crate) fn of(path: &MountPath) -> Self {
        if path.is_auth() { Self::Auth } else { Self::Secret }
    }
}
