//! Bounded reuse (decision T4): the idle instances of one mount that asked for it.
//!
//! A reused instance may remember what it was given, so this file bounds to whom it can pass that
//! on: a cache belongs to one mount and one loaded component, and lends to no other. It takes back
//! only what answered and left nothing behind, and forgets an instance after some calls, after some
//! time, and when its mount changes or the store is sealed. The other attack that it stops is on
//! room: what is idle holds a slot of the engine's pool, and gives it up to any call that waits for
//! one.

use crate::admission::Admission;
use crate::identity::Identity;
use crate::instance::Live;
use crate::limits::ReuseBounds;
use crate::state::CallState;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::time::Instant;

/// How the calls of a mount get their instances.
#[derive(Clone, Default)]
pub enum Reuse {
    /// A fresh one each.
    #[default]
    Fresh,
    /// One that served other calls of the same mount, where there is one. Made by
    /// [`Engine::reuse`](crate::Engine::reuse).
    Bounded(Arc<InstanceCache>),
}

impl Reuse {
    /// The cache, for calls of `component` on `mount`; none if it is another one's.
    pub(crate) fn cache(
        &self,
        component: &Arc<Identity>,
        mount: &str,
    ) -> Option<Arc<InstanceCache>> {
        let Self::Bounded(cache) = self else { return None };
        let is_theirs = Arc::ptr_eq(&cache.component, component) && cache.mount == mount;
        is_theirs.then(|| Arc::clone(cache))
    }
}

/// Idle instances of one mount and one loaded component.
pub struct InstanceCache {
    mount: String,
    component: Arc<Identity>,
    bounds: ReuseBounds,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one that was used last comes last, and is lent first: its memory is the likeliest to be
    /// in the caches.
    kept: Vec<Kept>,
    /// A task drops what grows old.
    is_swept: bool,
    is_closed: bool,
}

struct Kept {
    live: Live,
    /// Its slot in the engine's pool: an instance is idle and admitted, or serves a call that is.
    _slot: Admission,
}

impl InstanceCache {
    /// An instance that may serve one more call.
    pub(crate) fn take(&self) -> Option<Live> {
        loop {
            let kept = self.lock().kept.pop()?;
            if self.is_young(&kept.live) {
                return Some(kept.live);
            }
        }
    }

    /// Moves an answered call out of its instance, and keeps the instance where it may serve
    /// another.
    pub(crate) fn keep(self: &Arc<Self>, mut live: Live) -> CallState {
        let left_nothing = live.store.data().left_nothing();
        let ended = live.end();
        let is_fit = left_nothing && live.calls() < self.bounds.calls && self.is_young(&live);
        if is_fit && let Some(slot) = ended.resources.process.slots.enter_idle() {
            self.put(Kept { live, _slot: slot });
        }
        ended
    }

    fn put(self: &Arc<Self>, kept: Kept) {
        let mut idle = self.lock();
        if idle.is_closed || idle.kept.len() >= self.bounds.idle {
            // Dropped with `kept`, after the lock was given back.
            return;
        }
        idle.kept.push(kept);
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Idle instances.
    pub(crate) fn idle(&self) -> usize {
        self.lock().kept.len()
    }

    /// Drops the idle instance that was used longest ago. Says whether there was one.
    fn drop_one(&self) -> bool {
        let mut idle = self.lock();
        let oldest = (!idle.kept.is_empty()).then(|| idle.kept.remove(0));
        drop(idle);
        oldest.is_some()
    }

    /// Drops what has grown old. Returns when the next one will have, if there is one.
    fn drop_old(&self) -> Option<Instant> {
        let mut idle = self.lock();
        let old: Vec<Kept> = idle.kept.extract_if(.., |kept| !self.is_young(&kept.live)).collect();
        let next = idle.kept.iter().map(|kept| kept.live.born() + self.bounds.age).min();
        idle.is_swept = next.is_some();
        drop(idle);
        drop(old);
        next
    }

    /// Drops all, and keeps nothing any more.
    fn close(&self) {
        let mut idle = self.lock();
        idle.is_closed = true;
        let kept = std::mem::take(&mut idle.kept);
        drop(idle);
        drop(kept);
    }

    fn is_young(&self, live: &Live) -> bool {
        live.born().elapsed() < self.bounds.age
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        sync::lock(&self.idle)
    }
}

/// Drops what grows old in a cache that no call asks, until it is empty or gone.
async fn sweep(cache: Weak<InstanceCache>) {
    while let Some(next) = cache.upgrade().and_then(|cache| cache.drop_old()) {
        tokio::time::sleep_until(next).await;
    }
}

/// The caches of a sandbox, mount by mount.
#[derive(Default)]
pub(crate) struct InstanceCaches(Mutex<Known>);

#[derive(Default)]
struct Known {
    caches: Vec<Weak<InstanceCache>>,
    is_closed: bool,
}

impl InstanceCaches {
    /// A new cache for the instances of `component` on `mount`. They live as long as it does.
    pub(crate) fn open(
        &self,
        component: &Arc<Identity>,
        mount: &str,
        bounds: ReuseBounds,
    ) -> Arc<InstanceCache> {
        let (mount, component) = (mount.to_owned(), Arc::clone(component));
        let cache = Arc::new(InstanceCache { mount, component, bounds, idle: Mutex::default() });
        self.add(&cache);
        cache
    }

    fn add(&self, cache: &Arc<InstanceCache>) {
        let mut known = self.lock();
        known.caches.retain(|cache| cache.strong_count() > 0);
        known.caches.push(Arc::downgrade(cache));
        if known.is_closed {
            cache.close();
        }
    }

    /// Drops idle instances until `wanted` slots are free, first of the mounts that keep most.
    pub(crate) fn make_room(&self, wanted: u32) {
        let caches = self.all();
        for _ in 0..wanted {
            let fullest = caches.iter().max_by_key(|cache| cache.idle());
            if !fullest.is_some_and(|cache| cache.drop_one()) {
                return;
            }
        }
    }

    /// Drops every idle instance, and lets none be kept any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.all().iter().for_each(|cache| cache.close());
    }

    fn all(&self) -> Vec<Arc<InstanceCache>> {
        self.lock().caches.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        sync::lock(&self.0)
    }
}

#[cfg(test)]
mod tests;
