//! Locks of names on a database of several nodes.
//!
//! This file prevents guesses at another node of a name that is locked at one node: a lock is also
//! a record with its end, and each node reads the records after a change by another node. Failures
//! are counted by each node alone, so that a guesser who reaches all nodes has at most the
//! threshold of the mount times the number of nodes. A node that works alone stores nothing.

use super::{Lockouts, LoginName};
use bulkhead_store::{Address, IndexColumns, Space, Store};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use bulkhead_wire::{stored, sync};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Prefix of the keys of locks in [`Space::Core`].
const PREFIX: &str = "lockout/";

/// Time between two readings of the locks. A guesser who locks many names at one node must not keep
/// the other nodes reading.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// A name at a mount.
type NameAtMount = (String, String);

/// The stored lock of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NameLock {
    /// UUID of the mount.
    mount: String,
    name: String,
    /// Store time, in milliseconds.
    ends_at: u64,
}

stored!(NameLock, "name-lock", reads_stored_name_locks);

/// The stored locks, as this node knows them.
#[derive(Default)]
pub(super) struct SharedLocks {
    known: Mutex<KnownLocks>,
    /// Held during a read of all records, and during an unlocking.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KnownLocks {
    /// Count of the changes by other nodes before the last read; `None` before the first read.
    read_at: Option<u64>,
    /// The moment of the last read.
    read: Option<Instant>,
    /// Ends of the locks.
    ends: BTreeMap<NameAtMount, u64>,
}

impl SharedLocks {
    /// Returns whether a name of the mount is locked.
    pub(super) fn has_any(&self, mount: &str, now: u64) -> bool {
        let locks = sync::lock(&self.known);
        let of_mount = locks.ends.range((mount.to_owned(), String::new())..);
        let mut of_mount = of_mount.take_while(|((name, _), _)| name == mount);
        of_mount.any(|(_, end)| *end > now)
    }

    /// Returns whether the name is locked.
    pub(super) fn is_locked(&self, mount: &str, name: &str, now: u64) -> bool {
        let key = (mount.to_owned(), name.to_owned());
        sync::lock(&self.known).ends.get(&key).is_some_and(|end| *end > now)
    }

    /// Returns the locked names of a mount, or of all mounts.
    pub(super) fn names(&self, mount: Option<&str>, now: u64) -> impl Iterator<Item = NameAtMount> {
        let locks = sync::lock(&self.known);
        let of_mount =
            |key: &NameAtMount, end: u64| end > now && mount.is_none_or(|mount| key.0 == mount);
        let found = locks.ends.iter().filter(|(key, end)| of_mount(key, **end));
        found.map(|(key, _)| key.clone()).collect::<Vec<_>>().into_iter()
    }

    /// Returns whether the locks are as after `count` changes, or were read a short time ago.
    fn is_current(&self, count: u64) -> bool {
        let locks = sync::lock(&self.known);
        let is_recent = locks.read.is_some_and(|read| read.elapsed() < READ_PAUSE);
        locks.read_at.is_some_and(|read_at| read_at == count || is_recent)
    }

    /// Replaces the known locks. Returns the names without a lock that had one.
    fn replace(&self, count: u64, ends: BTreeMap<NameAtMount, u64>) -> Vec<NameAtMount> {
        let mut locks = sync::lock(&self.known);
        let before = std::mem::replace(
            &mut *locks,
            KnownLocks { read_at: Some(count), read: Some(Instant::now()), ends },
        );
        before.ends.into_keys().filter(|key| !locks.ends.contains_key(key)).collect()
    }
}

impl Lockouts {
    /// Reads the locks in `store`, if another node changed any since the last read, and the last
    /// read is a second ago.
    ///
    /// # Errors
    /// 503 if the database cannot be read.
    pub async fn follow(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let changes = store.follow(PREFIX);
        if shared.is_current(changes.get()) {
            return Ok(());
        }
        let _turn = shared.turn.lock().await;
        // Before the read, so that a later change is read again.
        let count = changes.get();
        if shared.is_current(count) {
            return Ok(());
        }
        let ends = read_locks(store).await?;
        for (mount, name) in shared.replace(count, ends) {
            // Another node has unlocked the name, or the lock is over.
            self.forget(&mount, &name);
        }
        Ok(())
    }

    /// Stores the lock of a name that this node has just locked. Returns once each living node
    /// knows the lock, or uses nothing in memory.
    ///
    /// # Errors
    /// 503 if the database cannot be written.
    pub async fn share(&self, store: &Arc<Store>, login: LoginName<'_>) -> Result<(), Failure> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let LoginName { mount, name, .. } = login;
        let Some(ends_at) = self.end_of_lock(mount, name) else { return Ok(()) };
        let lock = NameLock { mount: mount.to_owned(), name: name.to_owned(), ends_at };
        // The counter of this node holds the lock, too, if a read replaces the note below.
        let mut unit = store.begin();
        unit.put(address(store, mount, name), lock.to_bytes()?, IndexColumns::default());
        unit.commit().await?;
        sync::lock(&shared.known).ends.insert((lock.mount, lock.name), ends_at);
        Ok(())
    }

    /// Unlocks a name on all nodes, and forgets the failures that this node counted.
    ///
    /// # Errors
    /// 503 if the database cannot be written; the name stays locked.
    pub async fn unlock(&self, store: &Arc<Store>, mount: &str, name: &str) -> Result<(), Failure> {
        if let Some(shared) = &self.shared {
            let _turn = shared.turn.lock().await;
            let mut unit = store.begin();
            unit.delete(address(store, mount, name));
            unit.commit().await?;
            sync::lock(&shared.known).ends.remove(&(mount.to_owned(), name.to_owned()));
        }
        self.forget(mount, name);
        Ok(())
    }
}

