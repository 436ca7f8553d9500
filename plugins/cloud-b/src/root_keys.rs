//! Keys of the method's own account that are not yet, or no longer, in use.
//!
//! A new key is used once the provider knows the key. The previous key is removed a minute later,
//! as is a new key that is no longer wanted.
//!
//! This file prevents a service account from running out of keys because each rotation postpones
//! the removal of earlier keys, or continues although earlier keys cannot be removed. This file
//! also prevents the removal of a key before another key of its account has logged in.
//!
//! This file prevents this attack, too: a caller with write access to the configuration points
//! `custom_endpoint` at their own server, and receives the access token by which a former key
//! removes itself. A former key is removed at the endpoints of its own time, and a new key is used
//! only at the place for which the key was made.

use crate::access::{self, KeyProof};
use crate::cloud::{CloudClient, impatient_provider};
use crate::credentials::ServiceAccountKey;
use crate::kept_keys;
use crate::keys;
use crate::settings::{Config, KeyPlace, RotatedKey};
use bulkhead_sdk::access_token::ProviderAccess;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::rotation::RotationBounds;
use bulkhead_sdk::{Context, Failure, FailureKind, Host, stored};
use serde::{Deserialize, Serialize};

const KEY: &str = "root-keys";
/// Timer that tries the next key.
pub(crate) const NEXT: &str = "root-keys";
/// Timer that removes former keys.
pub(crate) const FORMER: &str = "former-keys";
/// Milliseconds between the creation of a key and the next attempt to use the key.
const ACTIVATION_DELAY_MS: StoreTime = 5_000;
/// Milliseconds for which a former key lives on, because the provider's servers learn of its
/// successor at different times. Also the pause before another attempt at a removal.
const FORMER_KEY_GRACE_MS: StoreTime = 60_000;
/// Maximum number of keys of an account at the provider.
pub(crate) const MAX_KEYS: usize = 10;
/// Maximum number of former keys that await removal: the key in use and a new key fill the account.
const MAX_FORMER_KEYS: usize = MAX_KEYS - 2;
/// Maximum number of refused attempts to use or remove a key.
const MAX_ATTEMPTS: u32 = 10;

// At the shortest period, each key is removed before later keys fill the account.
const _: () = assert!(
    FORMER_KEY_GRACE_MS < RotationBounds::CONFIG.min_period * 1_000 * MAX_FORMER_KEYS as u64
);

/// Stored keys besides the key in use. No `Debug`, because it contains keys.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RootKeys {
    /// The new key, and the id of the key that it replaces.
    pub(crate) next: Option<PendingRootKey>,
    /// Keys to be removed, each at its own time.
    former: Vec<FormerRootKey>,
}

/// A new key that is not yet in use.
#[derive(Serialize, Deserialize)]
pub(crate) struct PendingRootKey {
    pub(crate) key: ServiceAccountKey,
    pub(crate) follows: String,
    /// `None` if an earlier release made the key.
    #[serde(default)]
    pub(crate) place: Option<KeyPlace>,
}

/// A key that is no longer in use.
#[derive(Serialize, Deserialize)]
struct FormerRootKey {
    #[serde(flatten)]
    key: ServiceAccountKey,
    /// Store time of its removal, which no rotation postpones. 0: an earlier release stored the
    /// key.
    #[serde(default)]
    ends: StoreTime,
    /// Number of removals that the provider refused.
    #[serde(default)]
    refusals: u32,
    /// `None` if an earlier release stored the key, which is then removed at the provider's own
    /// endpoints.
    #[serde(default)]
    place: Option<KeyPlace>,
}

impl PendingRootKey {
    /// Returns the key as one that may be in force.
    fn rotated_key(self) -> RotatedKey {
        RotatedKey { key: self.key, follows: self.follows, rotated: None }
    }
}

stored!(RootKeys, "root-keys", reads_stored_root_keys);

