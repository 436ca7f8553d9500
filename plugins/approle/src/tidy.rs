//! Removal of secret ids: at their end, with their role, and by `tidy/secret-id`.
//!
//! This file prevents a removal of valid secret ids by a race: a record is removed only by the unit
//! of work that read its end, and the commit checks the record again.

use crate::secret_id::{END, LANE, SecretId, SecretIdKey, accessor_key};
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Maximum number of records that one call removes or looks at.
const PAGE: u32 = 200;

/// Prefixes of the keys of further timers, followed by the role, and by the last examined key.
const REMOVAL: &str = "removal/";
const EXPIRED: &str = "tidy-expired/";
const DANGLING: &str = "tidy-dangling/";

/// Removes all secret ids of a role that is gone, in the background.
pub(crate) fn remove_all(host: &dyn Host, role: &str) -> Result<(), Failure> {
    schedule_now(host, &format!("{REMOVAL}{role}"))
}

/// `tidy/secret-id`: looks at all secret ids in the background.
pub(crate) fn start(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    schedule_now(host, EXPIRED)?;
    schedule_now(host, DANGLING)?;
    let started = "the removal of expired secret ids has begun and goes on in the background";
    Ok(Answer::nothing().warn([started.to_owned()]))
}

/// Runs a timer of this file.
pub(crate) fn wake(host: &dyn Host, key: &str) -> Result<(), Failure> {
    if let Some(of) = key.strip_prefix(END) {
        remove_expired(host, of)
    } else if let Some(role) = key.strip_prefix(REMOVAL) {
        remove_page(host, role)
    } else if let Some(after) = key.strip_prefix(EXPIRED) {
        look_at_secret_ids(host, after)
    } else if let Some(after) = key.strip_prefix(DANGLING) {
        look_at_accessors(host, after)
    } else {
        Err(Failure::internal(format!("approle was woken for {key:?}, but schedules no such key")))
    }
}

fn schedule_now(host: &dyn Host, key: &str) -> Result<(), Failure> {
    host.clock().schedule(key, host.clock().now(), LANE)
}

/// Removes an expired secret id (`role/hash`).
fn remove_expired(host: &dyn Host, of: &str) -> Result<(), Failure> {
    let Some((role, hash)) = of.split_once('/') else { return Ok(()) };
    let place = SecretIdKey { role, hash: hash.to_owned() };
    let found: Option<SecretId> = host.storage().get(&place.key())?;
    match found.filter(|found| found.has_expired(host.clock().now())) {
        Some(expired) => place.remove(host, &expired),
        None => Ok(()),
    }
}

/// Removes a page of the records of a role, and schedules the next page.
fn remove_page(host: &dyn Host, role: &str) -> Result<(), Failure> {
    let mut removed = 0;
    for prefix in [format!("secret/{role}/"), format!("accessor/{role}/")] {
        for name in host.storage().keys(&prefix, "", PAGE)? {
            host.storage().delete(&format!("{prefix}{name}"))?;
            removed += 1;
            if prefix.starts_with("secret/") {
                host.clock().cancel(&SecretIdKey { role, hash: name }.timer())?;
            }
        }
    }
    match removed {
        0 => Ok(()),
        _ => schedule_now(host, &format!("{REMOVAL}{role}")),
    }
}

/// Removes the expired secret ids of a page, and schedules the next page.
fn look_at_secret_ids(host: &dyn Host, after: &str) -> Result<(), Failure> {
    let page = host.storage().keys("secret/", after, PAGE)?;
    page.iter().try_for_each(|of| remove_expired(host, of))?;
    schedule_next(host, EXPIRED, &page)
}

/// Removes the accessors without a secret id in a page, and schedules the next page.
fn look_at_accessors(host: &dyn Host, after: &str) -> Result<(), Failure> {
    let page = host.storage().keys("accessor/", after, PAGE)?;
    for of in &page {
        let Some((role, accessor)) = of.split_once('/') else { continue };
        let key = accessor_key(role, accessor);
        let Some(hash) = host.storage().get_plain::<String>(&key)? else { continue };
        let place = SecretIdKey { role, hash };
        if host.storage().get_bytes(&place.key())?.is_none() {
            host.storage().delete(&key)?;
        }
    }
    schedule_next(host, DANGLING, &page)
}

fn schedule_next(host: &dyn Host, prefix: &str, page: &[String]) -> Result<(), Failure> {
    match page.last() {
        Some(last) => schedule_now(host, &format!("{prefix}{last}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
