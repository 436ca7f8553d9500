//! `config/rotate-root`: replaces the key of the method's own service account by a key that only
//! the method knows.
//!
//! This file prevents a created key without a record. The change is stored first, with the ids of
//! all existing keys. Because a key is shown only once, the recovery after a dead call finds the
//! key that appeared since and removes this key.

use crate::cloud::CloudClient;
use crate::credentials::ServiceAccountKey;
use crate::keys;
use crate::root_keys::{self, MAX_KEYS, PendingRootKey, RootKeys};
use crate::settings::{Config, ROTATION};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{self, Intent, IntentEndReason};
use bulkhead_sdk::provider::ProviderRefusal;
use bulkhead_sdk::rotation::RotationDecision;
use bulkhead_sdk::{Answer, Call, Context, Failure, FailureKind, Host};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Key and lane of the intent.
pub(crate) const KEY: &str = "root";
/// Number of attempts to use a new key within the call that created it, and the pause between
/// attempts in milliseconds.
const ACTIVATION_TRIES: u32 = 5;
const ACTIVATION_PAUSE_MS: u64 = 2_000;
/// Milliseconds by which a list of keys may lag, and by which two clocks may differ.
const MAX_LISTING_LAG_MS: StoreTime = 30_000;
/// Milliseconds after which a call has certainly created its key or failed.
const CREATION_TIMEOUT_MS: StoreTime = 150_000;

/// A key about to be created. Part of a stored record: later fields need a default.
#[derive(Serialize, Deserialize)]
struct KeyCreation {
    account: String,
    /// Id of the key in use.
    follows: String,
    /// Ids of all keys before the creation; `None` if the account may not list them.
    before: Option<Vec<String>>,
    begun: StoreTime,
}

/// Rotates the key and returns the new key's id.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::find(host)?;
    let Some(current) = &config.credentials else {
        return Err(Failure::invalid(
            "configuration does not have credentials - this endpoint only works with \
             user-provided JSON credentials explicitly provided via the config/ endpoint",
        ));
    };
    let is_open = intent::make_due(host, KEY)?;
    let keys = RootKeys::find(host)?;
    if is_open || keys.next.is_some() {
        return Err(Failure::invalid(
            "a root rotation is already in progress, and continues without another request",
        ));
    }
    if let Some(first) = keys.full_until(&current.client_email) {
        let left = first.saturating_sub(host.clock().now()).div_ceil(1_000);
        return Err(Failure::invalid(format!(
            "keys of earlier rotations have not ended, and another key could use up the account's \
             {MAX_KEYS} keys; the first key ends in {left} s, rotate then"
        )));
    }
    let cloud = CloudClient::new(host, &config, call.deadline);
    let id = make(&cloud, current)?;
    use_soon(&cloud)?;
    Answer::data(&json!({ "private_key_id": id }))
}

/// Creates a key, stores the key and returns its id.
fn make(cloud: &CloudClient<'_>, current: &ServiceAccountKey) -> Result<String, Failure> {
    let host = cloud.host();
    let account = &current.client_email;
    let change = KeyCreation {
        account: account.clone(),
        follows: current.private_key_id.clone(),
        before: names(cloud, account)?,
        begun: host.clock().now(),
    };
    let before = change.before.as_ref().map(Vec::len);
    // Access is obtained first, so that the intent covers only the creation of the key.
    cloud.access()?;
    let intent = Intent::begin(host, KEY, KEY, change)?;
    let mut is_certain = false;
    let creation = intent.make(
        |_| {
            keys::make(cloud, account)?.map_err(|why| {
                is_certain = why.is_certain();
                match before.filter(|_| why.is(429)) {
                    Some(keys) if keys >= MAX_KEYS => no_room(why, account, keys),
                    _ => why.about("create new key"),
                }
            })
        },
        |_, _| Ok(()),
    );
    let proven = creation.inspect_err(|_| {
        if is_certain {
            withdraw(host);
        }
    })?;
    let id = proven.confirm(host, |change, key| {
        let mut keys = RootKeys::find(host)?;
        let id = key.private_key_id.clone();
        let place = Some(cloud.config.place_of(&key));
        keys.set_next(host, PendingRootKey { key, follows: change.follows.clone(), place })?;
        keys.store(host)?;
        Ok(id)
    })?;
    // From this commit on the key is known, even if the call fails later.
    host.storage().checkpoint()?;
    Ok(id)
}

/// Returns the refusal for an eleventh key. The provider answers with the status of a rate limit,
/// although waiting does not help.
fn no_room(why: ProviderRefusal, account: &str, keys: usize) -> Failure {
    let message = why.about("create new key").message;
    Failure::invalid(format!(
        "{message}: service account {account} has {keys} keys, and may have {MAX_KEYS}; remove an \
         unused key"
    ))
}

/// Returns the ids of the existing keys; `None` if the account may not list them.
fn names(cloud: &CloudClient<'_>, account: &str) -> Result<Option<Vec<String>>, Failure> {
    match keys::list(cloud, account)? {
        Ok(listed) => Ok(Some(listed.iter().map(|key| key.id().to_owned()).collect())),
        Err(why) if why.is(403) => Ok(None),
        Err(why) => Err(why.about("list the keys of the service account")),
    }
}

