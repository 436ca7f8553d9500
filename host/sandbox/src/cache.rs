//! What the calls of one mount keep for each other in memory.
//!
//! The attack this file stops: one mount's calls reading or crowding out what another's keep. Each
//! mount has a cache of its own, bounded by its own limit, and a component sees only what its very
//! bytes have put there. The fault that it stops is a stampede: of many calls that miss the same
//! value, one makes it while the others wait for a while.

use crate::limits;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

/// The caches of all mounts over one open store.
#[derive(Default)]
pub(crate) struct Caches {
    by_mount: Mutex<BTreeMap<String, MountCache>>,
}

struct MountCache {
    /// Digest of the component that put everything in it.
    component: String,
    cache: Arc<Cache>,
}

impl Caches {
    /// The cache of a mount, for its component with that digest.
    pub(crate) fn of(&self, mount: &str, component: &str) -> Arc<Cache> {
        let mut by_mount = self.lock();
        match by_mount.get(mount) {
            Some(entry) if entry.component == component => Arc::clone(&entry.cache),
            _ => {
                let entry = MountCache { component: component.to_owned(), cache: Arc::default() };
                let cache = Arc::clone(&entry.cache);
                by_mount.insert(mount.to_owned(), entry);
                cache
            }
        }
    }

    /// Forgets what a mount kept.
    pub(crate) fn forget(&self, mount: &str) {
        self.lock().remove(mount);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MountCache>> {
        sync::lock(&self.by_mount)
    }
}

/// The cache of one mount.
#[derive(Default)]
pub(crate) struct Cache {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: BTreeMap<String, Entry>,
    /// Keys by when they were last used.
    by_use: BTreeMap<u64, String>,
    bytes: usize,
    leads: BTreeMap<String, Leader>,
    /// Counts uses and leads, so that each has a number of its own.
    count: u64,
}

struct Entry {
    value: Zeroizing<Vec<u8>>,
    until: Instant,
    used: u64,
}

/// A key whose value a call makes.
struct Leader {
    by: u64,
    ended: Arc<Notify>,
}

/// What was asked for, or the right to make it.
pub(crate) enum Lookup {
    Value(Zeroizing<Vec<u8>>),
    Lead(Lead),
}

/// The right to make a value, until it is dropped. Others may take it over after a while.
pub(crate) struct Lead {
    cache: Arc<Cache>,
    key: String,
    number: u64,
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut kept = self.cache.lock();
        if kept.leads.get(&self.key).is_some_and(|leader| leader.by == self.number) {
            kept.end_lead(&self.key);
        }
    }
}

impl Cache {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str, now: Instant) -> Option<Zeroizing<Vec<u8>>> {
        self.lock().get(key, now)
    }

    /// The value, or the right to make it. Waits while another call makes it, but no longer than
    /// until `until`.
    pub(crate) async fn get_or_lead(self: &Arc<Self>, key: &str, until: Instant) -> Lookup {
        loop {
            let ended = {
                let mut kept = self.lock();
                if let Some(value) = kept.get(key, Instant::now()) {
                    return Lookup::Value(value);
                }
                match kept.leads.get(key) {
                    // Asked for under the lock, so that no end is missed.
                    Some(leader) => Arc::clone(&leader.ended).notified_owned(),
                    None => return Lookup::Lead(self.lead(&mut kept, key)),
                }
            };
            if timeout_at(until, ended).await.is_err() {
                return Lookup::Lead(self.lead(&mut self.lock(), key));
            }
        }
    }

    /// Keeps a value until then, in a cache of at most `room` bytes. Ends the wait of others for
    /// it.
    pub(crate) fn put(&self, key: &str, value: Zeroizing<Vec<u8>>, until: Instant, room: usize) {
        let mut kept = self.lock();
        kept.remove(key);
        if weight(key, &value) <= room {
            kept.insert(key, value, until);
            kept.shrink(room);
        }
        kept.end_lead(key);
    }

    /// Forgets a value. Ends the wait of others for it.
    pub(crate) fn remove(&self, key: &str) {
        let mut kept = self.lock();
        kept.remove(key);
        kept.end_lead(key);
    }

    fn lead(self: &Arc<Self>, kept: &mut Kept, key: &str) -> Lead {
        let number = kept.next_number();
        // The calls that wait for the lead before wait for this one.
        let ended = kept.leads.remove(key).map(|leader| leader.ended).unwrap_or_default();
        kept.leads.insert(key.to_owned(), Leader { by: number, ended });
        Lead { cache: Arc::clone(self), key: key.to_owned(), number }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        sync::lock(&self.kept)
    }
}

