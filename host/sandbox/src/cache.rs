//! In-memory caches that the calls of one mount share.
//!
//! This file prevents the calls of one mount from reading or evicting the values of another mount.
//! Each mount has its own cache, bounded by its own limit, and a component sees only the values
//! that the very same component bytes have put there. The caches of all mounts are bounded
//! together, too: at that bound, the largest cache evicts. This file prevents a stampede as well:
//! if many calls miss the same value, one call makes the value and the others wait for a bounded
//! time.

use crate::limits;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

/// The caches of all mounts over one open store.
#[derive(Default)]
pub(crate) struct CacheRegistry {
    by_mount: Mutex<BTreeMap<String, MountCache>>,
    /// Bytes in the caches of all mounts.
    bytes: Arc<AtomicUsize>,
}

struct MountCache {
    /// Digest of the component that put the values.
    component: String,
    cache: Arc<ValueCache>,
}

impl CacheRegistry {
    /// Returns the cache of a mount for the component with this digest. A cache of another
    /// component is replaced.
    pub(crate) fn of(&self, mount: &str, component: &str) -> Arc<ValueCache> {
        let mut by_mount = self.lock();
        match by_mount.get(mount) {
            Some(entry) if entry.component == component => Arc::clone(&entry.cache),
            _ => {
                let cache = ValueCache::counted_in(&self.bytes);
                let entry = MountCache { component: component.to_owned(), cache };
                let cache = Arc::clone(&entry.cache);
                by_mount.insert(mount.to_owned(), entry);
                cache
            }
        }
    }

    /// Evicts until all caches together have at most `most` bytes. The largest cache evicts its
    /// least recently used values until half of its bytes are left, so that a thousand values of
    /// one mount do not evict three of another.
    pub(crate) fn evict_down_to(&self, most: usize) {
        while self.bytes.load(Ordering::Relaxed) > most {
            let largest = {
                let by_mount = self.lock();
                let sizes = by_mount.values().map(|entry| (entry.cache.bytes(), &entry.cache));
                sizes.max_by_key(|(bytes, _)| *bytes).map(|(bytes, it)| (bytes, Arc::clone(it)))
            };
            // The remaining bytes belong to calls of a forgotten mount, and are freed with the
            // calls.
            let Some((bytes, cache)) = largest.filter(|(bytes, _)| *bytes > 0) else { return };
            cache.lock().shrink(bytes / 2);
        }
    }

    /// Returns the bytes in the cache of a mount.
    pub(crate) fn bytes_of(&self, mount: &str) -> usize {
        self.lock().get(mount).map_or(0, |entry| entry.cache.bytes())
    }

    /// Drops the cache of a mount.
    pub(crate) fn forget(&self, mount: &str) {
        self.lock().remove(mount);
    }

    /// Drops all caches.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MountCache>> {
        sync::lock(&self.by_mount)
    }
}

/// The cache of one mount.
#[derive(Default)]
pub(crate) struct ValueCache {
    kept: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    entries: BTreeMap<String, CacheEntry>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, String>,
    bytes: usize,
    /// Bytes in the caches of all mounts.
    all_bytes: Arc<AtomicUsize>,
    leads: BTreeMap<String, LeadingCall>,
    /// Counter of uses and leads; gives each a unique number.
    count: u64,
}

struct CacheEntry {
    value: Zeroizing<Vec<u8>>,
    until: Instant,
    used: u64,
}

/// The call that makes the value of a key.
struct LeadingCall {
    by: u64,
    ended: Arc<Notify>,
}

/// The cached value, or the right to make the value.
pub(crate) enum CacheLookup {
    Value(Zeroizing<Vec<u8>>),
    Lead(CacheLead),
}

/// The right to make a value, until dropped. Another call may take the right over after a while.
pub(crate) struct CacheLead {
    cache: Arc<ValueCache>,
    key: String,
    number: u64,
}

impl Drop for CacheLead {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if state.leads.get(&self.key).is_some_and(|leader| leader.by == self.number) {
            state.end_lead(&self.key);
        }
    }
}