impl RootKeys {
    pub(crate) fn find(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Sets the new key and its timer.
    pub(crate) fn set_next(
        &mut self,
        host: &dyn Host,
        next: PendingRootKey,
    ) -> Result<(), Failure> {
        self.next = Some(next);
        host.clock().schedule(NEXT, host.clock().now().saturating_add(ACTIVATION_DELAY_MS), NEXT)
    }

    /// Adds a former key; its grace period begins now.
    pub(crate) fn retire(
        &mut self,
        host: &dyn Host,
        key: ServiceAccountKey,
        place: Option<KeyPlace>,
    ) {
        let ends = host.clock().now().saturating_add(FORMER_KEY_GRACE_MS);
        self.former.push(FormerRootKey { key, ends, refusals: 0, place });
    }

    /// Takes the new key off the record, with its place, if `config` has another key than the key
    /// to be replaced, or another place. `before` is the configuration under which the key was
    /// made.
    pub(crate) fn take_superseded(
        &mut self,
        before: &Config,
        config: &Config,
    ) -> Option<(KeyPlace, RotatedKey)> {
        let current = config.credentials.as_ref().map(|key| key.private_key_id.as_str());
        let place_of = |next: &PendingRootKey| {
            next.place.clone().unwrap_or_else(|| before.place_of(&next.key))
        };
        let next = self.next.take_if(|next| {
            current != Some(next.follows.as_str()) || Some(place_of(next)) != config.place()
        })?;
        let place = place_of(&next);
        Some((place, next.rotated_key()))
    }

    /// Takes the key of `config` off the former keys, because the key is in use again.
    pub(crate) fn spare_configured(&mut self, config: &Config) {
        let current = config.credentials.as_ref().map(|key| key.private_key_id.as_str());
        self.former.retain(|former| current != Some(former.key.private_key_id.as_str()));
    }

    /// Retires the keys `others` and the kept keys of a place, because the key `working` has logged
    /// in there.
    pub(crate) fn settle(
        &mut self,
        host: &dyn Host,
        (place, working): (&KeyPlace, &ServiceAccountKey),
        others: Vec<RotatedKey>,
    ) -> Result<(), Failure> {
        let mut ends = kept_keys::find(host, place)?;
        for other in others {
            ends.retain(|earlier| earlier.key != other.key);
            ends.push(other);
        }
        for one in ends.into_iter().filter(|one| one.key != *working) {
            self.retire(host, one.key, Some(place.clone()));
        }
        kept_keys::forget(host, place)
    }

    /// Returns the store time at which the first former key of `account` ends if another rotation
    /// could fill the account; `None` if there is room.
    pub(crate) fn full_until(&self, account: &str) -> Option<StoreTime> {
        let own = || self.former.iter().filter(|former| former.key.client_email == account);
        own().map(|former| former.ends).min().filter(|_| own().count() >= MAX_FORMER_KEYS)
    }

    /// Stores the keys and sets the timer of former keys to the earliest removal.
    pub(crate) fn store(&self, host: &dyn Host) -> Result<(), Failure> {
        let clock = host.clock();
        match self.former.iter().map(|former| former.ends).min() {
            Some(first) => clock.schedule(FORMER, first.max(clock.now()), FORMER)?,
            None => clock.cancel(FORMER)?,
        }
        if self.next.is_none() {
            clock.cancel(NEXT)?;
        }
        match self.next.is_none() && self.former.is_empty() {
            true => host.storage().delete(KEY),
            false => host.storage().put(KEY, self),
        }
    }
}

/// Uses the new key if the provider knows the key by now. Returns `false` if there is no new key or
/// the key is no longer wanted.
///
/// # Errors
/// The failure to use the key.
pub(crate) fn promote(cloud: &CloudClient<'_>) -> Result<bool, Failure> {
    let host = cloud.host();
    let mut keys = RootKeys::find(host)?;
    let Some(next) = keys.next.take() else { return Ok(false) };
    // Read again, because the commit that uses the key must see concurrent writes.
    let mut config = Config::find(host)?;
    let place = config.place_of(&next.key);
    let is_at_home = next.place.as_ref().is_none_or(|own| *own == place);
    let current = config.credentials.take();
    let follows = current.filter(|current| is_at_home && current.private_key_id == next.follows);
    let Some(before) = follows else {
        // The operator has written another key or place since. No key has logged in since then.
        log(host, LogLevel::Warn, "root-key-superseded", &next.key);
        match next.place.clone() {
            Some(place) => {
                kept_keys::keep(host, &place, next.rotated_key())?;
                kept_keys::try_soon(host, Some(&place))?;
            }
            None => keys.retire(host, next.key, None),
        }
        keys.store(host)?;
        return Ok(false);
    };
    access::by_key(&cloud.provider, &next.key)?;
    log(host, LogLevel::Info, "root-rotated", &next.key);
    keys.retire(host, before, Some(place.clone()));
    keys.settle(host, (&place, &next.key), Vec::new())?;
    config.set_rotated_key(next.rotated_key(), host.clock().now())?;
    config.store(host)?;
    keys.store(host)?;
    Ok(true)
}

/// Tries the new key when its timer fires.
///
/// # Errors
/// The failure to use the key; the timer then fires again.
pub(crate) fn wake_next(host: &dyn Host, context: &Context, attempt: u32) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let cloud = &CloudClient::new(host, &config, context.deadline);
    let mut keys = RootKeys::find(host)?;
    let Some(next) = &keys.next else {
        // An earlier release used this timer for former keys too.
        return keys.store(host);
    };
    match promote(cloud) {
        Err(why) if attempt >= MAX_ATTEMPTS && why.kind == FailureKind::InvalidRequest => {
            log(host, LogLevel::Error, "root-key-refused", &next.key);
            if let Some(next) = keys.next.take() {
                abandon_next(cloud, context, &mut keys, next)?;
            }
            postpone(host)?;
            keys.store(host)
        }
        promoted => promoted.map(drop),
    }
}

