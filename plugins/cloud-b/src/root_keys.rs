//! Keys of the method's own account that are on their way in or out, beside the one that is used.
//!
//! A new key is used once the provider knows it, which takes a while; the one before it ends a
//! minute later; and one that was made and is not wanted any more ends, too.
//!
//! The fault this file rules out: an account whose keys are used up, because each rotation
//! postpones the end of earlier keys, or goes on while earlier keys cannot be ended.

use crate::access;
use crate::cloud::Cloud;
use crate::credentials::Credentials;
use crate::keys;
use crate::settings::Config;
use bulkhead_sdk::access_token::Access;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Level;
use bulkhead_sdk::rotation::Bounds;
use bulkhead_sdk::{Context, Failure, Host, Kind, stored};
use serde::{Deserialize, Serialize};

const KEY: &str = "root-keys";
/// The timer by which the next key is tried.
pub(crate) const NEXT: &str = "root-keys";
/// The timer by which keys that are not used any more end.
pub(crate) const FORMER: &str = "former-keys";
/// Milliseconds until a new key is tried again.
const SOON: StoreTime = 5_000;
/// Milliseconds for which a former key lives on, because the provider's servers learn of its
/// successor one by one. Also the pause before a removal is tried again.
const GRACE: StoreTime = 60_000;
/// Maximum number of keys of an account at the provider.
pub(crate) const MOST_KEYS: usize = 10;
/// Maximum number of former keys that wait for their end: the key in use and a new one fill the
/// account.
const MOST_FORMER: usize = MOST_KEYS - 2;
/// Attempts to use a key, or to end one, that the provider refuses.
const ATTEMPTS: u32 = 10;

// At the shortest period, each key ends before those behind it fill the account.
const _: () = assert!(GRACE < Bounds::CONFIG.min_period * 1_000 * MOST_FORMER as u64);

/// No `Debug`: it holds keys.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RootKeys {
    /// The key that is to be used, and the name of the one that it follows.
    pub(crate) next: Option<Next>,
    /// Those that are to end, each at its own time.
    former: Vec<Former>,
}

/// A key that was made and is not used yet.
#[derive(Serialize, Deserialize)]
pub(crate) struct Next {
    pub(crate) key: Credentials,
    pub(crate) follows: String,
}

/// A key that is not used any more.
#[derive(Serialize, Deserialize)]
struct Former {
    #[serde(flatten)]
    key: Credentials,
    /// Store time of its end, which no rotation postpones. 0: an earlier release stored the key.
    #[serde(default)]
    ends: StoreTime,
    /// Number of removals that the provider refused.
    #[serde(default)]
    refusals: u32,
}

stored!(RootKeys, "root-keys", reads_stored_root_keys);

