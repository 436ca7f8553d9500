//! A secret id: stored as a keyed hash, found by its role alone, spent by logins.
//!
//! This file prevents three attacks. Whoever reads the records learns no secret id. A secret id or
//! accessor of another role is not found, because all keys begin with the random id of the role.
//! Concurrent logins do not spend a use twice, because each login writes the record that it read,
//! and the commit checks the record again.

use crate::role::Role;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Storage key of the key of all hashes, as hexadecimal text.
const HASH_KEY: &str = "hash-key";

/// Lane of all timers.
pub(crate) const LANE: &str = "secret-ids";

/// Prefix of the keys of timers that remove a secret id at its end.
pub(crate) const END: &str = "end/";

/// The properties of a secret id, as stored. Times are in milliseconds of store time.
#[derive(Serialize, Deserialize)]
pub(crate) struct SecretId {
    pub(crate) accessor: String,
    /// Logins that are left; 0 means without limit. The record of a spent secret id is removed.
    pub(crate) num_uses: u64,
    /// Lifetime in seconds; 0 means without end.
    pub(crate) ttl: u64,
    pub(crate) created: StoreTime,
    pub(crate) updated: StoreTime,
    /// `None`: without end.
    pub(crate) expires: Option<StoreTime>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) cidr_list: Vec<String>,
    pub(crate) token_bound_cidrs: Vec<String>,
}

stored!(SecretId, "secret-id", reads_stored_secret_ids);

/// The place of a secret id: the id of its role, and the hash of the secret.
pub(crate) struct SecretIdKey<'a> {
    pub(crate) role: &'a str,
    pub(crate) hash: String,
}

impl<'a> SecretIdKey<'a> {
    /// Returns the place of a secret id of the role. `None` if the mount never had a secret id.
    pub(crate) fn of(
        host: &dyn Host,
        role: &'a Role,
        secret_id: &str,
    ) -> Result<Option<Self>, Failure> {
        let Some(key) = host.storage().get_plain::<String>(HASH_KEY)? else { return Ok(None) };
        Self::hashed(host, role, secret_id, &key).map(Some)
    }

    /// Returns the place of a new secret id, and makes the key of hashes if there is none.
    pub(crate) fn of_new(
        host: &dyn Host,
        role: &'a Role,
        secret_id: &str,
    ) -> Result<Self, Failure> {
        let key = match host.storage().get_plain::<String>(HASH_KEY)? {
            Some(key) => key,
            None => {
                let key = hexadecimal::text(&host.random().bytes(32));
                host.storage().put_plain(HASH_KEY, key.as_str())?;
                key
            }
        };
        Self::hashed(host, role, secret_id, &key)
    }

    fn hashed(
        host: &dyn Host,
        role: &'a Role,
        secret_id: &str,
        key: &str,
    ) -> Result<Self, Failure> {
        let hash = host.crypto().hmac("sha256", key.as_bytes(), secret_id.as_bytes())?;
        Ok(Self { role: &role.id, hash: hexadecimal::text(&hash) })
    }

