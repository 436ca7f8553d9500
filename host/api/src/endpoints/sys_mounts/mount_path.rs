//! The path of a mount in the URL.

use crate::endpoints::row::field;
use bulkhead_core::mounts::MountClass;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;

/// The capture of a mount's path.
pub(crate) fn path() -> Field {
    field("path", FieldKind::String, "path of the mount")
}

/// Returns the path of a mount of `class`, given the part of the URL behind `sys/mounts/` or
/// `sys/auth/`.
///
/// # Errors
/// 400 if no mount can be at the path.
pub(super) fn mount_path(class: MountClass, path: &str) -> Result<MountPath, Failure> {
    let path = match class {
        MountClass::Secret => MountPath::new(path),
        MountClass::Auth => MountPath::below_auth(path),
    };
    path.map_err(Failure::invalid)
}