impl Kept {
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
        self.bytes = self.bytes.saturating_add(weight(key, &value));
        self.by_use.insert(used, key.to_owned());
        self.entries.insert(key.to_owned(), Entry { value, until, used });
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes = self.bytes.saturating_sub(weight(key, &entry.value));
            self.by_use.remove(&entry.used);
        }
    }

    /// Lets go what was used longest ago, until the rest has room.
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
mod tests {
    use super::*;
    use std::time::Duration;

    const ROOM: usize = 1 << 20;

    fn text(value: Option<Zeroizing<Vec<u8>>>) -> Option<String> {
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    fn long() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn lead(found: Lookup) -> Lead {
        match found {
            Lookup::Lead(lead) => lead,
            Lookup::Value(_) => panic!("there is a value"),
        }
    }

    #[test]
    fn a_mount_never_sees_what_another_keeps_nor_a_component_what_another_version_kept() {
        let caches = Caches::default();
        caches.of("one", "v1").put("k", b"1".to_vec().into(), long(), ROOM);
        assert!(caches.of("other", "v1").get("k", Instant::now()).is_none());
        assert_eq!(text(caches.of("one", "v1").get("k", Instant::now())).unwrap(), "1");
        assert!(caches.of("one", "v2").get("k", Instant::now()).is_none());
        assert!(caches.of("one", "v1").get("k", Instant::now()).is_none(), "it is gone for good");
        for forget in [|caches: &Caches| caches.forget("one"), |caches: &Caches| caches.clear()] {
            caches.of("one", "v1").put("k", b"1".to_vec().into(), long(), ROOM);
            forget(&caches);
            assert!(caches.of("one", "v1").get("k", Instant::now()).is_none());
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_what_never_fits_crowds_nothing_out() {
        let (cache, room) = (Cache::default(), 3 * weight("a", b"1234"));
        for key in ["a", "b", "c"] {
            cache.put(key, b"1234".to_vec().into(), long(), room);
        }
        assert!(cache.get("a", Instant::now()).is_some());
        cache.put("d", b"1234".to_vec().into(), long(), room);
        assert!(
            cache.get("b", Instant::now()).is_none()
                && cache.get("a", Instant::now()).is_some()
                && cache.get("c", Instant::now()).is_some()
        );
        cache.put("e", vec![0; room].into(), long(), room);
        assert!(
            cache.get("e", Instant::now()).is_none() && cache.get("d", Instant::now()).is_some()
        );
        cache.put("d", b"12345".to_vec().into(), long(), room);
        assert_eq!(cache.lock().entries.len(), 2, "the larger value took another's room");
        for key in ["a", "b", "c", "d"] {
            cache.remove(key);
        }
        let kept = cache.lock();
        assert_eq!((kept.bytes, kept.by_use.len()), (0, 0));
        drop(kept);
        for number in 0..=limits::CACHE_ENTRIES {
            cache.put(&number.to_string(), Zeroizing::default(), long(), usize::MAX);
        }
        assert_eq!(cache.lock().entries.len(), limits::CACHE_ENTRIES);
    }

    #[test]
    fn a_value_lasts_as_long_as_it_was_told() {
        let (cache, now) = (Cache::default(), Instant::now());
        let until = now + Duration::from_secs(5);
        cache.put("k", b"1".to_vec().into(), until, ROOM);
        assert!(cache.get("k", until - Duration::from_millis(1)).is_some());
        assert!(cache.get("k", until).is_none());
        assert_eq!(cache.lock().bytes, 0);
    }

    #[tokio::test]
    async fn one_leads_and_the_others_get_what_it_made() {
        let cache = Arc::new(Cache::default());
        let lead = lead(cache.get_or_lead("k", long()).await);
        let others: Vec<_> = (0..100)
            .map(|_| {
                let cache = Arc::clone(&cache);
                tokio::spawn(async move { cache.get_or_lead("k", long()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        cache.put("k", b"made".to_vec().into(), long(), ROOM);
        drop(lead);
        for other in others {
            assert!(
                matches!(other.await.unwrap(), Lookup::Value(value) if value.as_slice() == b"made")
            );
        }
        assert!(cache.lock().leads.is_empty());
    }

    #[tokio::test]
    async fn when_the_leader_fails_the_next_one_leads_and_when_it_dawdles_too() {
        let cache = Arc::new(Cache::default());
        let first = lead(cache.get_or_lead("k", long()).await);
        let (next, ()) = tokio::join!(cache.get_or_lead("k", long()), async { drop(first) });
        let dawdles = lead(next);
        let soon = Instant::now() + Duration::from_millis(20);
        let third = lead(cache.get_or_lead("k", soon).await);
        assert!(Instant::now() >= soon);
        drop(dawdles);
        assert!(cache.lock().leads.contains_key("k"), "who was overtaken ends nobody's lead");
        drop(third);
        assert!(cache.lock().leads.is_empty());
    }
}
