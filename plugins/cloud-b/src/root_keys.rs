//! Keys of the method's own account that are on their way in or out, beside the one that is used.
//!
//! A new key is used once the provider knows it, which takes a while; the one before it ends some
//! time later; and one that was made and is not wanted any more ends, too.

use crate::access;
use crate::cloud::Cloud;
use crate::credentials::Credentials;
use crate::keys;
use crate::settings::Config;
use bulkhead_sdk::access_token::Access;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Level;
use bulkhead_sdk::{Context, Failure, Host, Kind, stored};
use serde::{Deserialize, Serialize};

const KEY: &str = "root-keys";
/// The timer by which they go on.
pub(crate) const TIMER: &str = "root-keys";
/// Milliseconds until a new key is tried again, and until one that is not used any more ends.
const SOON: StoreTime = 5_000;
const LATER: StoreTime = 60_000;
/// Attempts to use a key, or to end one, that the provider refuses.
const ATTEMPTS: u32 = 10;

/// No `Debug`: it holds keys.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RootKeys {
    /// The key that is to be used, and the name of the one that it follows.
    pub(crate) next: Option<Next>,
    /// Those that are to end.
    pub(crate) former: Vec<Credentials>,
}

/// A key that was made and is not used yet.
#[derive(Serialize, Deserialize)]
pub(crate) struct Next {
    pub(crate) key: Credentials,
    pub(crate) follows: String,
}

stored!(RootKeys, "root-keys", reads_stored_root_keys);

impl RootKeys {
    pub(crate) fn find(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Stores them, with the timer by which they go on.
    pub(crate) fn store(&self, host: &dyn Host) -> Result<(), Failure> {
        let pause = match (&self.next, self.former.is_empty()) {
            (None, true) => {
                host.clock().cancel(TIMER)?;
                return host.storage().delete(KEY);
            }
            (Some(_), _) => SOON,
            (None, false) => LATER,
        };
        host.clock().schedule(TIMER, host.clock().now().saturating_add(pause), TIMER)?;
        host.storage().put(KEY, self)
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
        keys.former.push(next.key);
        keys.store(host)?;
        return Ok(false);
    };
    access::by_key(&cloud.provider, &next.key)?;
    log(host, Level::Info, "root-rotated", &next.key);
    keys.former.push(before);
    config.credentials = Some(next.key);
    config.times = config.rotation.rotated_at(host.clock().now())?;
    config.store(host)?;
    keys.store(host)?;
    Ok(true)
}

/// The timer rang: goes on with what there is.
///
/// # Errors
/// What keeps it from going on; the timer rings again.
pub(crate) fn wake(host: &dyn Host, context: &Context, attempt: u32) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let cloud = &Cloud::new(host, &config, context.deadline);
    let mut keys = RootKeys::find(host)?;
    if let Some(next) = &keys.next {
        return match promote(cloud) {
            Err(why) if is_final(&why, attempt) => {
                log(host, Level::Error, "root-key-refused", &next.key);
                keys.former.extend(keys.next.take().map(|next| next.key));
                postpone(host)?;
                keys.store(host)
            }
            promoted => promoted.map(drop),
        };
    }
    let mut refused = None;
    let mut kept = Vec::new();
    for key in keys.former.drain(..) {
        match end(cloud, &key) {
            Ok(()) => log(host, Level::Info, "root-key-removed", &key),
            Err(why) if is_final(&why, attempt) => {
                log(host, Level::Error, "root-key-left", &key);
            }
            Err(why) => {
                refused = Some(why);
                kept.push(key);
            }
        }
    }
    keys.former = kept;
    match refused {
        None => keys.store(host),
        Some(why) => Err(why),
    }
}

/// Whether the provider has said no for long.
fn is_final(why: &Failure, attempt: u32) -> bool {
    attempt >= ATTEMPTS && why.kind == Kind::InvalidRequest
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
            keys.former.push(next.key);
            keys.store(host)
        }
        None => Ok(()),
    }
}

fn log(host: &dyn Host, level: Level, event: &str, key: &Credentials) {
    let pairs = [("account", key.client_email.as_str()), ("key", key.private_key_id.as_str())];
    host.log().write(level, event, &pairs);
}
