//! Irrevocable leases: the plugin refused the end so often that an operator has to look (decision
//! P13).
//!
//! The owner column marks these rows, so counting does not scan other leases.

use super::record::{IRREVOCABLE, StoredLease, read_tolerantly};
use super::table::Leases;
use bulkhead_access::log::cause;
use bulkhead_store::Space;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeMap;

impl Leases {
    /// Counts irrevocable leases by mount accessor, or by mount uuid if the mount is gone.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn count_irrevocable(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut by_uuid: BTreeMap<String, u64> = BTreeMap::new();
        for space in Space::LEASES {
            let mut scan = self.store.scan_owned(space, IRREVOCABLE).by(1_000);
            while let Some(page) = scan.page().await? {
                for address in page {
                    let uuid = address.key.split('/').next().unwrap_or_default();
                    *by_uuid.entry(uuid.to_owned()).or_default() += 1;
                }
            }
        }
        let named = |uuid: String| {
            self.mounts.by_uuid(&uuid).map_or(uuid, |mount| mount.record.accessor.clone())
        };
        Ok(by_uuid.into_iter().map(|(uuid, count)| (named(uuid), count)).collect())
    }

    /// Returns the first `most` irrevocable leases. A lease that does not open is logged and left
    /// out.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn list_irrevocable(&self, most: usize) -> Result<Vec<IrrevocableLease>, Failure> {
        let mut found = Vec::new();
        for space in Space::LEASES {
            let mut scan = self.store.scan_owned(space, IRREVOCABLE);
            while found.len() < most
                && let Some(page) = scan.page().await?
            {
                let mut unit = self.store.begin();
                for address in page {
                    match read_tolerantly(&mut unit, &address).await? {
                        StoredLease::Lease(lease) => {
                            found.push(IrrevocableLease { id: lease.id, error: lease.error })
                        }
                        StoredLease::Gone => {}
                        StoredLease::Damaged(why) => {
                            self.log.line(LogLevel::Error, "lease-unreadable", &[cause(&why)])
                        }
                    }
                }
            }
        }
        found.truncate(most);
        Ok(found)
    }
}

/// An irrevocable lease.
pub struct IrrevocableLease {
    /// Lease id, usable for the revocation.
    pub id: String,
    /// Reason of the last failure, at most 240 characters.
    pub error: String,
}
