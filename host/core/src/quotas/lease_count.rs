//! Stored form of a quota, and the count of its leases.
//!
//! A login token counts as a lease of its auth mount, as in published servers. An auth mount has no
//! other leases, and no quota applies to a path below an auth mount.

use super::place::QuotaPlace;
use crate::leases::LEASE_SPACES;
use crate::tokens;
use bulkhead_store::{Address, Index, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};

/// Key prefix of quotas in [`Space::Core`].
const PREFIX: &str = "quota/lease-count/";

/// Maximum number of leases at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseCountQuota {
    #[serde(flatten)]
    pub(crate) place: QuotaPlace,
    /// Maximum number of leases. Reservations and leases with a pending revocation count too,
    /// because their credentials may exist.
    pub(crate) max_leases: u32,
}

stored!(LeaseCountQuota, "lease-count-quota", reads_stored_lease_count_quotas);

impl LeaseCountQuota {
    /// Counts leases and login tokens, up to `max_leases` for each kind of row.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(crate) async fn count(&self, store: &Store) -> Result<u64, StoreFault> {
        let QuotaPlace { mount, below } = &self.place;
        let prefix = match (mount.as_str(), below.as_str()) {
            ("", _) => String::new(),
            (mount, "") => format!("{mount}/"),
            (mount, below) => format!("{mount}/{below}/"),
        };
        let mut counted = 0;
        for space in LEASE_SPACES {
            counted += u64::from(store.count(space, &prefix, self.max_leases).await?);
        }
        Ok(counted + u64::from(tokens::count_of_logins(store, mount, self.max_leases).await?))
    }
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

/// Reads the quota with this name.
///
/// # Errors
/// The store's failure; 500 for a row that does not parse.
pub(crate) async fn read(unit: &mut Unit, name: &str) -> Result<Option<LeaseCountQuota>, Failure> {
    let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
    LeaseCountQuota::from_bytes(&record.body)
        .map(Some)
        .map_err(|unreadable| unreadable.of(format_args!("the stored lease-count quota {name}")))
}

/// Writes a quota into the unit of work.
///
/// # Errors
/// 500 if the quota cannot be serialised.
pub(crate) fn put(unit: &mut Unit, name: &str, quota: &LeaseCountQuota) -> Result<(), Failure> {
    unit.put(address(name), quota.to_bytes()?, Index::default());
    Ok(())
}

/// Deletes a quota; succeeds also if the quota does not exist.
pub(crate) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns at most `limit` sorted names of quotas after `after`.
///
/// # Errors
/// The store's failure.
pub(crate) async fn names(
    unit: &mut Unit,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, StoreFault> {
    unit.names(Space::Core, PREFIX, after, limit).await
}
