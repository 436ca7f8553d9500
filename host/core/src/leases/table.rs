//! The leases of an open store, and where the row of each is.

use super::record::{LEASE_SPACES, LeaseRecord, read};
use crate::background::{Background, Claims};
use crate::log::{Cause, Log, cause};
use crate::mounts::Mounts;
use crate::sealing::Sealing;
use bulkhead_store::{Address, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// The leases of an open store.
pub(crate) struct Leases {
    pub(super) store: Arc<Store>,
    pub(super) mounts: Arc<Mounts>,
    pub(super) claims: Arc<Claims>,
    pub(super) sealing: Sealing,
    pub(super) log: Arc<dyn Log>,
    /// Nothing is done because it is due, so that nothing that waits for it ends.
    pub(super) due_work_is_suspended: bool,
}

impl Leases {
    pub(crate) fn new(work: &Background, mounts: &Arc<Mounts>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(&work.store),
            mounts: Arc::clone(mounts),
            claims: Arc::clone(&work.claims),
            sealing: work.sealing.clone(),
            log: Arc::clone(&work.log),
            due_work_is_suspended: work.is_suspended,
        })
    }

    /// Tells the operator's log what became of a lease.
    pub(crate) fn tell(&self, level: &str, event: &str, lease: &LeaseRecord, why: &impl Cause) {
        // The id without its last part, which is as good as the lease.
        let path = lease.id.rsplit_once('/').map_or("", |(path, _)| path);
        let pairs = [
            ("lease", path.to_owned()),
            ("tag", lease.tag.clone()),
            ("attempts", lease.attempts.to_string()),
            cause(why),
        ];
        self.log.line(level, event, &pairs);
    }

    /// The row of a lease id; `None` when no lease can have it. The path stays readable for listing
    /// by prefix; the part that must not be guessed is hashed.
    pub(crate) fn locate(&self, id: &str) -> Option<Address> {
        let (path, _) = id.rsplit_once('/')?;
        let (holder, below) = self.mounts.holder(path)?;
        Some(address(&self.store, Space::Lease, &holder.uuid, below, id))
    }

    /// What bears the id: a lease, or a reservation whose end is still owed.
    pub(crate) async fn find(
        &self,
        unit: &mut Unit,
        id: &str,
    ) -> Result<Option<(Address, LeaseRecord)>, Failure> {
        let Some(Address { key, .. }) = self.locate(id) else { return Ok(None) };
        for space in LEASE_SPACES {
            let address = Address::new(space, key.as_str());
            if let Some(lease) = read(unit, &address).await? {
                return Ok(Some((address, lease)));
            }
        }
        Ok(None)
    }
}

/// The row of the lease `id`, whose path goes on with `below` after that of its mount.
pub(super) fn address(store: &Store, space: Space, mount: &str, below: &str, id: &str) -> Address {
    let hash = store.keyed_hash("lease", id.as_bytes());
    let key = if below.is_empty() {
        format!("{mount}/{hash}")
    } else {
        format!("{mount}/{below}/{hash}")
    };
    Address::new(space, key)
}