/// Uses the new key once the provider knows the key. If this takes longer than a caller waits, the
/// timer continues.
fn use_soon(cloud: &CloudClient<'_>) -> Result<(), Failure> {
    for tried in 0..ACTIVATION_TRIES {
        if tried > 0 {
            cloud.host().clock().pause(ACTIVATION_PAUSE_MS);
        }
        match root_keys::promote(cloud) {
            Ok(_) => return Ok(()),
            Err(why) if why.kind == FailureKind::Internal || why.kind == FailureKind::Conflict => {
                return Err(why);
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Drops the record of a change that certainly did not happen. If this fails, the guard stays and
/// comes to the same result.
fn withdraw(host: &dyn Host) {
    let forgotten = Intent::<KeyCreation>::recover(host, KEY).and_then(|intent| {
        intent.map_or(Ok(()), |intent| intent.abandon(host, IntentEndReason::Unchanged))?;
        host.storage().checkpoint()
    });
    drop(forgotten);
}

/// Completes a call that failed or died: removes a key that appeared since.
///
/// # Errors
/// The failure to list or remove the key; the guard then retries.
pub(crate) fn finish(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let Some(intent) = Intent::<KeyCreation>::recover(host, KEY)? else { return Ok(()) };
    let config = Config::find(host)?;
    let cloud = CloudClient::new(host, &config, context.deadline);
    let is_of = |change: &KeyCreation| {
        let current = config.credentials.as_ref();
        current.is_some_and(|current| current.client_email == change.account)
    };
    let Some(change) = intent.candidates().next().filter(|change| is_of(change)) else {
        log_left(host, "the configuration has no key of the account any more");
        return intent.abandon(host, IntentEndReason::Unwanted);
    };
    if host.clock().now() < change.begun.saturating_add(MAX_LISTING_LAG_MS) {
        let why =
            "a list of keys may not show the newest key yet; Bulkhead lists the keys again soon";
        return Err(Failure::new(FailureKind::Unavailable, why));
    }
    remove_orphan(&cloud, change)?;
    intent.abandon(host, IntentEndReason::Unchanged)
}

/// Removes the key that appeared during the call. If several keys appeared, none is removed,
/// because the method cannot tell its own key (as decision A9).
fn remove_orphan(cloud: &CloudClient<'_>, change: &KeyCreation) -> Result<(), Failure> {
    let host = cloud.host();
    let Some(before) = &change.before else {
        log_left(host, "the account has no permission to list keys");
        return Ok(());
    };
    let listed = keys::list(cloud, &change.account)?
        .map_err(|why| why.about("list the keys of the service account"))?;
    let begun = change.begun.saturating_sub(MAX_LISTING_LAG_MS)
        ..change.begun.saturating_add(CREATION_TIMEOUT_MS + MAX_LISTING_LAG_MS);
    let came: Vec<&str> = listed
        .iter()
        .filter(|key| key.creation_time().is_some_and(|time| begun.contains(&time)))
        .map(keys::ListedKey::id)
        .filter(|id| before.iter().all(|other| other != id))
        .collect();
    match came.as_slice() {
        [] => Ok(()),
        [id] => {
            let removed = keys::remove(cloud, &cloud.access()?, &change.account, id)?;
            removed.map_err(|why| why.about(&format!("remove the unfinished key {id}")))
        }
        several => {
            log_left(host, &several.join(" "));
            Ok(())
        }
    }
}

fn log_left(host: &dyn Host, what: &str) {
    host.log().write(LogLevel::Warn, "root-key-may-remain", &[("keys", what)]);
}

/// Runs the scheduled rotation.
///
/// # Errors
/// The failure of the rotation; the timer then fires again.
pub(crate) fn wake(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let mut config = Config::find(host)?;
    let keys = RootKeys::find(host)?;
    if intent::is_open(host, KEY)? || keys.next.is_some() {
        return intent::step_aside(host, ROTATION);
    }
    let Some(current) = config.credentials.clone() else { return Ok(()) };
    let now = host.clock().now();
    match config.rotation.decide(&config.times, now)? {
        RotationDecision::Off => Ok(()),
        RotationDecision::Wait(_) => config.store(host),
        RotationDecision::Missed(next) => {
            host.log().write(LogLevel::Warn, "root-rotation-missed", &[]);
            config.times.due = next;
            config.store(host)
        }
        RotationDecision::Rotate => {
            if let Some(first) = keys.full_until(&current.client_email) {
                // This prevents a short rotation period from using up the account's keys.
                host.log().write(LogLevel::Warn, "root-rotation-delayed", &[]);
                return host.clock().schedule(
                    ROTATION,
                    first.max(now + ACTIVATION_PAUSE_MS),
                    ROTATION,
                );
            }
            let cloud = CloudClient::new(host, &config, context.deadline);
            make(&cloud, &current)
                .inspect_err(|_| host.log().write(LogLevel::Warn, "root-rotation-failed", &[]))?;
            use_soon(&cloud)
        }
    }
}

#[cfg(test)]
mod tests;
