//! Leases whose end needs a given plugin of the catalog.

use super::record::{StoredLease, read_tolerantly};
use super::table::Leases;
use bulkhead_access::log::cause;
use bulkhead_store::Space;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;

/// Maximum number of leases that are counted.
const MAX_COUNTED_LEASES: usize = 10_000;

impl Leases {
    /// Counts the leases and reservations whose end needs the database plugin with that name, up to
    /// 10,000. Reads every lease, so only for requests that operators make seldom. A lease that
    /// does not open is logged and left out.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) async fn count_needing(&self, plugin: &str) -> Result<usize, Failure> {
        let mut count = 0;
        for space in Space::LEASES {
            let mut scan = self.store.scan(space, "");
            while count < MAX_COUNTED_LEASES
                && let Some(page) = scan.page().await?
            {
                let mut unit = self.store.begin();
                for address in page {
                    match read_tolerantly(&mut unit, &address).await? {
                        StoredLease::Lease(lease) => {
                            count += usize::from(lease.plugins.contains(plugin))
                        }
                        StoredLease::Gone => {}
                        StoredLease::Damaged(why) => {
                            self.log.line(LogLevel::Error, "lease-unreadable", &[cause(&why)]);
                        }
                    }
                }
            }
        }
        Ok(count)
    }
}
