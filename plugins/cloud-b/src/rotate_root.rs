//! `config/rotate-root`: another key of the method's own service account, which only the method
//! knows.
//!
//! The fault this file rules out: a key that was made and that no record knows. What is about to
//! happen is written down first, with the names of the keys that there are; a call that died is
//! finished by looking which one came since, and ending it, because a key is shown only once.

use crate::cloud::Cloud;
use crate::credentials::Credentials;
use crate::keys;
use crate::root_keys::{self, MOST_KEYS, Next, RootKeys};
use crate::settings::{Config, ROTATION};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Level;
use bulkhead_sdk::intent::{self, Ended, Intent};
use bulkhead_sdk::provider::Refusal;
use bulkhead_sdk::rotation::Decision;
use bulkhead_sdk::{Answer, Call, Context, Failure, Host, Kind};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The key of the intent, and its lane.
pub(crate) const KEY: &str = "root";
/// Tries of a new key within the call that made it, and milliseconds between them.
const TRIES: u32 = 5;
const PAUSE: u64 = 2_000;
/// Milliseconds that a list of keys may lag behind, and by which two clocks may differ.
const LAG: StoreTime = 30_000;
/// Milliseconds in which a call has made its key, or has not.
const CALL: StoreTime = 150_000;

/// A key that is about to be made. It is part of a stored record: fields that come later have a
/// default.
#[derive(Serialize, Deserialize)]
struct Change {
    account: String,
    /// The name of the key that is used.
    follows: String,
    /// The names of all keys that there were; `None` where they cannot be listed.
    before: Option<Vec<String>>,
    begun: StoreTime,
}

/// Rotates, and shows the name of the new key.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::find(host)?;
    let Some(current) = &config.credentials else {
        return Err(Failure::invalid(
            "configuration does not have credentials - this endpoint only works with \
             user-provided JSON credentials explicitly provided via the config/ endpoint",
        ));
    };
    let is_open = intent::hasten(host, KEY)?;
    let keys = RootKeys::find(host)?;
    if is_open || keys.next.is_some() {
        return Err(Failure::invalid(
            "a root rotation is already in progress; it goes on by itself",
        ));
    }
    if let Some(first) = keys.full_until(&current.client_email) {
        let left = first.saturating_sub(host.clock().now()).div_ceil(1_000);
        return Err(Failure::invalid(format!(
            "the keys of earlier rotations wait for their end, and another one could use up the \
             {MOST_KEYS} that an account may have; the first of them ends in {left} s, rotate then"
        )));
    }
    let cloud = Cloud::new(host, &config, call.deadline);
    let id = make(&cloud, current)?;
    use_soon(&cloud)?;
    Answer::data(&json!({ "private_key_id": id }))
}

/// Makes a key and writes it down; gives its name.
fn make(cloud: &Cloud<'_>, current: &Credentials) -> Result<String, Failure> {
    let host = cloud.host();
    let account = &current.client_email;
    let change = Change {
        account: account.clone(),
        follows: current.private_key_id.clone(),
        before: names(cloud, account)?,
        begun: host.clock().now(),
    };
    let before = change.before.as_ref().map(Vec::len);
    // Asked for before, so that nothing but the one effect stands behind the intent.
    cloud.access()?;
    let intent = Intent::begin(host, KEY, KEY, change)?;
    let mut is_certain = false;
    let made = intent.make(
        |_| {
            keys::make(cloud, account)?.map_err(|why| {
                is_certain = why.is_certain();
                match before.filter(|_| why.is(429)) {
                    Some(keys) if keys >= MOST_KEYS => no_room(why, account, keys),
                    _ => why.about("create new key"),
                }
            })
        },
        |_, _| Ok(()),
    );
    let proven = made.inspect_err(|_| {
        if is_certain {
            withdraw(host);
        }
    })?;
    let id = proven.confirm(host, |change, key| {
        let mut keys = RootKeys::find(host)?;
        let id = key.private_key_id.clone();
        keys.set_next(host, Next { key, follows: change.follows.clone() })?;
        keys.store(host)?;
        Ok(id)
    })?;
    // The key is known from here on, however the call ends.
    host.storage().checkpoint()?;
    Ok(id)
}

/// The refusal of an eleventh key. The provider answers as it answers too many requests, although
/// the former does not pass by itself.
fn no_room(why: Refusal, account: &str, keys: usize) -> Failure {
    let message = why.about("create new key").message;
    Failure::invalid(format!(
        "{message}: service account {account} has {keys} keys, and may have {MOST_KEYS}; remove \
         one that nothing uses"
    ))
}

