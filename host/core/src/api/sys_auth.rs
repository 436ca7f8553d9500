//! `sys/auth`: which auth method serves which path. Needs `sudo`, but for the listing
//! (decision H12).

use super::row::{row, sudo};
use super::{Handler, sys_mounts};
use bulkhead_wire::description::{Route, Verb};

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let (path, enabled, tuned) =
        (sys_mounts::path, sys_mounts::enabled_fields(), sys_mounts::tuned_fields());
    sys_mounts::rows_of_auth([
        row(Verb::Read, "sys/auth", "all auth methods", vec![]),
        sudo(Verb::Read, "sys/auth/{path+}", "one auth method", path()),
        sudo(Verb::Write, "sys/auth/{path+}", "mount an auth method", enabled),
        sudo(
            Verb::Delete,
            "sys/auth/{path+}",
            "end all leases of an auth method and delete it",
            path(),
        ),
        sudo(
            Verb::Read,
            "sys/auth/{path+}/tune",
            "the settings that hold for an auth method",
            path(),
        ),
        sudo(Verb::Write, "sys/auth/{path+}/tune", "change the settings of an auth method", tuned),
    ])
}
