//! The leases of an open store, and the addresses of their rows.

use super::record::{LeaseRecord, read};
use crate::mounts::Mounts;
use bulkhead_access::background::{BackgroundState, Claims, DueWorkGate};
use bulkhead_access::log::{Log, LogCause, cause};
use bulkhead_access::sealing::SealSignal;
use bulkhead_store::{Address, Space, Store, Unit};
use bulkhead_wire::duration_histogram::DurationHistogram;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// The leases of an open store.
pub struct Leases {
    pub(super) store: Arc<Store>,
    pub(super) mounts: Arc<Mounts>,
    pub(super) claims: Arc<Claims>,
    pub(super) sealing: SealSignal,
    pub(super) log: Arc<dyn Log>,
    /// While due work is suspended, no waiting request would see a lease end.
    pub(super) due_work: Arc<DueWorkGate>,
    /// Times from the due time of leases and reservations to their end.
    pub end_delays: DurationHistogram,
}

impl Leases {
    pub(crate) fn new(work: &BackgroundState, mounts: &Arc<Mounts>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(&work.store),
            mounts: Arc::clone(mounts),
            claims: Arc::clone(&work.claims),
            sealing: work.sealing.clone(),
            log: Arc::clone(&work.log),
            due_work: Arc::clone(&work.gate),
            end_delays: DurationHistogram::of_delays(),
        })
    }

    /// Logs an event of a lease for the operator.
    pub(crate) fn log_lease(
        &self,
        level: LogLevel,
        event: &str,
        lease: &LeaseRecord,
        why: &impl LogCause,
    ) {
        // The id without its last part, because the last part is as good as the lease.
        let path = lease.id.rsplit_once('/').map_or("", |(path, _)| path);
        let pairs = [
            ("lease", path.to_owned()),
            ("tag", lease.tag.clone()),
            ("attempts", lease.attempts.to_string()),
            cause(why),
        ];
        self.log.line(level, event, &pairs);
    }

    /// Returns the row address of a lease id; `None` if no lease can have the id. The path stays
    /// readable for listing by prefix; the secret part is hashed.
    pub(crate) fn locate(&self, id: &str) -> Option<Address> {
        let (path, _) = id.rsplit_once('/')?;
        let (holder, below) = self.mounts.holder(path)?;
        Some(address(&self.store, Space::Lease, &holder.uuid, below, id))
    }

    /// Finds the lease with the id, or the reservation if the lease has not been confirmed.
    pub async fn find(
        &self,
        unit: &mut Unit,
        id: &str,
    ) -> Result<Option<(Address, LeaseRecord)>, Failure> {
        let Some(Address { key, .. }) = self.locate(id) else { return Ok(None) };
        for space in Space::LEASES {
            let address = Address::new(space, key.as_str());
            if let Some(lease) = read(unit, &address).await? {
                return Ok(Some((address, lease)));
            }
        }
        Ok(None)
    }
}

/// Returns the row address of the lease `id`; `below` is its path below the mount.
pub(crate) fn address(store: &Store, space: Space, mount: &str, below: &str, id: &str) -> Address {
    let hash = store.keyed_hash("lease", id.as_bytes());
    let key = if below.is_empty() {
        format!("{mount}/{hash}")
    } else {
        format!("{mount}/{below}/{hash}")
    };
    Address::new(space, key)
}