/// Returns the ends of the stored locks, and removes locks that are over.
async fn read_locks(store: &Arc<Store>) -> Result<BTreeMap<NameAtMount, u64>, Failure> {
    let mut ends = BTreeMap::new();
    let mut scan = store.scan(Space::Core, PREFIX);
    while let Some(page) = scan.page().await? {
        let mut unit = store.begin();
        for address in page {
            let Some(row) = unit.get_undamaged(&address).await? else { continue };
            // A lock that this release cannot read ends with the release that wrote the lock.
            let Ok(lock) = NameLock::from_bytes(&row.body) else { continue };
            if lock.ends_at > store.now() {
                ends.insert((lock.mount, lock.name), lock.ends_at);
            } else {
                unit.delete(address);
            }
        }
        if unit.wrote() {
            // The next read removes what is left after a failure.
            drop(unit.commit().await);
        }
    }
    Ok(ends)
}

fn address(store: &Store, mount: &str, name: &str) -> Address {
    let hash = store.keyed_hash("lockout", format!("{mount} {name}").as_bytes());
    Address::new(Space::Core, format!("{PREFIX}{hash}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lockouts::{FailureEffect, LockoutPolicy};
    use crate::testing::TemporaryStore;
    use bulkhead_wire::client::Client;

    const POLICY: LockoutPolicy =
        LockoutPolicy { threshold: 3, duration: 60, counter_reset: 30, is_disabled: false };

    fn eve() -> LoginName<'static> {
        LoginName { mount: "m", name: "eve", client: Client::of([192, 0, 2, 1].into()) }
    }

    /// Two nodes on one store.
    struct TwoNodes {
        bed: TemporaryStore,
        one: Lockouts,
        other: Lockouts,
    }

    impl TwoNodes {
        async fn new(name: &str) -> Self {
            let bed = TemporaryStore::new(name).await;
            Self { bed, one: Lockouts::sharing(), other: Lockouts::sharing() }
        }

        /// Fails until the name is locked at a node.
        async fn lock_at(&self, node: &Lockouts, policy: LockoutPolicy) {
            let now = self.bed.store.now();
            let count = || node.count(eve(), policy, now);
            assert_eq!([count(), count()], [FailureEffect::Noted; 2]);
            assert_eq!(count(), FailureEffect::NowLocked);
            node.share(&self.bed.store, eve()).await.unwrap();
        }

        /// Reads the records at a node, as after a change by the other node.
        async fn follow(&self, node: &Lockouts) {
            sync::lock(&node.shared.as_ref().unwrap().known).read_at = None;
            node.follow(&self.bed.store).await.unwrap();
        }

        fn is_locked(&self, node: &Lockouts) -> bool {
            node.is_locked("m", "eve", self.bed.store.now())
        }
    }

    #[tokio::test]
    async fn lock_of_one_node_holds_at_other() {
        let nodes = TwoNodes::new("lock-shared").await;
        let TwoNodes { bed, one, other } = &nodes;
        nodes.follow(other).await;
        nodes.lock_at(one, POLICY).await;
        assert!(!nodes.is_locked(other), "not read yet");
        nodes.follow(other).await;
        let now = bed.store.now();
        for node in [one, other] {
            assert!(nodes.is_locked(node) && node.is_asked("m", eve().client, now));
            assert_eq!(node.locked("m", now), ["eve"]);
            assert_eq!((node.count_locked(now), node.locked("x", now).len()), (1, 0));
            assert_eq!(node.count(eve(), POLICY, now), FailureEffect::WasLocked);
            assert!(!node.is_locked("m", "eve", now + 60_001), "the end is stored");
        }
        nodes.bed.end().await;
    }

    #[tokio::test]
    async fn unlock_at_one_node_unlocks_at_other() {
        let nodes = TwoNodes::new("unlock-shared").await;
        nodes.lock_at(&nodes.one, POLICY).await;
        nodes.follow(&nodes.other).await;
        nodes.other.unlock(&nodes.bed.store, "m", "eve").await.unwrap();
        assert!(!nodes.is_locked(&nodes.other) && nodes.is_locked(&nodes.one));
        nodes.follow(&nodes.one).await;
        assert!(!nodes.is_locked(&nodes.one), "its own counter is forgotten");
        nodes.lock_at(&nodes.one, POLICY).await;
        nodes.bed.end().await;
    }

    #[tokio::test]
    async fn ended_locks_are_removed() {
        let nodes = TwoNodes::new("lock-ended").await;
        nodes.lock_at(&nodes.one, LockoutPolicy { duration: 0, ..POLICY }).await;
        assert_eq!(nodes.bed.store.count(Space::Core, PREFIX, 9).await, Ok(1));
        nodes.follow(&nodes.other).await;
        assert_eq!(nodes.bed.store.count(Space::Core, PREFIX, 9).await, Ok(0));
        nodes.bed.end().await;
    }

    #[tokio::test]
    async fn node_alone_stores_no_lock() {
        let bed = TemporaryStore::new("lock-alone").await;
        let lockouts = Lockouts::of(&bed.store);
        for _ in 0..3 {
            lockouts.count(eve(), POLICY, bed.store.now());
        }
        lockouts.share(&bed.store, eve()).await.unwrap();
        lockouts.follow(&bed.store).await.unwrap();
        assert!(lockouts.is_locked("m", "eve", bed.store.now()));
        assert_eq!(bed.store.count(Space::Core, PREFIX, 9).await, Ok(0));
        lockouts.unlock(&bed.store, "m", "eve").await.unwrap();
        assert!(!lockouts.is_locked("m", "eve", bed.store.now()));
        bed.end().await;
    }
}
