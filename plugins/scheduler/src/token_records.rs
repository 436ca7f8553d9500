//! Records of tokens: what finds a token by its secret, and what removes a token at its end.
//!
//! Prevents a token of which one part is left: each write and removal of a token changes all its
//! records in one commit.

use crate::caller::{forget_secret, index_secret};
use crate::index::{Table, latest};
use crate::names::is_uuid;
use crate::token::Token;
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::{Failure, Host};

/// What a timer's key begins with.
const EXPIRY: &str = "expire/";
/// Milliseconds after its creation for which an expired token is kept.
const YOUNG: u64 = 3_600_000;

/// The token `accessor`; `None` also for what is no identifier.
pub(crate) fn entry_of(
    storage: &dyn Storage,
    accessor: &str,
) -> Result<Option<Entry<Token>>, Failure> {
    if is_uuid(accessor) { storage.entry(&Token::key(accessor)) } else { Ok(None) }
}

/// Stores `token` and commits it.
///
/// # Errors
/// Those of the store.
pub(crate) fn put(host: &dyn Host, accessor: &str, token: &Token) -> Result<u64, Failure> {
    place(host, accessor, token)?;
    host.storage().checkpoint()
}

/// Stores `token` with what finds it by its secret and at its end, without a commit.
///
/// # Errors
/// Those of the store.
pub(crate) fn place(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().put(&Token::key(accessor), token)?;
    index_secret(host, &token.secret, accessor)?;
    schedule(host, accessor, token)?;
    Table::Tokens.touch(host.storage())
}

/// Schedules the removal of a token that has an end. A token that ends young is removed when it is
/// an hour old: clients that poll its accessor learn that it is over.
fn schedule(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    let Some(expires) = token.expires else { return Ok(()) };
    let removed = expires.max(token.created.saturating_add(YOUNG)).saturating_add(1);
    host.clock().schedule(&expiry_timer(accessor), removed, "expiry")
}

/// The timer that removes an expired token.
#[must_use]
pub(crate) fn expiry_timer(accessor: &str) -> String {
    format!("{EXPIRY}{accessor}")
}

/// Removes the token with all that finds it.
///
/// # Errors
/// Those of the store.
pub(crate) fn remove(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().delete(&Token::key(accessor))?;
    forget_secret(host, &token.secret)?;
    host.clock().cancel(&expiry_timer(accessor))?;
    Table::Tokens.touch(host.storage())
}

/// Removes the token of a timer, if it is over.
///
/// # Errors
/// Those of the store; internal for a key of no timer.
pub(crate) fn expire(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let accessor = key.strip_prefix(EXPIRY).ok_or_else(|| {
        Failure::internal(format!("the scheduler was woken for {key:?}, which it did not schedule"))
    })?;
    let Some(entry) = entry_of(host.storage(), accessor)? else { return Ok(()) };
    if entry.value.is_expired(host.clock().now()) {
        return remove(host, accessor, &entry.value);
    }
    // The timer rang before the token's end.
    schedule(host, accessor, &entry.value)
}

/// Removes every token that is over, and tells the index of the commit.
///
/// # Errors
/// Those of the store.
pub(crate) fn remove_expired(host: &dyn Host) -> Result<u64, Failure> {
    let (storage, now) = (host.storage(), host.clock().now());
    let mut expired = Vec::new();
    storage.scan::<Token>("token/", |accessor, entry| {
        if entry.value.is_expired(now) {
            expired.push((accessor.to_owned(), entry.value));
        }
        Ok(())
    })?;
    if expired.is_empty() {
        return latest(storage);
    }
    for (accessor, token) in &expired {
        remove(host, accessor, token)?;
    }
    storage.checkpoint()
}

#[cfg(test)]
mod tests;