/// Gives up a new key that does not work in time. The key is removed only if the key in use works;
/// otherwise it is kept.
fn abandon_next(
    cloud: &CloudClient<'_>,
    context: &Context,
    keys: &mut RootKeys,
    next: PendingRootKey,
) -> Result<(), Failure> {
    let host = cloud.host();
    let place = next.place.clone().unwrap_or_else(|| cloud.config.place_of(&next.key));
    let provider = impatient_provider(host, context.deadline);
    let proof = match &cloud.config.credentials {
        Some(current) => access::prove(&provider, current)?,
        None => KeyProof::Refused,
    };
    match proof {
        KeyProof::Accepted => {
            keys.retire(host, next.key, Some(place));
            Ok(())
        }
        KeyProof::Refused => kept_keys::keep(host, &place, next.rotated_key()),
        KeyProof::Unknown(why) => Err(why),
    }
}

/// Removes the former keys that are due. A key that cannot be removed gets a later time and delays
/// no other key. While it is unknown which key of the configured account works, none of its keys is
/// removed.
///
/// # Errors
/// A failure of the store; the timer then fires again.
pub(crate) fn wake_former(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let cloud = &CloudClient::new(host, &config, context.deadline);
    let mut keys = RootKeys::find(host)?;
    let now = host.clock().now();
    let mut remaining_keys = Vec::new();
    for former in keys.former.drain(..) {
        match former.ends <= now {
            true if is_unsettled(cloud, &former)? => {
                let ends = now.saturating_add(FORMER_KEY_GRACE_MS);
                remaining_keys.push(FormerRootKey { ends, ..former });
            }
            true => remaining_keys.extend(end_or_keep(cloud, former, context.deadline)?),
            false => remaining_keys.push(former),
        }
    }
    keys.former = remaining_keys;
    keys.store(host)
}

/// Tells if it is unknown which key of the configured account works, and the former key is of this
/// account.
fn is_unsettled(cloud: &CloudClient<'_>, former: &FormerRootKey) -> Result<bool, Failure> {
    match cloud.config.place().filter(|place| Some(place) == former.place.as_ref()) {
        Some(place) => Ok(!kept_keys::find(cloud.host(), &place)?.is_empty()),
        None => Ok(false),
    }
}

/// Removes a key, or returns the key if its removal must be retried.
fn end_or_keep(
    cloud: &CloudClient<'_>,
    mut former: FormerRootKey,
    deadline: StoreTime,
) -> Result<Option<FormerRootKey>, Failure> {
    let host = cloud.host();
    let Err(why) = end(cloud, &former, deadline) else {
        log(host, LogLevel::Info, "root-key-removed", &former.key);
        return Ok(None);
    };
    match why.kind {
        FailureKind::Conflict | FailureKind::Internal => return Err(why),
        // A definite refusal is counted. An unreachable provider is retried without limit.
        FailureKind::InvalidRequest => former.refusals = former.refusals.saturating_add(1),
        _ => {}
    }
    if former.refusals >= MAX_ATTEMPTS {
        log(host, LogLevel::Error, "root-key-removal-given-up", &former.key);
        return Ok(None);
    }
    log(host, LogLevel::Warn, "root-key-not-removed", &former.key);
    former.ends = host.clock().now().saturating_add(FORMER_KEY_GRACE_MS);
    Ok(Some(former))
}

/// Schedules the next rotation as if this rotation had succeeded.
fn postpone(host: &dyn Host) -> Result<(), Failure> {
    let mut config = Config::find(host)?;
    config.times.due = config.rotation.due_after(host.clock().now())?;
    config.store(host)
}

/// Removes a key, with the access of the key in use if both are of the same account and endpoints,
/// else with the access of the key itself, at the endpoints of the key.
fn end(
    cloud: &CloudClient<'_>,
    former: &FormerRootKey,
    deadline: StoreTime,
) -> Result<(), Failure> {
    let (host, key) = (cloud.host(), &former.key);
    let (account, id) = (&key.client_email, &key.private_key_id);
    let endpoints = former.place.as_ref().map(|place| place.endpoints.clone()).unwrap_or_default();
    let own = Config { custom_endpoint: endpoints, ..Config::default() };
    let is_at_home = cloud.config.place() == Some(own.place_of(key));
    let removed = match is_at_home {
        true => keys::remove(cloud, &cloud.access()?, account, id)?,
        false => {
            let token = access::by_key(&cloud.provider, key)?.token;
            let access = ProviderAccess::with_token(host, token);
            keys::remove(&CloudClient::new(host, &own, deadline), &access, account, id)?
        }
    };
    removed.map_err(|why| why.about(&format!("remove key {id} of service account {account}")))
}

fn log(host: &dyn Host, level: LogLevel, event: &str, key: &ServiceAccountKey) {
    let pairs = [("account", key.client_email.as_str()), ("key", key.private_key_id.as_str())];
    host.log().write(level, event, &pairs);
}
