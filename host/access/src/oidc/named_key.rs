//! Named keys: the key that signs now, the next key, and retired public keys.
//!
//! This file prevents tokens that cannot be verified. The next public key is published before the
//! key signs, so verifiers that cache the document for an hour already know it. A retired public
//! key stays published until the last token that it verifies has expired.

use super::algorithm::TokenAlgorithm;
use super::key_pair::{PublishedKey, TokenSigningKey};
use bulkhead_store::{Address, IndexColumns, Record, Space, Unit};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};

/// Name of the key for mounts without a configured key. The key is created at first use.
pub const DEFAULT: &str = "default";
/// Address of a key in [`Space::Core`], as an endpoint's existence check names it.
pub const EXISTENCE: &str = "oidc-key/{name}";
const PREFIX: &str = "oidc-key/";
/// Maximum number of named keys. Anonymous callers can request the document with all public keys.
const MOST_KEYS: usize = 100;
/// Maximum number of retired public keys of a named key, for the same reason.
const MOST_RETIRED: usize = 16;
/// Minimum rotation period and verification TTL, in seconds.
const MIN_PERIOD: u64 = 60;
/// Maximum verification TTL in rotation periods. Bounds the number of retired keys.
const MAX_TTL_PERIODS: u64 = 10;

/// The operator's settings of a key. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    /// Signature algorithm.
    pub algorithm: TokenAlgorithm,
    /// Time for which a key signs.
    pub rotation_period: u64,
    /// Time for which the public key stays published afterwards, and the maximum lifetime of a
    /// token.
    pub verification_ttl: u64,
    /// Client ids of the roles that may use the key; `*` allows all roles.
    pub allowed_client_ids: Vec<String>,
}

impl KeySettings {
    /// Returns the default settings of a key with this name.
    pub fn default_settings(name: &str) -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            algorithm: TokenAlgorithm::default(),
            rotation_period: 86_400,
            verification_ttl: 86_400,
            allowed_client_ids: if name == DEFAULT { all() } else { Vec::new() },
        }
    }

    /// Checks that the times are consistent.
    ///
    /// # Errors
    /// 400 that names the setting to change.
    pub fn check(&self) -> Result<(), Failure> {
        let times = [
            ("rotation_period", self.rotation_period),
            ("verification_ttl", self.verification_ttl),
        ];
        if let Some((name, time)) = times.into_iter().find(|(_, time)| *time < MIN_PERIOD) {
            let time = duration::show(time);
            return Err(Failure::invalid(format!(
                "{name} of {time} is too short: give 1m or more"
            )));
        }
        if self.verification_ttl > self.rotation_period.saturating_mul(MAX_TTL_PERIODS) {
            let [period, ttl] = times.map(|(_, time)| duration::show(time));
            return Err(Failure::invalid(format!(
                "verification_ttl of {ttl} is longer than {MAX_TTL_PERIODS} times the \
                 rotation_period of {period}; give a shorter verification_ttl, or rotate less often"
            )));
        }
        Ok(())
    }
}

/// A stored named key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedKey {
    /// The operator's settings.
    #[serde(flatten)]
    pub settings: KeySettings,
    /// Start of signing with the present key, as store time in milliseconds.
    since: u64,
    signing: TokenSigningKey,
    next: TokenSigningKey,
    retired: Vec<RetiredKey>,
}

stored!(NamedKey, "oidc-key", reads_stored_oidc_keys);

/// The public half of a key that no longer signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RetiredKey {
    #[serde(flatten)]
    published: PublishedKey,
    /// End of publication, as store time in milliseconds.
    until: u64,
}

impl NamedKey {
    /// Returns a key that signs from `now` on.
    pub(super) fn new(settings: KeySettings, keys: [TokenSigningKey; 2], now: u64) -> Self {
        let [signing, next] = keys;
        Self { settings, since: now, signing, next, retired: Vec::new() }
    }