    /// Returns the place of the role's secret id with this accessor, if any.
    pub(crate) fn of_accessor(
        host: &dyn Host,
        role: &'a Role,
        accessor: &str,
    ) -> Result<Option<Self>, Failure> {
        // Another text than an accessor could be a path to another role's records.
        if !accessor.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Ok(None);
        }
        let hash = host.storage().get_plain::<String>(&accessor_key(&role.id, accessor))?;
        Ok(hash.map(|hash| Self { role: &role.id, hash }))
    }

    /// Returns the storage key of the secret id.
    pub(crate) fn key(&self) -> String {
        format!("secret/{}/{}", self.role, self.hash)
    }

    /// Returns the key of the timer of the end.
    pub(crate) fn timer(&self) -> String {
        format!("{END}{}/{}", self.role, self.hash)
    }

    /// Returns the secret id, unless the secret id has expired.
    pub(crate) fn live(&self, host: &dyn Host) -> Result<Option<SecretId>, Failure> {
        let found: Option<SecretId> = host.storage().get(&self.key())?;
        let now = host.clock().now();
        Ok(found.filter(|secret_id| !secret_id.has_expired(now)))
    }

    /// Removes an expired secret id from the place.
    ///
    /// # Errors
    /// Invalid request if the place has a valid secret id.
    pub(crate) fn make_free(&self, host: &dyn Host) -> Result<(), Failure> {
        match host.storage().get::<SecretId>(&self.key())? {
            Some(expired) if expired.has_expired(host.clock().now()) => self.remove(host, &expired),
            Some(_) => Err(Failure::invalid(
                "the role has this secret_id already; choose another secret_id",
            )),
            None => Ok(()),
        }
    }

    /// Stores a new secret id with the accessor and the timer of the end.
    pub(crate) fn add(&self, host: &dyn Host, secret_id: &SecretId) -> Result<(), Failure> {
        host.storage().put(&self.key(), secret_id)?;
        let accessor = accessor_key(self.role, &secret_id.accessor);
        host.storage().put_plain(&accessor, self.hash.as_str())?;
        match secret_id.expires {
            Some(expires) => host.clock().schedule(&self.timer(), expires, LANE),
            None => Ok(()),
        }
    }

    /// Removes the secret id, the accessor and the timer.
    pub(crate) fn remove(&self, host: &dyn Host, secret_id: &SecretId) -> Result<(), Failure> {
        host.storage().delete(&self.key())?;
        host.storage().delete(&accessor_key(self.role, &secret_id.accessor))?;
        match secret_id.expires {
            Some(_) => host.clock().cancel(&self.timer()),
            None => Ok(()),
        }
    }

    /// Spends one use; the last use removes the secret id. At most as many uses are left as the
    /// role gives a secret id by now.
    pub(crate) fn spend(
        &self,
        host: &dyn Host,
        role: &Role,
        secret_id: &mut SecretId,
    ) -> Result<(), Failure> {
        match fewer_uses(secret_id.num_uses, role.secret_id_num_uses) {
            0 => Ok(()),
            1 => self.remove(host, secret_id),
            left => {
                secret_id.num_uses = left.saturating_sub(1);
                secret_id.updated = host.clock().now();
                host.storage().put(&self.key(), secret_id)
            }
        }
    }
}

impl SecretId {
    /// Tells if the secret id has ended.
    pub(crate) fn has_expired(&self, now: StoreTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Tells if the secret id is older than its role lets secret ids become by now.
    pub(crate) fn is_too_old(&self, role: &Role, now: StoreTime) -> bool {
        let ttl = role.secret_id_ttl.saturating_mul(1_000);
        ttl > 0 && self.created.saturating_add(ttl) <= now
    }

    /// Returns the properties that operators see.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "secret_id_accessor": self.accessor,
            "secret_id_num_uses": self.num_uses,
            "secret_id_ttl": self.ttl,
            "creation_time": timestamp(Some(self.created)),
            "last_updated_time": timestamp(Some(self.updated)),
            "expiration_time": timestamp(self.expires),
            "metadata": self.metadata,
            "cidr_list": self.cidr_list,
            "token_bound_cidrs": self.token_bound_cidrs,
        })
    }
}

/// Returns the lower of two numbers of uses; 0 is without limit.
fn fewer_uses(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, only) | (only, 0) => only,
        (one, other) => one.min(other),
    }
}

/// Returns the prefix of the accessors of a role.
pub(crate) fn accessors(role: &str) -> String {
    format!("accessor/{role}/")
}

/// Returns the storage key of an accessor, which holds the hash of its secret id.
pub(crate) fn accessor_key(role: &str, accessor: &str) -> String {
    format!("accessor/{role}/{accessor}")
}

/// Formats a time as RFC 3339. Clients read the first second of year 1 as no time.
fn timestamp(time: Option<StoreTime>) -> String {
    let moment = time.and_then(|time| i64::try_from(time / 1_000).ok());
    let moment = moment.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = moment.and_then(|moment| moment.format(&Rfc3339).ok());
    text.unwrap_or_else(|| "0001-01-01T00:00:00Z".to_owned())
}
