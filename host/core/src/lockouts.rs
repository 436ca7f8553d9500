//! Names at auth methods that are locked after too many logins that failed.
//!
//! The attacks this file stops: a password that is guessed from many addresses at once, which the
//! rate of one address does not slow; guesses that were on their way when the name was locked; and
//! an answer that tells a right guess from a wrong one while it is. Names are counted whether they
//! exist or not, because a component says beforehand which alias a login would be for. Never knows
//! what was guessed.
//!
//! Nothing is stored: a restart forgets. How many names are counted, and which of them give way, is
//! in `lockouts/table.rs`.

mod policy;
mod table;

pub(crate) use policy::LockoutPolicy;

use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use table::{Bounds, Counter, Key, Table};

/// Bytes of a name that is counted; no alias is longer.
const NAME_BYTES: usize = 512;

/// Failures of late, by mount and name.
pub(crate) struct Lockouts {
    /// Two, so that no two names have one key by chance, and none by an attacker's choice.
    hashers: [RandomState; 2],
    table: Mutex<Table>,
}

/// The name that a login is for, and who asks.
#[derive(Clone, Copy)]
pub(crate) struct LoginName<'a> {
    /// The mount's uuid.
    pub(crate) mount: &'a str,
    pub(crate) name: &'a str,
    pub(crate) client: Client,
}

/// The effect of a failure on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It was counted, or there is nothing to count.
    Noted,
    /// It was the last that the name had.
    NowLocked,
    /// The name was locked when it came.
    WasLocked,
    /// It was not counted: there is room for no other name.
    NoRoom,
}

impl Default for Lockouts {
    fn default() -> Self {
        Self::within(Bounds::default())
    }
}

impl Lockouts {
    fn within(bounds: Bounds) -> Self {
        Self { hashers: <[RandomState; 2]>::default(), table: Mutex::new(Table::new(bounds)) }
    }

    /// Is a component of that mount to be asked beforehand whose login one of `client` would be?
    pub(crate) fn is_asked(&self, mount: &str, client: Client, now: u64) -> bool {
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        table.counts(mount) || !table.may_add(client)
    }

    /// Is that name locked?
    pub(crate) fn is_locked(&self, mount: &str, name: &str, now: u64) -> bool {
        let key = self.key(mount, name);
        let table = sync::lock(&self.table);
        table.get(&key).is_some_and(|counter| counter.is_locked() && counter.ends_at > now)
    }

    /// Whether a failure with that name would be counted: it would not be where the client has
    /// locked as many names as it may.
    pub(crate) fn would_count(&self, login: LoginName<'_>) -> bool {
        let key = self.key(login.mount, login.name);
        let table = sync::lock(&self.table);
        table.get(&key).is_some() || table.may_add(login.client)
    }

    /// Counts a login for that name that failed.
    pub(crate) fn count(&self, login: LoginName<'_>, policy: LockoutPolicy, now: u64) -> Counted {
        let LoginName { mount, name, client } = login;
        if policy.is_disabled || name.len() > NAME_BYTES {
            return Counted::Noted;
        }
        let key = self.key(mount, name);
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        let known = table.get(&key);
        if known.is_some_and(Counter::is_locked) {
            return Counted::WasLocked;
        }
        let number = known.map_or(0, |known| known.number).saturating_add(1);
        // A name stays its first client's, so that none is charged with what others began.
        let client = known.map_or(client, |known| known.client);
        if known.is_none() && !table.make_room(client) {
            return Counted::NoRoom;
        }
        let is_locked = number >= policy.threshold;
        let time = if is_locked { policy.duration } else { policy.counter_reset };
        let ends_at = now.saturating_add(time.saturating_mul(1_000));
        let locked_name = is_locked.then(|| name.into());
        let counter =
            Counter { mount: mount.into(), client, number, last: now, ends_at, locked_name };
        table.put(key, counter);
        if is_locked { Counted::NowLocked } else { Counted::Noted }
    }

    /// Forgets the failures of a name: it proved itself, or an operator says so. Whether there were
    /// any.
    pub(crate) fn forget(&self, mount: &str, name: &str) -> bool {
        let key = self.key(mount, name);
        sync::lock(&self.table).remove(&key).is_some()
    }

    /// The names of a mount that are locked, in order.
    pub(crate) fn locked(&self, mount: &str, now: u64) -> Vec<String> {
        let mut table = sync::lock(&self.table);
        table.forget_ended(now);
        table.locked(mount)
    }

    fn key(&self, mount: &str, name: &str) -> Key {
        self.hashers.each_ref().map(|hasher| hasher.hash_one((mount, name)))
    }
}

#[cfg(test)]
mod tests;
