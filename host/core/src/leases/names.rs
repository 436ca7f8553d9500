//! The names one step below a path of the lease book: mounts and folders, which end in a slash, and
//! the last parts of the leases there.
//!
//! Keys hold the paths of leases but not their last part. Folders are found from keys alone, each
//! by one step over all that is in it; only leases that lie in the listed folder itself are read.
//! As many names are held as are asked for.

use super::reach::{Reach, is_below};
use super::record::{Opened, read_tolerantly};
use super::table::Leases;
use crate::log::cause;
use crate::mounts::Holder;
use crate::paging::Paging;
use bulkhead_store::{Address, Space};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeSet;

/// Behind every key that a path may begin: no path has this character in it, because it cannot be
/// printed.
const LAST: char = char::MAX;

impl Leases {
    /// The names one step below `path`, which has no slash at its ends and is empty for all mounts.
    /// Sorted, after `paging.after` and at most `paging.limit`.
    ///
    /// # Errors
    /// The store's failure. A lease that does not open is told and left out.
    pub(crate) async fn names(&self, path: &str, paging: &Paging) -> Result<Vec<String>, Failure> {
        let mut names = Names { paging, found: BTreeSet::new() };
        match self.resolve(path) {
            Reach::Above(mounts) => self.above(path, &mounts, &mut names).await?,
            Reach::Within { mount, folder, .. } => self.within(&mount, &folder, &mut names).await?,
        }
        Ok(names.found.into_iter().collect())
    }

    /// Mounts that have leases, by the next segment of their paths.
    async fn above(
        &self,
        path: &str,
        mounts: &[Holder],
        names: &mut Names<'_>,
    ) -> Result<(), Failure> {
        for mount in mounts {
            let full = mount.path.as_str();
            let rest = if is_below(full, path) {
                full.get(path.len()..).unwrap_or_default()
            } else {
                full
            };
            let segment = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
            if self.store.count(Space::Lease, &format!("{}/", mount.uuid), 1).await? > 0 {
                names.add(format!("{segment}/"));
            }
        }
        Ok(())
    }

    async fn within(
        &self,
        mount: &Holder,
        folder: &str,
        names: &mut Names<'_>,
    ) -> Result<(), Failure> {
        let prefix = format!("{}/{folder}", mount.uuid);
        let mut scan = self.store.scan(Space::Lease, prefix.as_str());
        while let Some(page) = scan.page().await? {
            for address in page {
                let rest = address.key.strip_prefix(&prefix).unwrap_or_default();
                match rest.split_once('/') {
                    Some((folder, _)) => {
                        scan.skip_to(format!("{prefix}{folder}/{LAST}"));
                        names.add(format!("{folder}/"));
                        // The rest of the page is most likely of the same folder.
                        break;
                    }
                    None => {
                        self.last_part(&address).await?.into_iter().for_each(|name| names.add(name))
                    }
                }
            }
        }
        Ok(())
    }

    async fn last_part(&self, address: &Address) -> Result<Option<String>, Failure> {
        match read_tolerantly(&mut self.store.begin(), address).await? {
            Opened::Lease(lease) => Ok(lease.id.rsplit('/').next().map(str::to_owned)),
            Opened::Gone => Ok(None),
            Opened::Damaged(why) => {
                self.log.line("error", "lease-unreadable", &[cause(&why)]);
                Ok(None)
            }
        }
    }
}

/// The smallest names that were asked for.
struct Names<'a> {
    paging: &'a Paging,
    found: BTreeSet<String>,
}

impl Names<'_> {
    fn add(&mut self, name: String) {
        if name > self.paging.after {
            self.found.insert(name);
        }
        if self.found.len() > self.paging.limit {
            self.found.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_smallest_after_a_name_in_order_whatever_order_they_are_found_in() {
        let found = |after: &str, limit: usize| {
            let paging = Paging { after: after.to_owned(), limit };
            let mut names = Names { paging: &paging, found: BTreeSet::new() };
            ["d", "a", "c/", "b", "c/", "e"]
                .into_iter()
                .for_each(|name| names.add(name.to_owned()));
            Vec::from_iter(names.found)
        };
        assert_eq!(found("", usize::MAX), ["a", "b", "c/", "d", "e"]);
        assert_eq!(found("", 2), ["a", "b"]);
        assert_eq!(found("b", 2), ["c/", "d"]);
        assert_eq!(found("c/", 2), ["d", "e"]);
        assert!(found("e", 2).is_empty());
    }
}
