//! Stored records of a root rotation between its steps: the pending secret, and the retired
//! passwords that are still to be removed.

use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of the records, and of their timers.
pub(crate) const PENDING: &str = "root-pending";
pub(crate) const RETIRED: &str = "root-retired";

/// A password about to be created, identified at the provider by its name.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PasswordCandidate {
    pub(crate) name: String,
}

stored!(PasswordCandidate, "root-candidate", reads_stored_root_candidates);

/// A new secret that does not work yet. No `Debug`, because it contains a secret.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PendingSecret {
    pub(crate) secret: String,
    pub(crate) key_id: String,
    pub(crate) made: StoreTime,
    pub(crate) expires: StoreTime,
    /// Generation of the configuration whose secret is replaced.
    pub(crate) generation: u64,
    /// Id of the replaced password, if known.
    pub(crate) replaces: Option<String>,
}

stored!(PendingSecret, "root-pending", reads_stored_pending_secrets);

/// Passwords of the application that are to be removed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct RetiredPasswords {
    pub(crate) key_ids: BTreeSet<String>,
    /// Names of passwords that may have been created although the answer was lost.
    pub(crate) names: BTreeSet<String>,
    /// Time of the latest addition to this record.
    pub(crate) since: StoreTime,
    /// Store time at which each name was added, so that a later name does not prolong the search
    /// for an earlier name. Records of earlier releases contain none.
    #[serde(default)]
    pub(crate) added: BTreeMap<String, StoreTime>,
}

stored!(RetiredPasswords, "root-retired", reads_stored_retired_secrets);

impl PendingSecret {
    /// Returns the pending secret, if any.
    pub(crate) fn find(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(PENDING)
    }

    /// Stores the pending secret and sets its timer to `at`.
    pub(crate) fn store(&self, host: &dyn Host, at: StoreTime) -> Result<(), Failure> {
        host.storage().put(PENDING, self)?;
        host.clock().schedule(PENDING, at, PENDING)
    }

    /// Deletes the pending secret and its timer.
    pub(crate) fn remove(host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(PENDING)?;
        host.clock().cancel(PENDING)
    }
}

impl RetiredPasswords {
    /// Returns the retired passwords, if any.
    pub(crate) fn find(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(RETIRED)
    }

    /// Adds passwords by id and name, for removal as soon as possible.
    pub(crate) fn add(
        host: &dyn Host,
        key_ids: impl IntoIterator<Item = String>,
        names: impl IntoIterator<Item = String>,
    ) -> Result<(), Failure> {
        let mut retired = Self::find(host)?.unwrap_or_default();
        let now = host.clock().now();
        retired.key_ids.extend(key_ids);
        for name in names {
            retired.added.insert(name.clone(), now);
            retired.names.insert(name);
        }
        retired.since = now;
        retired.store(host, now)
    }

    /// Drops the names that were added at `before` or earlier.
    pub(crate) fn forget_added(&mut self, before: StoreTime) {
        let Self { names, since, added, .. } = self;
        names.retain(|name| *added.get(name).unwrap_or(since) > before);
        added.retain(|name, _| names.contains(name));
    }

    /// Stores the record and sets its timer to `at`.
    pub(crate) fn store(&self, host: &dyn Host, at: StoreTime) -> Result<(), Failure> {
        host.storage().put(RETIRED, self)?;
        host.clock().schedule(RETIRED, at, RETIRED)
    }

    /// Deletes the record and its timer.
    pub(crate) fn remove(host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(RETIRED)?;
        host.clock().cancel(RETIRED)
    }
}

/// Deletes all records because the configuration is removed. Returns a warning that lists the
/// passwords left at the provider.
pub(crate) fn forget(host: &dyn Host) -> Result<Option<String>, Failure> {
    let pending = PendingSecret::find(host)?.map(|pending| pending.key_id);
    let retired = RetiredPasswords::find(host)?.map(|retired| retired.key_ids).unwrap_or_default();
    PendingSecret::remove(host)?;
    RetiredPasswords::remove(host)?;
    let left: Vec<String> = pending.into_iter().chain(retired).collect();
    Ok((!left.is_empty()).then(|| {
        let left = left.join(", ");
        format!("a rotation was not finished; remove from the application the passwords {left}")
    }))
}