impl Drop for ValueCache {
    fn drop(&mut self) {
        let state = self.lock();
        state.all_bytes.fetch_sub(state.bytes, Ordering::Relaxed);
    }
}

impl ValueCache {
    fn counted_in(all_bytes: &Arc<AtomicUsize>) -> Arc<Self> {
        let state = CacheState { all_bytes: Arc::clone(all_bytes), ..CacheState::default() };
        Arc::new(Self { kept: Mutex::new(state) })
    }

    fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str, now: Instant) -> Option<Zeroizing<Vec<u8>>> {
        self.lock().get(key, now)
    }

    /// Returns the value, or the right to make the value. While another call makes the value, waits
    /// until `until` at the latest; then takes over the right.
    pub(crate) async fn get_or_lead(self: &Arc<Self>, key: &str, until: Instant) -> CacheLookup {
        loop {
            let ended = {
                let mut state = self.lock();
                if let Some(value) = state.get(key, Instant::now()) {
                    return CacheLookup::Value(value);
                }
                match state.leads.get(key) {
                    // The waiter is registered under the lock, so that it cannot miss the end of
                    // the lead.
                    Some(leader) => Arc::clone(&leader.ended).notified_owned(),
                    None => return CacheLookup::Lead(self.lead(&mut state, key)),
                }
            };
            if timeout_at(until, ended).await.is_err() {
                return CacheLookup::Lead(self.lead(&mut self.lock(), key));
            }
        }
    }

    /// Stores a value that expires at `until`, in a cache of at most `room` bytes. Wakes the calls
    /// that wait for the value.
    pub(crate) fn put(&self, key: &str, value: Zeroizing<Vec<u8>>, until: Instant, room: usize) {
        let mut state = self.lock();
        state.remove(key);
        if weight(key, &value) <= room {
            state.insert(key, value, until);
            state.shrink(room);
        }
        state.end_lead(key);
    }

    /// Removes a value. The lead of another call stays: waiting calls must not continue before the
    /// leading call has ended.
    pub(crate) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lead(self: &Arc<Self>, state: &mut CacheState, key: &str) -> CacheLead {
        let number = state.next_number();
        // Calls that wait for the previous lead now wait for this lead.
        let ended = state.leads.remove(key).map(|leader| leader.ended).unwrap_or_default();
        state.leads.insert(key.to_owned(), LeadingCall { by: number, ended });
        CacheLead { cache: Arc::clone(self), key: key.to_owned(), number }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        sync::lock(&self.kept)
    }
}

impl CacheState {
    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn get(&mut self, key: &str, now: Instant) -> Option<Zeroizing<Vec<u8>>> {
        let used = self.next_number();
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.remove(key);
            return None;
        }
        let (before, value) = (std::mem::replace(&mut entry.used, used), entry.value.clone());
        if let Some(name) = self.by_use.remove(&before) {
            self.by_use.insert(used, name);
        }
        Some(value)
    }

    fn insert(&mut self, key: &str, value: Zeroizing<Vec<u8>>, until: Instant) {
        let used = self.next_number();
        let weight = weight(key, &value);
        self.bytes = self.bytes.saturating_add(weight);
        self.all_bytes.fetch_add(weight, Ordering::Relaxed);
        self.by_use.insert(used, key.to_owned());
        self.entries.insert(key.to_owned(), CacheEntry { value, until, used });
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            let weight = weight(key, &entry.value);
            self.bytes = self.bytes.saturating_sub(weight);
            self.all_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.by_use.remove(&entry.used);
        }
    }

    /// Evicts the least recently used values until the rest fits into `room` bytes.
    fn shrink(&mut self, room: usize) {
        while self.bytes > room || self.entries.len() > limits::CACHE_ENTRIES {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    fn end_lead(&mut self, key: &str) {
        if let Some(leader) = self.leads.remove(key) {
            leader.ended.notify_waiters();
        }
    }
}

fn weight(key: &str, value: &[u8]) -> usize {
    key.len().saturating_add(value.len()).saturating_add(limits::CACHE_ENTRY_BYTES)
}

#[cfg(test)]
mod tests;
