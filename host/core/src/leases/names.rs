//! Names directly below a path of the lease book: mounts and folders, which end in a slash, and the
//! last parts of leases.
//!
//! Keys hold the paths of leases without their last part. A folder is found from keys alone, with a
//! single skip over its content; only leases directly in the listed folder are read. At most the
//! requested number of names is held in memory.

use super::lookup::{PathPosition, is_below};
use super::record::{StoredLease, read_tolerantly};
use super::table::Leases;
use crate::mounts::LeaseHolder;
use bulkhead_access::log::cause;
use bulkhead_access::paging::SortedNames;
use bulkhead_store::{Address, Space};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;

/// Sorts after every key of a folder: paths never contain this unprintable character.
const LAST_CHAR: char = char::MAX;

impl Leases {
    /// Adds the names directly below `path`, which has no slash at its ends and is empty for all
    /// mounts.
    ///
    /// # Errors
    /// The store's failure, or too many names. A lease that does not open is logged and left out.
    pub async fn add_names(&self, path: &str, names: &mut SortedNames) -> Result<(), Failure> {
        match self.resolve(path) {
            PathPosition::Above(mounts) => self.above(path, &mounts, names).await,
            PathPosition::Within { mount, folder, .. } => self.within(&mount, &folder, names).await,
        }
    }

    /// Adds the next path segment of each mount that has leases.
    async fn above(
        &self,
        path: &str,
        mounts: &[LeaseHolder],
        names: &mut SortedNames,
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
                names.add(format!("{segment}/")).await?;
            }
        }
        Ok(())
    }

    async fn within(
        &self,
        mount: &LeaseHolder,
        folder: &str,
        names: &mut SortedNames,
    ) -> Result<(), Failure> {
        let prefix = format!("{}/{folder}", mount.uuid);
        let mut scan = self.store.scan(Space::Lease, prefix.as_str());
        while let Some(page) = scan.page().await? {
            for address in page {
                let rest = address.key.strip_prefix(&prefix).unwrap_or_default();
                match rest.split_once('/') {
                    Some((folder, _)) => {
                        scan.skip_to(format!("{prefix}{folder}/{LAST_CHAR}"));
                        names.add(format!("{folder}/")).await?;
                        // The rest of the page is most likely in the same folder.
                        break;
                    }
                    None => {
                        if let Some(name) = self.last_part(&address).await? {
                            names.add(name).await?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn last_part(&self, address: &Address) -> Result<Option<String>, Failure> {
        match read_tolerantly(&mut self.store.begin(), address).await? {
            StoredLease::Lease(lease) => Ok(lease.id.rsplit('/').next().map(str::to_owned)),
            StoredLease::Gone => Ok(None),
            StoredLease::Damaged(why) => {
                self.log.line(LogLevel::Error, "lease-unreadable", &[cause(&why)]);
                Ok(None)
            }
        }
    }
}
