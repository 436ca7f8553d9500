//! The failure counters of all mounts, and the choice of the counter that is evicted for a new
//! name.
//!
//! This file prevents failed logins with many names from evicting the counter of a guessed name,
//! which would allow endless guessing. A locked name is never evicted before its time. Otherwise
//! the client with the most counters loses its counter with the fewest failures. A client may have
//! more names than the rate limit (`unauthenticated_limits.rs`) lets it try within 15 minutes, the
//! usual life of a counter. A client that locked its maximum of names cannot try another name.
//!
//! A counter takes some 250 bytes: the key is a keyed hash, and only a locked counter keeps the
//! name, for the operators' list.

use bulkhead_wire::client::Client;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Keyed hashes of mount and name.
pub(super) type CounterKey = [u64; 2];

/// Maximum numbers of counters.
pub(super) struct CounterBounds {
    pub(super) all: usize,
    pub(super) of_client: usize,
}

impl Default for CounterBounds {
    fn default() -> Self {
        // At 50 a second after the first thousand, a client tries 46,000 names in 15 minutes.
        Self { all: 128 << 10, of_client: 48 << 10 }
    }
}

/// The failures of a name. Times are in milliseconds of store time.
pub(super) struct FailureCounter {
    /// UUID of the mount.
    pub(super) mount: Arc<str>,
    /// The client of the first failure.
    pub(super) client: Client,
    pub(super) number: u64,
    pub(super) last: u64,
    pub(super) ends_at: u64,
    /// The name, if it is locked.
    pub(super) locked_name: Option<Box<str>>,
}

impl FailureCounter {
    pub(super) fn is_locked(&self) -> bool {
        self.locked_name.is_some()
    }

    /// Rank among the unlocked counters of the client; the lowest rank is evicted first.
    fn rank(&self, key: CounterKey) -> (u64, u64, CounterKey) {
        (self.number, self.last, key)
    }
}

/// All counters, with the indexes that find a counter by end, mount and client.
pub(super) struct FailureCounters {
    bounds: CounterBounds,
    counters: HashMap<CounterKey, FailureCounter>,
    by_end: BTreeSet<(u64, CounterKey)>,
    of_mounts: HashMap<Arc<str>, MountCounters>,
    of_clients: HashMap<Client, ClientCounters>,
    /// Clients by their number of unlocked counters.
    by_most: BTreeSet<(usize, Client)>,
}

#[derive(Default)]
struct MountCounters {
    number: usize,
    locked: BTreeMap<Box<str>, CounterKey>,
}

#[derive(Default)]
struct ClientCounters {
    /// Counters that can be evicted.
    unlocked: BTreeSet<(u64, u64, CounterKey)>,
    locked: usize,
}

impl FailureCounters {
    pub(super) fn new(bounds: CounterBounds) -> Self {
        Self {
            bounds,
            counters: HashMap::new(),
            by_end: BTreeSet::new(),
            of_mounts: HashMap::new(),
            of_clients: HashMap::new(),
            by_most: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, key: &CounterKey) -> Option<&FailureCounter> {
        self.counters.get(key)
    }

    /// Returns whether any name of the mount is counted.
    pub(super) fn counts(&self, mount: &str) -> bool {
        self.of_mounts.contains_key(mount)
    }

    /// Returns the locked names of a mount, in order.
    pub(super) fn locked(&self, mount: &str) -> Vec<String> {
        let names = self.of_mounts.get(mount).into_iter().flat_map(|it| it.locked.keys());
        names.map(ToString::to_string).collect()
    }

    /// Returns the number of locked names of all mounts.
    pub(super) fn count_locked(&self) -> usize {
        self.of_mounts.values().map(|of_mount| of_mount.locked.len()).sum()
    }

    /// Returns whether the client may have another name counted, possibly by giving up a counter of
    /// its own.
    pub(super) fn may_add(&self, client: Client) -> bool {
        let of_client = self.of_clients.get(&client);
        of_client.is_none_or(|it| !it.unlocked.is_empty() || it.locked < self.bounds.of_client)
    }

    /// Makes room for a new counter of `client`. Returns `false` if every counter that could give
    /// way is locked.
    pub(super) fn make_room(&mut self, client: Client) -> bool {
        let own = self.of_clients.get(&client);
        if own.is_some_and(|own| own.unlocked.len() + own.locked >= self.bounds.of_client) {
            return self.give_way(client);
        }
        if self.counters.len() < self.bounds.all {
            return true;
        }
        match self.by_most.last() {
            Some((_, most)) => self.give_way(*most),
            None => false,
        }
    }

    fn give_way(&mut self, client: Client) -> bool {
        let first = self.of_clients.get(&client).and_then(|own| own.unlocked.first().copied());
        first.is_some_and(|(_, _, key)| self.remove(&key).is_some())
    }

    /// Forgets all counters whose time is over.
    pub(super) fn forget_ended(&mut self, now: u64) {
        while let Some((ends_at, key)) = self.by_end.first().copied()
            && ends_at <= now
        {
            self.remove(&key);
        }
    }

    /// Stores a counter, and replaces an earlier counter of the same key.
    pub(super) fn put(&mut self, key: CounterKey, counter: FailureCounter) {
        self.remove(&key);
        self.by_end.insert((counter.ends_at, key));
        let of_mount = self.of_mounts.entry(Arc::clone(&counter.mount)).or_default();
        of_mount.number += 1;
        if let Some(name) = &counter.locked_name {
            of_mount.locked.insert(name.clone(), key);
        }
        let of_client = self.of_clients.entry(counter.client).or_default();
        let before = of_client.unlocked.len();
        if counter.is_locked() {
            of_client.locked += 1;
        } else {
            of_client.unlocked.insert(counter.rank(key));
        }
        self.rank_client(counter.client, before);
        self.counters.insert(key, counter);
    }

    pub(super) fn remove(&mut self, key: &CounterKey) -> Option<FailureCounter> {
        let counter = self.counters.remove(key)?;
        self.by_end.remove(&(counter.ends_at, *key));
        if let Some(of_mount) = self.of_mounts.get_mut(&counter.mount) {
            of_mount.number -= 1;
            if let Some(name) = &counter.locked_name {
                of_mount.locked.remove(name);
            }
            if of_mount.number == 0 {
                self.of_mounts.remove(&counter.mount);
            }
        }
        if let Some(of_client) = self.of_clients.get_mut(&counter.client) {
            let before = of_client.unlocked.len();
            if counter.is_locked() {
                of_client.locked -= 1;
            } else {
                of_client.unlocked.remove(&counter.rank(*key));
            }
            self.rank_client(counter.client, before);
        }
        Some(counter)
    }

    /// Updates the client's rank, which was by `before` unlocked counters.
    fn rank_client(&mut self, client: Client, before: usize) {
        self.by_most.remove(&(before, client));
        let Some(of_client) = self.of_clients.get(&client) else { return };
        let now = of_client.unlocked.len();
        if now > 0 {
            self.by_most.insert((now, client));
        } else if of_client.locked == 0 {
            self.of_clients.remove(&client);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Returns whether all indexes are empty.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty()
            && self.by_end.is_empty()
            && self.of_mounts.is_empty()
            && self.of_clients.is_empty()
            && self.by_most.is_empty()
    }
}
