//! Resolves an operator's path prefix to everything at and below the path, at segment borders.
//!
//! This file prevents a request for `database/creds/reader` from also ending the leases of
//! `database/creds/reader2`.

use super::prefix::LeasePrefix;
use super::table::Leases;
use crate::mounts::LeaseHolder;

/// Position of a path among the mounts.
pub enum PathPosition {
    /// At or below a mount.
    Within {
        mount: LeaseHolder,
        /// Prefix of everything below the path in the mount: empty for the mount itself, or ending
        /// in a slash.
        folder: String,
        /// The key below the mount of the lease with `path` as its id, if `path` can be a lease id.
        lease: Option<String>,
    },
    /// Above these mounts, sorted by path, or beside all mounts if the list is empty.
    Above(Vec<LeaseHolder>),
}

impl Leases {
    /// Resolves `path`, without slashes at its ends. The empty path is above all mounts.
    pub fn resolve(&self, path: &str) -> PathPosition {
        let Some((mount, below)) = self.mounts.holder(path) else {
            let mut all = self.mounts.holders();
            all.retain(|mount| is_below(&mount.path, path));
            return PathPosition::Above(all);
        };
        if below.is_empty() {
            return PathPosition::Within { mount, folder: String::new(), lease: None };
        }
        let key = self.locate(path).map(|address| address.key);
        let lease = key.and_then(|key| Some(key.split_once('/')?.1.to_owned()));
        PathPosition::Within { mount, folder: format!("{below}/"), lease }
    }
}

impl PathPosition {
    /// Returns the leases at and below the path.
    pub fn lease_prefixes(&self) -> Vec<LeasePrefix<'_>> {
        match self {
            Self::Above(mounts) => {
                mounts.iter().map(|mount| LeasePrefix { mount: &mount.uuid, below: "" }).collect()
            }
            Self::Within { mount, folder, lease } => {
                let beginnings = [Some(folder), lease.as_ref()].into_iter().flatten();
                beginnings.map(|below| LeasePrefix { mount: &mount.uuid, below }).collect()
            }
        }
    }
}

/// Returns whether `path` is below `above`. Everything is below the empty path.
pub(super) fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_path_prefix_matches_whole_segments_only() {
        for (path, above) in [("a/b", "a"), ("a/", "a"), ("a/b/c", "a/b"), ("a", ""), ("ä/b", "ä")]
        {
            assert!(is_below(path, above), "{path} {above}");
        }
        for (path, above) in
            [("ab", "a"), ("a", "a"), ("a", "a/b"), ("b/a", "a"), ("a2/b", "a"), ("ä/b", "a")]
        {
            assert!(!is_below(path, above), "{path} {above}");
        }
    }
}
