//! The place that a quota is for: all mounts, a mount, or a path below a mount.

use serde::{Deserialize, Serialize};

/// The place of a quota. The fields are part of the stored record of each kind of quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaPlace {
    /// Row prefix of the mount, so that the quota follows a moved mount; empty for all mounts
    /// together.
    pub mount: String,
    /// Path below the mount, without slashes at either end; empty for the whole mount.
    pub below: String,
}

impl QuotaPlace {
    /// Returns true if the path `below` the mount is at or below the place. Paths are compared at
    /// segment borders.
    pub(super) fn contains_path(&self, mount: &str, below: &str) -> bool {
        if self.mount.is_empty() {
            return true;
        }
        let rest = below.strip_prefix(&self.below);
        self.mount == mount
            && rest.is_some_and(|rest| {
                self.below.is_empty() || rest.is_empty() || rest.starts_with('/')
            })
    }

    /// Returns the precision of the place. If several quotas hold a path, the quota with the
    /// greatest precision applies.
    pub(super) fn precision(&self) -> (bool, usize) {
        (!self.mount.is_empty(), self.below.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_place_contains_own_path_and_paths_below() {
        let place = |mount: &str, below: &str| QuotaPlace {
            mount: mount.to_owned(),
            below: below.to_owned(),
        };
        for (place, mount, below, is_held) in [
            (place("", ""), "m", "creds/reader", true),
            (place("m", ""), "m", "creds/reader", true),
            (place("m", ""), "n", "creds/reader", false),
            (place("m", "creds"), "m", "creds/reader", true),
            (place("m", "creds/reader"), "m", "creds/reader", true),
            (place("m", "creds/reader"), "m", "creds/reader2", false),
            (place("m", "creds/reader"), "m", "creds", false),
            (place("m", "creds/reader"), "n", "creds/reader", false),
        ] {
            assert_eq!(place.contains_path(mount, below), is_held, "{place:?} {mount} {below}");
        }
    }
}
