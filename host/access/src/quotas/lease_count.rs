//! Stored form of a quota, and the count of its leases.
//!
//! A login token counts as a lease of its auth mount, as in published servers. An auth mount has no
//! other leases, and no quota applies to a path below an auth mount.

use super::place::QuotaPlace;
use super::record::Quota;
use crate::tokens;
use bulkhead_store::{Space, Store, StoreFault};
use bulkhead_wire::stored;
use serde::{Deserialize, Serialize};

/// Maximum number of leases at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseCountQuota {
    /// The paths of the quota.
    #[serde(flatten)]
    pub place: QuotaPlace,
    /// Maximum number of leases. Reservations and leases with a pending revocation count too,
    /// because their credentials may exist.
    pub max_leases: u32,
}

stored!(LeaseCountQuota, "lease-count-quota", reads_stored_lease_count_quotas);

impl Quota for LeaseCountQuota {
    const PREFIX: &'static str = "quota/lease-count/";
    const WORDS: &'static str = "lease-count quota";

    fn place(&self) -> &QuotaPlace {
        &self.place
    }
}

impl LeaseCountQuota {
    /// Counts leases and login tokens, up to `max_leases` for each kind of row.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn count(&self, store: &Store) -> Result<u64, StoreFault> {
        let QuotaPlace { mount, below } = &self.place;
        let prefix = match (mount.as_str(), below.as_str()) {
            ("", _) => String::new(),
            (mount, "") => format!("{mount}/"),
            (mount, below) => format!("{mount}/{below}/"),
        };
        let mut counted = 0;
        for space in Space::LEASES {
            counted += u64::from(store.count(space, &prefix, self.max_leases).await?);
        }
        Ok(counted + u64::from(tokens::count_of_logins(store, mount, self.max_leases).await?))
    }
}