/// The names of the keys that there are; `None` where the account may not list them.
fn names(cloud: &Cloud<'_>, account: &str) -> Result<Option<Vec<String>>, Failure> {
    match keys::list(cloud, account)? {
        Ok(listed) => Ok(Some(listed.iter().map(|key| key.id().to_owned()).collect())),
        Err(why) if why.is(403) => Ok(None),
        Err(why) => Err(why.about("list the keys of the service account")),
    }
}

/// Uses the new key as soon as the provider knows it; where that takes longer than a caller waits,
/// the timer goes on.
fn use_soon(cloud: &Cloud<'_>) -> Result<(), Failure> {
    for tried in 0..TRIES {
        if tried > 0 {
            cloud.host().clock().pause(PAUSE);
        }
        match root_keys::promote(cloud) {
            Ok(_) => return Ok(()),
            Err(why) if why.kind == Kind::Internal || why.kind == Kind::Conflict => {
                return Err(why);
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Forgets a change that certainly did not happen. Where that fails the guard stays, and finds out
/// the same.
fn withdraw(host: &dyn Host) {
    let forgotten = Intent::<Change>::recover(host, KEY).and_then(|intent| {
        intent.map_or(Ok(()), |intent| intent.give_up(host, Ended::Unchanged))?;
        host.storage().checkpoint()
    });
    drop(forgotten);
}

/// What a call that failed or died left behind: a key that came meanwhile ends.
///
/// # Errors
/// What keeps it from being found out; it is tried again.
pub(crate) fn finish(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let Some(intent) = Intent::<Change>::recover(host, KEY)? else { return Ok(()) };
    let config = Config::find(host)?;
    let cloud = Cloud::new(host, &config, context.deadline);
    let is_of = |change: &Change| {
        let current = config.credentials.as_ref();
        current.is_some_and(|current| current.client_email == change.account)
    };
    let Some(change) = intent.candidates().next().filter(|change| is_of(change)) else {
        log_left(host, "the configuration has no key of its account any more");
        return intent.give_up(host, Ended::Unwanted);
    };
    if host.clock().now() < change.begun.saturating_add(LAG) {
        let why = "a list of keys may not show the newest yet; it is looked at soon";
        return Err(Failure::new(Kind::Unavailable, why));
    }
    remove_orphan(&cloud, change)?;
    intent.give_up(host, Ended::Unchanged)
}

/// Ends the one key that came while the call ran. Where there are several it cannot be told which
/// is ours, and none is touched (as decision A9).
fn remove_orphan(cloud: &Cloud<'_>, change: &Change) -> Result<(), Failure> {
    let host = cloud.host();
    let Some(before) = &change.before else {
        log_left(host, "the account may not list its keys");
        return Ok(());
    };
    let listed = keys::list(cloud, &change.account)?
        .map_err(|why| why.about("list the keys of the service account"))?;
    let begun = change.begun.saturating_sub(LAG)..change.begun.saturating_add(CALL + LAG);
    let came: Vec<&str> = listed
        .iter()
        .filter(|key| key.made().is_some_and(|made| begun.contains(&made)))
        .map(keys::Listed::id)
        .filter(|id| before.iter().all(|known| known != id))
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
    host.log().write(Level::Warn, "root-key-may-be-left", &[("keys", what)]);
}

/// The timer rang: a rotation may be due.
///
/// # Errors
/// What keeps it from happening; the timer rings again.
pub(crate) fn wake(host: &dyn Host, context: &Context) -> Result<(), Failure> {
    let mut config = Config::find(host)?;
    // What is under way sets the timer anew when it ends.
    let keys = RootKeys::find(host)?;
    if intent::is_open(host, KEY)? || keys.next.is_some() {
        return Ok(());
    }
    let Some(current) = config.credentials.clone() else { return Ok(()) };
    let now = host.clock().now();
    match config.rotation.decide(&config.times, now)? {
        Decision::Off => Ok(()),
        Decision::Wait(_) => config.store(host),
        Decision::Missed(next) => {
            host.log().write(Level::Warn, "root-rotation-missed", &[]);
            config.times.due = next;
            config.store(host)
        }
        Decision::Rotate => {
            if let Some(first) = keys.full_until(&current.client_email) {
                // No period, however short, fills the account.
                host.log().write(Level::Warn, "root-rotation-waits", &[]);
                return host.clock().schedule(ROTATION, first.max(now + PAUSE), ROTATION);
            }
            let cloud = Cloud::new(host, &config, context.deadline);
            make(&cloud, &current)
                .inspect_err(|_| host.log().write(Level::Warn, "root-rotation-failed", &[]))?;
            use_soon(&cloud)
        }
    }
}

#[cfg(test)]
mod tests;
