//! Records of tokens: the token itself, the index entry for its secret, and the timer for its
//! removal.
//!
//! This file prevents partly deleted tokens: each write and removal of a token changes all its
//! records in one commit.

use crate::caller::{forget_secret, index_secret};
use crate::index::{RecordTable, latest};
use crate::names::is_uuid;
use crate::token::Token;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::wire::call_limits::{COMMIT_RECORDS, CallLimits};
use bulkhead_sdk::{Failure, Host};

/// Key prefix of the timers.
const EXPIRY: &str = "expire/";
/// Minimum time, in milliseconds, from creation to removal of an expired token.
const MIN_RECORD_AGE_MS: u64 = 3_600_000;

/// Maximum number of expired tokens that one request removes: a token takes up to eight host calls.
const MAX_COLLECTED: usize = 10_000;
/// Number of tokens that are removed in one commit: a token has up to four keys.
const COLLECTED_BATCH: usize = 400;

const _: () = assert!(8 * MAX_COLLECTED < CallLimits::DEFAULT.host_calls as usize);
const _: () = assert!(4 * COLLECTED_BATCH < COMMIT_RECORDS);

/// Returns the token `accessor`; `None` if there is none or `accessor` is not a UUID.
pub(crate) fn entry_of(
    storage: &dyn Storage,
    accessor: &str,
) -> Result<Option<Entry<Token>>, Failure> {
    if is_uuid(accessor) { storage.entry(&Token::key(accessor)) } else { Ok(None) }
}

/// Stores and commits the token. Returns the index of the commit.
///
/// # Errors
/// Failures of the store.
pub(crate) fn put(host: &dyn Host, accessor: &str, token: &Token) -> Result<u64, Failure> {
    place(host, accessor, token)?;
    host.storage().checkpoint()
}

/// Stores the token, its index entry and its timer, without a commit.
///
/// # Errors
/// Failures of the store.
pub(crate) fn place(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().put(&Token::key(accessor), token)?;
    index_secret(host, &token.secret, accessor)?;
    schedule(host, accessor, token)?;
    RecordTable::Tokens.touch(host.storage())
}

/// Schedules the removal of an expiring token. A short-lived token is kept until an hour after its
/// creation, so that clients that poll the accessor learn that the token has expired.
fn schedule(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    let Some(expires) = token.expires else { return Ok(()) };
    let removed = expires.max(token.created.saturating_add(MIN_RECORD_AGE_MS)).saturating_add(1);
    host.clock().schedule(&expiry_timer(accessor), removed, "expiry")
}

/// Returns the timer key for the removal of a token.
#[must_use]
pub(crate) fn expiry_timer(accessor: &str) -> String {
    format!("{EXPIRY}{accessor}")
}

/// Removes the token, its index entry and its timer, without a commit.
///
/// # Errors
/// Failures of the store.
pub(crate) fn remove(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().delete(&Token::key(accessor))?;
    forget_secret(host, &token.secret)?;
    host.clock().cancel(&expiry_timer(accessor))?;
    RecordTable::Tokens.touch(host.storage())
}

/// Removes the token of a timer if the token has expired.
///
/// # Errors
/// Failures of the store. Internal for an unknown timer key.
pub(crate) fn expire(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let accessor = key.strip_prefix(EXPIRY).ok_or_else(|| {
        Failure::internal(format!("the scheduler was woken for {key:?}, but set no such timer"))
    })?;
    let Some(entry) = entry_of(host.storage(), accessor)? else { return Ok(()) };
    if entry.value.is_expired(host.clock().now()) {
        return remove(host, accessor, &entry.value);
    }
    // The timer fired before the token expired.
    schedule(host, accessor, &entry.value)
}

/// Removes the expired tokens, in as many commits as needed. Returns the index of the last commit.
/// Tokens beyond [`MAX_COLLECTED`] stay until the next request, or until their timers.
///
/// # Errors
/// Failures of the store.
pub(crate) fn remove_expired(host: &dyn Host) -> Result<u64, Failure> {
    let (storage, now) = (host.storage(), host.clock().now());
    let mut expired = Vec::new();
    storage.scan::<Token>("token/", |accessor, entry| {
        if entry.value.is_expired(now) {
            expired.push(accessor.to_owned());
        }
        Ok(())
    })?;
    expired.truncate(MAX_COLLECTED);
    let mut index = latest(storage)?;
    // The commits read each token again, so that the number of tokens is not that of a commit.
    storage.checkpoint()?;
    for batch in expired.chunks(COLLECTED_BATCH) {
        for accessor in batch {
            let entry = entry_of(storage, accessor)?;
            if let Some(entry) = entry.filter(|entry| entry.value.is_expired(now)) {
                remove(host, accessor, &entry.value)?;
            }
        }
        index = storage.checkpoint()?.max(index);
    }
    Ok(index)
}

#[cfg(test)]
mod tests;
