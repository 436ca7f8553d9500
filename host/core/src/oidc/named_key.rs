//! A named key: what signs now, what will sign next, and what signed before.
//!
//! The fault this file stops: a token that cannot be checked. The public half of the next key is
//! published before it signs, so that readers who keep the document for an hour know it by then;
//! that of an earlier one stays until the last token that it signed has ended.

use super::algorithm::Algorithm;
use super::key_pair::{PublishedKey, SigningKey};
use bulkhead_store::{Address, Index, Record, Space, Unit};
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};

/// The key of mounts that name none. It is made at its first use.
pub(crate) const DEFAULT: &str = "default";
/// Where keys are stored in [`Space::Core`], and what an endpoint's existence names.
pub(crate) const EXISTENCE: &str = "oidc-key/{name}";
const PREFIX: &str = "oidc-key/";
/// Most named keys: strangers ask for the document that holds them all.
const MOST_KEYS: usize = 100;
/// Most earlier public keys of one named key, for the same reason.
const MOST_RETIRED: usize = 16;
/// Shortest rotation period and verification ttl, in seconds.
const SHORTEST: u64 = 60;
/// The verification ttl is at most so many rotation periods, which bounds the keys that rotations
/// leave behind.
const PERIODS: u64 = 10;

/// What an operator says of a key. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeySettings {
    pub(crate) algorithm: Algorithm,
    /// How long a key signs.
    pub(crate) rotation_period: u64,
    /// How long its public half is published after that; no token lives longer.
    pub(crate) verification_ttl: u64,
    /// Roles that may sign with it, by their client ids; `*` is all.
    pub(crate) allowed_client_ids: Vec<String>,
}

impl KeySettings {
    /// What a key of that name is unless an operator says otherwise.
    pub(crate) fn unsaid(name: &str) -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            algorithm: Algorithm::default(),
            rotation_period: 86_400,
            verification_ttl: 86_400,
            allowed_client_ids: if name == DEFAULT { all() } else { Vec::new() },
        }
    }

    /// Whether the times agree.
    ///
    /// # Errors
    /// 400 that names the one to change.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let times = [
            ("rotation_period", self.rotation_period),
            ("verification_ttl", self.verification_ttl),
        ];
        if let Some((name, time)) = times.into_iter().find(|(_, time)| *time < SHORTEST) {
            let time = duration::show(time);
            return Err(Failure::invalid(format!(
                "{name} of {time} is too short: give 1m or more"
            )));
        }
        if self.verification_ttl > self.rotation_period.saturating_mul(PERIODS) {
            let [period, ttl] = times.map(|(_, time)| duration::show(time));
            return Err(Failure::invalid(format!(
                "verification_ttl of {ttl} is longer than {PERIODS} times the rotation_period of \
                 {period}; shorten it, or rotate less often"
            )));
        }
        Ok(())
    }
}

/// A named key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedKey {
    #[serde(flatten)]
    pub(crate) settings: KeySettings,
    /// Since when the present key signs, as store time in milliseconds.
    since: u64,
    signing: SigningKey,
    next: SigningKey,
    retired: Vec<RetiredKey>,
}

stored!(NamedKey, "oidc-key", reads_stored_oidc_keys);

/// The public half of a key that signed before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RetiredKey {
    #[serde(flatten)]
    published: PublishedKey,
    /// Until when it is published, as store time in milliseconds.
    until: u64,
}

impl NamedKey {
    /// A key that signs from `now` on.
    pub(super) fn new(settings: KeySettings, keys: [SigningKey; 2], now: u64) -> Self {
        let [signing, next] = keys;
        Self { settings, since: now, signing, next, retired: Vec::new() }
    }

