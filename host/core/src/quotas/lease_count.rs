//! A quota as it is stored, and what it counts.
//!
//! A token that a login made is a lease of its auth mount, as published servers have it. No auth
//! mount has other leases, and no quota is of a path below one.

use crate::leases::LEASE_SPACES;
use crate::tokens;
use bulkhead_store::{Address, Index, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};

/// Where quotas are stored in [`Space::Core`].
const PREFIX: &str = "quota/lease-count/";

/// How many leases there may be at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseCountQuota {
    /// The mount, by what its rows begin with, so that the quota moves with it; empty for all
    /// mounts together.
    pub(crate) mount: String,
    /// What the paths of the leases go on with below the mount, without slashes at its ends; empty
    /// for the whole mount.
    pub(crate) below: String,
    /// Reservations, and leases whose end is still owed, count too: what they are of may be there.
    pub(crate) max_leases: u32,
}

stored!(LeaseCountQuota, "lease-count-quota", reads_stored_lease_count_quotas);

impl LeaseCountQuota {
    /// Whether leases of that mount at the path `below` are counted. Paths are compared at the
    /// borders of their segments.
    pub(super) fn counts(&self, mount: &str, below: &str) -> bool {
        if self.mount.is_empty() {
            return true;
        }
        let rest = below.strip_prefix(&self.below);
        self.mount == mount
            && rest.is_some_and(|rest| {
                self.below.is_empty() || rest.is_empty() || rest.starts_with('/')
            })
    }

    /// Of the quotas that count a lease, the one that decides is the largest by this.
    pub(super) fn precision(&self) -> (bool, usize) {
        (!self.mount.is_empty(), self.below.len())
    }

    /// Whether both are of the same path.
    pub(crate) fn is_of_path_of(&self, other: &Self) -> bool {
        (&self.mount, &self.below) == (&other.mount, &other.below)
    }

    /// How many leases and tokens of logins it counts, and at most `max_leases` of each kind of
    /// row.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read.
    pub(crate) async fn count(&self, store: &Store) -> Result<u64, StoreFault> {
        let prefix = match (self.mount.as_str(), self.below.as_str()) {
            ("", _) => String::new(),
            (mount, "") => format!("{mount}/"),
            (mount, below) => format!("{mount}/{below}/"),
        };
        let mut counted = 0;
        for space in LEASE_SPACES {
            counted += u64::from(store.count(space, &prefix, self.max_leases).await?);
        }
        Ok(counted + u64::from(tokens::count_of_logins(store, &self.mount, self.max_leases).await?))
    }
}

fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

/// The quota of that name.
///
/// # Errors
/// The store's failure; 500 for a row that does not parse.
pub(crate) async fn read(unit: &mut Unit, name: &str) -> Result<Option<LeaseCountQuota>, Failure> {
    let Some(record) = unit.get(&address(name)).await? else { return Ok(None) };
    LeaseCountQuota::from_bytes(&record.body)
        .map(Some)
        .map_err(|unreadable| unreadable.of(format_args!("the stored lease-count quota {name}")))
}

/// Writes a quota into the unit.
///
/// # Errors
/// 500 where it cannot be written as JSON.
pub(crate) fn put(unit: &mut Unit, name: &str, quota: &LeaseCountQuota) -> Result<(), Failure> {
    unit.put(address(name), quota.to_bytes()?, Index::default());
    Ok(())
}

/// Deletes a quota; success also when there is none.
pub(crate) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Names of the quotas after `after`, at most `limit`, in order.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_what_is_at_and_below_its_path() {
        let quota = |mount: &str, below: &str| LeaseCountQuota {
            mount: mount.to_owned(),
            below: below.to_owned(),
            max_leases: 1,
        };
        for (quota, mount, below, is_counted) in [
            (quota("", ""), "m", "creds/reader", true),
            (quota("m", ""), "m", "creds/reader", true),
            (quota("m", ""), "n", "creds/reader", false),
            (quota("m", "creds"), "m", "creds/reader", true),
            (quota("m", "creds/reader"), "m", "creds/reader", true),
            (quota("m", "creds/reader"), "m", "creds/reader2", false),
            (quota("m", "creds/reader"), "m", "creds", false),
            (quota("m", "creds/reader"), "n", "creds/reader", false),
        ] {
            assert_eq!(quota.counts(mount, below), is_counted, "{quota:?} {mount} {below}");
        }
    }
}