    /// Makes the next key the signing key, and `next` the next key. The public half of the previous
    /// signing key stays published for `verification_ttl` seconds.
    ///
    /// # Errors
    /// 400 when too many retired keys are still published.
    pub(super) fn rotate(
        &mut self,
        next: TokenSigningKey,
        verification_ttl: u64,
        now: u64,
    ) -> Result<(), Failure> {
        let until = now.saturating_add(verification_ttl.saturating_mul(1_000));
        self.retired.retain(|key| key.until > now);
        if until > now && self.retired.len() >= MOST_RETIRED {
            return Err(Failure::invalid(format!(
                "the public halves of {MOST_RETIRED} earlier keys are still published; wait until \
                 an earlier key expires, or withdraw the present key with verification_ttl 0"
            )));
        }
        let signing = std::mem::replace(&mut self.next, next);
        let before = std::mem::replace(&mut self.signing, signing);
        if until > now {
            self.retired.push(RetiredKey { published: before.published, until });
        }
        self.since = now;
        Ok(())
    }

    /// Replaces the signing and the next key, for a change of algorithm.
    ///
    /// # Errors
    /// Errors of [`NamedKey::rotate`].
    pub(super) fn replace(&mut self, keys: [TokenSigningKey; 2], now: u64) -> Result<(), Failure> {
        let [signing, next] = keys;
        self.next = signing;
        self.rotate(next, self.settings.verification_ttl, now)
    }

    /// Returns the key that signs.
    pub(super) fn signing(&self) -> &TokenSigningKey {
        &self.signing
    }

    /// Returns the store time of the next rotation, in milliseconds. A rotation waits until the
    /// list of retired keys has room, because retired keys are never withdrawn early.
    pub(super) fn next_rotation(&self) -> u64 {
        let period = self.settings.rotation_period.saturating_mul(1_000);
        let due = self.since.saturating_add(period);
        let mut ends: Vec<u64> = self.retired.iter().map(|key| key.until).collect();
        ends.sort_unstable();
        let room = ends.len().checked_sub(MOST_RETIRED).and_then(|at| ends.get(at));
        due.max(room.copied().unwrap_or_default())
    }

    /// Returns all public keys that verify a token at `now`.
    pub(super) fn published(&self, now: u64) -> impl Iterator<Item = &PublishedKey> {
        let retired = self.retired.iter().filter(move |key| key.until > now);
        let retired = retired.map(|key| &key.published);
        [&self.signing.published, &self.next.published].into_iter().chain(retired)
    }

    /// Reads the key with this name.
    pub async fn read(unit: &mut Unit, name: &str) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(name)).await?;
        found.map(|record| Self::parse(&record, name)).transpose()
    }

    pub(super) fn parse(record: &Record, name: &str) -> Result<Self, Failure> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the stored key {name}")))
    }

    /// Writes the key into the unit, and schedules the next rotation.
    pub fn put(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        let index = IndexColumns { due: Some(self.next_rotation()), ..IndexColumns::default() };
        unit.put(address(name), self.to_bytes()?, index);
        Ok(())
    }
}

/// Refuses the name of a key that does not exist. Accepts the default key, which is created on
/// demand.
///
/// # Errors
/// 400 that says how to create a key.
pub async fn check_named(unit: &mut Unit, name: &str) -> Result<(), Failure> {
    if name == DEFAULT || unit.get(&address(name)).await?.is_some() {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "there is no key {}; write the key at identity/oidc/key first",
        quoted(name)
    )))
}

/// Refuses a new key if the maximum number of keys exists.
///
/// # Errors
/// 400.
pub async fn check_room(unit: &mut Unit) -> Result<(), Failure> {
    if names(unit).await?.len() < MOST_KEYS {
        return Ok(());
    }
    Err(Failure::invalid(format!("there are {MOST_KEYS} keys, which is the most; delete a key")))
}

/// Deletes the key and all its public keys.
pub fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Returns the names of all stored keys, sorted.
pub async fn names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    Ok(unit.names(Space::Core, PREFIX, "", usize::MAX).await?)
}

/// Returns the name of the key stored at this address.
pub(super) fn name_at(address: &Address) -> &str {
    address.key.strip_prefix(PREFIX).unwrap_or_default()
}

/// Returns the address of the key with this name.
pub(super) fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests;