    /// Lets `next` sign after the key that signs from now on. The public half of the one that
    /// signed is published for `verification_ttl` seconds more.
    ///
    /// # Errors
    /// 400 when too many earlier ones are still published.
    pub(super) fn rotate(
        &mut self,
        next: SigningKey,
        verification_ttl: u64,
        now: u64,
    ) -> Result<(), Failure> {
        let until = now.saturating_add(verification_ttl.saturating_mul(1_000));
        self.retired.retain(|key| key.until > now);
        if until > now && self.retired.len() >= MOST_RETIRED {
            return Err(Failure::invalid(format!(
                "the public halves of {MOST_RETIRED} earlier keys are still published; wait until \
                 one has ended, or give verification_ttl 0 to withdraw the present one"
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

    /// Lets `signing` sign from now on and `next` after it: keys of another algorithm.
    ///
    /// # Errors
    /// As [`NamedKey::rotate`].
    pub(super) fn replace(&mut self, keys: [SigningKey; 2], now: u64) -> Result<(), Failure> {
        let [signing, next] = keys;
        self.next = signing;
        self.rotate(next, self.settings.verification_ttl, now)
    }

    /// The key that signs.
    pub(super) fn signing(&self) -> &SigningKey {
        &self.signing
    }

    /// When it is to be rotated, as store time in milliseconds: not before there is room among the
    /// earlier ones, which are never withdrawn early.
    pub(super) fn due(&self) -> u64 {
        let period = self.settings.rotation_period.saturating_mul(1_000);
        let due = self.since.saturating_add(period);
        let mut ends: Vec<u64> = self.retired.iter().map(|key| key.until).collect();
        ends.sort_unstable();
        let room = ends.len().checked_sub(MOST_RETIRED).and_then(|at| ends.get(at));
        due.max(room.copied().unwrap_or_default())
    }

    /// Every public half that verifies a token at `now`.
    pub(super) fn published(&self, now: u64) -> impl Iterator<Item = &PublishedKey> {
        let retired = self.retired.iter().filter(move |key| key.until > now);
        let retired = retired.map(|key| &key.published);
        [&self.signing.published, &self.next.published].into_iter().chain(retired)
    }

    /// The key of that name.
    pub(crate) async fn read(unit: &mut Unit, name: &str) -> Result<Option<Self>, Failure> {
        let found = unit.get(&address(name)).await?;
        found.map(|record| Self::parse(&record, name)).transpose()
    }

    pub(super) fn parse(record: &Record, name: &str) -> Result<Self, Failure> {
        Self::from_bytes(&record.body)
            .map_err(|unreadable| unreadable.of(format_args!("the stored key {name}")))
    }

    /// Writes it into the unit, to be rotated when it is due.
    pub(crate) fn put(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        let index = Index { due: Some(self.due()), ..Index::default() };
        unit.put(address(name), self.to_bytes()?, index);
        Ok(())
    }
}

/// Refuses a name that no key has.
///
/// # Errors
/// 400 that says where to make one.
pub(crate) async fn check_named(unit: &mut Unit, name: &str) -> Result<(), Failure> {
    if name == DEFAULT || unit.get(&address(name)).await?.is_some() {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "there is no key {}; write it at identity/oidc/key first",
        quoted(name)
    )))
}

/// Refuses one key more than there may be.
///
/// # Errors
/// 400.
pub(crate) async fn check_room(unit: &mut Unit) -> Result<(), Failure> {
    if names(unit).await?.len() < MOST_KEYS {
        return Ok(());
    }
    Err(Failure::invalid(format!("there are {MOST_KEYS} keys, which is the most; delete one")))
}

/// Deletes the key, and with it all that was published of it.
pub(crate) fn delete(unit: &mut Unit, name: &str) {
    unit.delete(address(name));
}

/// Names of all stored keys, in order.
pub(crate) async fn names(unit: &mut Unit) -> Result<Vec<String>, Failure> {
    Ok(unit.names(Space::Core, PREFIX, "", usize::MAX).await?)
}

/// The name of the key that is stored there.
pub(super) fn name_at(address: &Address) -> &str {
    address.key.strip_prefix(PREFIX).unwrap_or_default()
}

/// Where the key of that name is stored.
pub(super) fn address(name: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests;