impl RootKeys {
    pub(crate) fn find(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Sets the key that is tried next, soon.
    pub(crate) fn set_next(&mut self, host: &dyn Host, next: Next) -> Result<(), Failure> {
        self.next = Some(next);
        host.clock().schedule(NEXT, host.clock().now().saturating_add(SOON), NEXT)
    }

    /// Adds a former key, whose grace begins now.
    fn retire(&mut self, host: &dyn Host, key: Credentials) {
        let ends = host.clock().now().saturating_add(GRACE);
        self.former.push(Former { key, ends, refusals: 0 });
    }

    /// Returns the store time at which the first former key of `account` ends if another rotation
    /// could fill the account; `None` if there is room.
    pub(crate) fn full_until(&self, account: &str) -> Option<StoreTime> {
        let own = || self.former.iter().filter(|former| former.key.client_email == account);
        own().map(|former| former.ends).min().filter(|_| own().count() >= MOST_FORMER)
    }

    /// Stores the keys. The timer of former keys rings when the first of them ends.
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

/// Uses the next key, if there is one and the provider knows it by now; tells whether that is so.
///
/// # Errors
/// What keeps it from being tried.
pub(crate) fn promote(cloud: &Cloud<'_>) -> Result<bool, Failure> {
    let host = cloud.host();
    let mut keys = RootKeys::find(host)?;
    let Some(next) = keys.next.take() else { return Ok(false) };
    // Read again: the commit that uses the key must see what was written meanwhile.
    let mut config = Config::find(host)?;
    let current = config.credentials.take();
    let follows = current.filter(|current| current.private_key_id == next.follows);
    let Some(before) = follows else {
        // The configuration was written meanwhile, and the key that it has now is the operator's.
        log(host, Level::Warn, "root-key-unwanted", &next.key);
        keys.retire(host, next.key);
        keys.store(host)?;
        return Ok(false);
    };
    access::by_key(&cloud.provider, &next.key)?;
    log(host, Level::Info, "root-rotated", &next.key);
    keys.retire(host, before);
    config.credentials = Some(next.key);
    config.times = config.rotation.rotated_at(host.clock().now())?;
    config.store(host)?;
    keys.store(host)?;
    Ok(true)
}

/// Tries the next key, because its timer rang.
///
/// # Errors
/// Why the key cannot be used; the timer rings again.
pub(crate) fn wake_next(host: &dyn Host, context: &Context, attempt: u32) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let cloud = &Cloud::new(host, &config, context.deadline);
    let mut keys = RootKeys::find(host)?;
    let Some(next) = &keys.next else {
        // An earlier release had this timer for former keys, too.
        return keys.store(host);
    };
    match promote(cloud) {
        Err(why) if attempt >= ATTEMPTS && why.kind == Kind::InvalidRequest => {
            log(host, Level::Error, "root-key-refused", &next.key);
            if let Some(next) = keys.next.take() {
                keys.retire(host, next.key);
            }
            postpone(host)?;
            keys.store(host)
        }
        promoted => promoted.map(drop),
    }
}

/// Ends the former keys whose time has come, because the timer rang. A key that cannot be ended
/// gets another time and delays no other key.
///
/// # Errors
/// A failure of the store; the timer rings again.
pub(crate) fn wake_former(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let cloud = &Cloud::new(host, &config, context.deadline);
    let mut keys = RootKeys::find(host)?;
    let now = host.clock().now();
    let mut kept = Vec::new();
    for former in keys.former.drain(..) {
        match former.ends <= now {
            true => kept.extend(end_or_keep(cloud, former)?),
            false => kept.push(former),
        }
    }
    keys.former = kept;
    keys.store(host)
}

/// Ends a key, or returns the key if its removal is to be tried again.
fn end_or_keep(cloud: &Cloud<'_>, mut former: Former) -> Result<Option<Former>, Failure> {
    let host = cloud.host();
    let Err(why) = end(cloud, &former.key) else {
        log(host, Level::Info, "root-key-removed", &former.key);
        return Ok(None);
    };
    match why.kind {
        Kind::Conflict | Kind::Internal => return Err(why),
        // A definite refusal is counted. A provider that is down is asked again without end.
        Kind::InvalidRequest => former.refusals = former.refusals.saturating_add(1),
        _ => {}
    }
    if former.refusals >= ATTEMPTS {
        log(host, Level::Error, "root-key-left", &former.key);
        return Ok(None);
    }
    log(host, Level::Warn, "root-key-not-removed", &former.key);
    former.ends = host.clock().now().saturating_add(GRACE);
    Ok(Some(former))
}

/// Lets the next rotation be due as if this one had been.
fn postpone(host: &dyn Host) -> Result<(), Failure> {
    let mut config = Config::find(host)?;
    config.times.due = config.rotation.due_after(host.clock().now())?;
    config.store(host)
}

/// Ends a key, by the one that is used where that is of the same account, and else by itself.
fn end(cloud: &Cloud<'_>, key: &Credentials) -> Result<(), Failure> {
    let account = &key.client_email;
    let current = cloud.config.credentials.as_ref();
    let access = match current.is_some_and(|current| current.client_email == *account) {
        true => cloud.access()?,
        false => Access::by(cloud.host(), access::by_key(&cloud.provider, key)?.token),
    };
    let (account, id) = (&key.client_email, &key.private_key_id);
    let removed = keys::remove(cloud, &access, account, id)?;
    removed.map_err(|why| why.about(&format!("remove key {id} of service account {account}")))
}

/// Lets what was being put in use end, because the configuration has another key now.
///
/// # Errors
/// What storage refused.
pub(crate) fn forget_next(host: &dyn Host, config: &Config) -> Result<(), Failure> {
    let mut keys = RootKeys::find(host)?;
    let current = config.credentials.as_ref().map(|key| key.private_key_id.as_str());
    match keys.next.take_if(|next| current != Some(next.follows.as_str())) {
        Some(next) => {
            keys.retire(host, next.key);
            keys.store(host)
        }
        None => Ok(()),
    }
}

fn log(host: &dyn Host, level: Level, event: &str, key: &Credentials) {
    let pairs = [("account", key.client_email.as_str()), ("key", key.private_key_id.as_str())];
    host.log().write(level, event, &pairs);
}
