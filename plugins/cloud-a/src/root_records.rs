//! Stored records of a root rotation between its steps: the pending secret, and the retired
//! passwords that are still to be removed.
//!
//! This file prevents a password from being looked for at another application, and then forgotten
//! as if it had been removed: each record names the application of its passwords.

use crate::kept_secrets;
use crate::rotated_secret::{FormerSecret, RotatedSecret, SecretPlace};
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
    /// `None` if an earlier release began the rotation.
    #[serde(default)]
    pub(crate) place: Option<SecretPlace>,
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
    /// `None` if an earlier release made the secret, like the next field.
    #[serde(default)]
    pub(crate) place: Option<SecretPlace>,
    #[serde(default)]
    pub(crate) former: Option<FormerSecret>,
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
    /// Application of each id and name. An entry of an earlier release has none, and is looked for
    /// at the configured application.
    #[serde(default)]
    places: BTreeMap<String, SecretPlace>,
}

stored!(RetiredPasswords, "root-retired", reads_stored_retired_secrets);

impl PendingSecret {
    /// Returns the secret as one that may be in force.
    pub(crate) fn rotated_secret(&self) -> RotatedSecret {
        RotatedSecret {
            secret: self.secret.clone(),
            key_id: self.key_id.clone(),
            expires: Some(self.expires),
            former: self.former.clone(),
        }
    }

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

    /// Adds passwords of an application by id and name, for removal as soon as possible.
    pub(crate) fn add(
        host: &dyn Host,
        place: Option<&SecretPlace>,
        key_ids: impl IntoIterator<Item = String>,
        names: impl IntoIterator<Item = String>,
    ) -> Result<(), Failure> {
        let mut retired = Self::find(host)?.unwrap_or_default();
        let now = host.clock().now();
        let mut add_place = |entry: &str| {
            if let Some(place) = place {
                retired.places.insert(entry.to_owned(), place.clone());
            }
        };
        for key_id in key_ids {
            add_place(&key_id);
            retired.key_ids.insert(key_id);
        }
        for name in names {
            add_place(&name);
            retired.added.insert(name.clone(), now);
            retired.names.insert(name);
        }
        if retired.is_empty() {
            return Ok(());
        }
        retired.since = now;
        retired.store(host, now)
    }

    /// Takes a password off the record, because the configuration uses the password again.
    pub(crate) fn spare(host: &dyn Host, key_id: &str) -> Result<(), Failure> {
        let Some(mut retired) = Self::find(host)? else { return Ok(()) };
        if !retired.key_ids.remove(key_id) {
            return Ok(());
        }
        retired.places.remove(key_id);
        match retired.is_empty() {
            true => Self::remove(host),
            false => host.storage().put(RETIRED, &retired),
        }
    }

    /// Sets the timer if the record has passwords of the application, which the configuration names
    /// again.
    pub(crate) fn resume(host: &dyn Host, place: &SecretPlace) -> Result<(), Failure> {
        match Self::find(host)?.is_some_and(|retired| retired.is_due_at(place)) {
            true => host.clock().schedule(RETIRED, host.clock().now(), RETIRED),
            false => Ok(()),
        }
    }

    /// Tells if the record has passwords of the application.
    pub(crate) fn is_due_at(&self, place: &SecretPlace) -> bool {
        self.key_ids.iter().chain(&self.names).any(|entry| self.is_at(entry, place))
    }

    /// Tells if a password of the application is to be removed.
    pub(crate) fn contains(&self, place: &SecretPlace, key_id: &str, name: Option<&str>) -> bool {
        let is_named =
            name.is_some_and(|name| self.names.contains(name) && self.is_at(name, place));
        is_named || (self.key_ids.contains(key_id) && self.is_at(key_id, place))
    }

    fn is_at(&self, entry: &str, place: &SecretPlace) -> bool {
        self.places.get(entry).is_none_or(|own| own == place)
    }

    fn is_empty(&self) -> bool {
        self.key_ids.is_empty() && self.names.is_empty()
    }

    /// Drops the ids of the application, whose passwords are removed, and its names that were added
    /// at `before` or earlier. Stores the rest; names of the application are looked for again at
    /// `next`.
    pub(crate) fn finish(
        mut self,
        host: &dyn Host,
        place: &SecretPlace,
        (before, next): (StoreTime, StoreTime),
    ) -> Result<(), Failure> {
        let Self { key_ids, names, since, added, places } = &mut self;
        let is_at = |entry: &String| places.get(entry).is_none_or(|own| own == place);
        key_ids.retain(|key_id| !is_at(key_id));
        names.retain(|name| !is_at(name) || *added.get(name).unwrap_or(since) > before);
        added.retain(|name, _| names.contains(name));
        places.retain(|entry, _| key_ids.contains(entry) || names.contains(entry));
        if self.is_empty() {
            return Self::remove(host);
        }
        match self.is_due_at(place) {
            true => self.store(host, next),
            false => host.storage().put(RETIRED, &self),
        }
    }

    /// Stores the record and sets its timer to `at`.
    fn store(&self, host: &dyn Host, at: StoreTime) -> Result<(), Failure> {
        host.storage().put(RETIRED, self)?;
        host.clock().schedule(RETIRED, at, RETIRED)
    }

    /// Deletes the record and its timer.
    fn remove(host: &dyn Host) -> Result<(), Failure> {
        host.storage().delete(RETIRED)?;
        host.clock().cancel(RETIRED)
    }
}

/// Deletes all records because the configuration is removed. Returns a warning that lists the
/// passwords left at the provider.
pub(crate) fn forget(host: &dyn Host) -> Result<Option<String>, Failure> {
    let pending = PendingSecret::find(host)?.map(|pending| pending.key_id);
    let RetiredPasswords { key_ids, names, .. } = RetiredPasswords::find(host)?.unwrap_or_default();
    PendingSecret::remove(host)?;
    RetiredPasswords::remove(host)?;
    let kept_ids = kept_secrets::forget_all(host)?;
    let left: Vec<String> =
        pending.into_iter().chain(key_ids).chain(names).chain(kept_ids).collect();
    Ok((!left.is_empty()).then(|| {
        let left = left.join(", ");
        format!("a rotation was not finished; remove from the application the passwords {left}")
    }))
}
