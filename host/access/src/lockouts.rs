//! Lockouts: names at auth methods that are locked after too many failed logins.
//!
//! This file prevents password guessing from many addresses, which the rate limit of a single
//! address does not slow; prevents guesses that were already under way when the name was locked;
//! and hides whether a guess was right while the name is locked. A name is counted even if it does
//! not exist, because the component declares the alias of a login beforehand. The guesses
//! themselves are unknown here.
//!
//! Counters are not stored: a restart forgets all counters. `lockouts/table.rs` bounds the number
//! of names and chooses the name that is evicted. On a database of several nodes, locks are stored
//! (`lockouts/shared_locks.rs`).

mod policy;
mod shared_locks;
mod table;

pub use policy::LockoutPolicy;

use bulkhead_store::Store;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use shared_locks::SharedLocks;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use table::{CounterBounds, CounterKey, FailureCounter, FailureCounters};

/// Maximum length of a counted name, in bytes. No alias is longer.
const NAME_BYTES: usize = 512;

/// Recent failures, by mount and name.
pub struct Lockouts {
    /// Two randomly keyed hashers. An attacker cannot choose two names with the same key.
    hashers: [RandomState; 2],
    table: Mutex<FailureCounters>,
    /// `None` if no other node works on the store.
    shared: Option<SharedLocks>,
}

/// The name of a login, and the client that sends the login.
#[derive(Clone, Copy)]
pub struct LoginName<'a> {
    /// UUID of the mount.
    pub mount: &'a str,
    /// Name of the login at the mount.
    pub name: &'a str,
    /// The client that sends the login.
    pub client: Client,
}

/// The effect of a failure on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureEffect {
    /// The failure was counted, or there is nothing to count.
    Noted,
    /// The failure locked the name.
    NowLocked,
    /// The name was locked already.
    WasLocked,
    /// The failure was not counted, because there is no room for another name.
    NoRoom,
}

impl Default for Lockouts {
    fn default() -> Self {
        Self::with_bounds(CounterBounds::default())
    }
}

impl Lockouts {
    fn with_bounds(bounds: CounterBounds) -> Self {
        Self {
            hashers: <[RandomState; 2]>::default(),
            table: Mutex::new(FailureCounters::new(bounds)),
            shared: None,
        }
    }

    /// Returns the lockouts of a node on `store`.
    pub fn of(store: &Store) -> Self {
        Self { shared: store.is_shared().then(SharedLocks::default), ..Self::default() }
    }

    /// Returns the lockouts of a simulated node beside other nodes.
    #[cfg(test)]
    fn sharing() -> Self {
        Self { shared: Some(SharedLocks::default()), ..Self::default() }
    }

    /// Returns whether the component must be asked for the name before a login of `client`.
    pub fn is_asked(&self, mount: &str, client: Client, now: u64) -> bool {
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        table.counts(mount)
            || !table.may_add(client)
            || self.shared.as_ref().is_some_and(|shared| shared.has_any(mount, now))
    }

    /// Returns whether the name is locked.
    pub fn is_locked(&self, mount: &str, name: &str, now: u64) -> bool {
        self.end_of_lock(mount, name).is_some_and(|end| end > now)
            || self.shared.as_ref().is_some_and(|shared| shared.is_locked(mount, name, now))
    }

    /// Returns the end of the lock of a name that this node locked, as store time.
    fn end_of_lock(&self, mount: &str, name: &str) -> Option<u64> {
        let key = self.key(mount, name);
        let table = sync::lock(&self.table);
        table.get(&key).filter(|counter| counter.is_locked()).map(|counter| counter.ends_at)
    }

    /// Returns whether a failure with that name would be counted. A client that locked as many
    /// names as it may has no room for another name.
    pub fn would_count(&self, login: LoginName<'_>) -> bool {
        let key = self.key(login.mount, login.name);
        let table = sync::lock(&self.table);
        table.get(&key).is_some() || table.may_add(login.client)
    }

    /// Counts a failed login.
    pub fn count(&self, login: LoginName<'_>, policy: LockoutPolicy, now: u64) -> FailureEffect {
        let LoginName { mount, name, client } = login;
        if policy.is_disabled || name.len() > NAME_BYTES {
            return FailureEffect::Noted;
        }
        if self.shared.as_ref().is_some_and(|shared| shared.is_locked(mount, name, now)) {
            return FailureEffect::WasLocked;
        }
        let key = self.key(mount, name);
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        let entry = table.get(&key);
        if entry.is_some_and(FailureCounter::is_locked) {
            return FailureEffect::WasLocked;
        }
        let number = entry.map_or(0, |entry| entry.number).saturating_add(1);
        // A name stays with its first client, so that no client pays for another client's names.
        let client = entry.map_or(client, |entry| entry.client);
        if entry.is_none() && !table.make_room(client) {
            return FailureEffect::NoRoom;
        }
        let is_locked = number >= policy.threshold;
        let time = if is_locked { policy.duration } else { policy.counter_reset };
        let ends_at = now.saturating_add(time.saturating_mul(1_000));
        let locked_name = is_locked.then(|| name.into());
        let counter =
            FailureCounter { mount: mount.into(), client, number, last: now, ends_at, locked_name };
        table.put(key, counter);
        if is_locked { FailureEffect::NowLocked } else { FailureEffect::Noted }
    }

    /// Forgets the failures of a name that this node counted, after a right login. Returns whether
    /// there were any.
    pub fn forget(&self, mount: &str, name: &str) -> bool {
        let key = self.key(mount, name);
        sync::lock(&self.table).remove(&key).is_some()
    }

    /// Returns the locked names of a mount, in order.
    pub fn locked(&self, mount: &str, now: u64) -> Vec<String> {
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        let mut names = BTreeSet::from_iter(table.locked(mount));
        let shared = self.shared.iter().flat_map(|shared| shared.names(Some(mount), now));
        names.extend(shared.map(|(_, name)| name));
        names.into_iter().collect()
    }

    /// Returns the number of locked names of all mounts.
    pub fn count_locked(&self, now: u64) -> usize {
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        let is_counted = |mount: &str, name: &str| {
            table.get(&self.key(mount, name)).is_some_and(FailureCounter::is_locked)
        };
        let shared = self.shared.iter().flat_map(|shared| shared.names(None, now));
        let elsewhere = shared.filter(|(mount, name)| !is_counted(mount, name)).count();
        table.count_locked() + elsewhere
    }

    fn key(&self, mount: &str, name: &str) -> CounterKey {
        self.hashers.each_ref().map(|hasher| hasher.hash_one((mount, name)))
    }
}

#[cfg(test)]
mod tests;
