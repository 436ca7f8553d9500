//! Bounded reuse (decision T4): the idle instances of a mount that asked for reuse.
//!
//! A reused instance may remember the data of its earlier calls, so this file bounds the calls that
//! could see the data: a cache belongs to a single mount and a single loaded component. The cache
//! keeps only an instance that answered and left nothing behind, and drops an instance after some
//! calls, after some time, and when the mount changes or the store is sealed. This file prevents
//! idle instances from blocking calls, too: an idle instance holds a slot of the engine's pool, and
//! gives the slot up to any call that waits for a slot.
//!
//! Example. An operator enables `secret/` with the option `instance_reuse=bounded`. The first
//! `GET /v1/secret/data/app` finds no idle instance and makes an instance. After the answer,
//! `InstanceCache::keep` moves the state of the call out, and keeps the instance if the pool has a
//! spare slot (`InstanceSlots::enter_idle`). The second request borrows the instance:
//! `InstanceCache::take` removes the instance from the cache, so that no two calls share an
//! instance, and `LiveInstance::begin` moves the new state in. The loan ends with the call. After
//! an answer or a refusal, `keep` takes the instance back, up to 1,000 calls and an age of 60 s.
//! After a trap, a missed deadline, a forgotten handle, much memory or a line of output, the
//! instance is dropped, and the next request makes another instance. A swap or a tune gives the
//! mount another cache, so that later requests meet no instance of the version before.

use crate::admission::SlotPermit;
use crate::identity::ComponentIdentity;
use crate::instance::LiveInstance;
use crate::limits::ReuseBounds;
use crate::state::CallState;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::time::Instant;

/// The source of the instances for a mount's calls.
#[derive(Clone, Default)]
pub enum InstanceReuse {
    /// A fresh instance for each call.
    #[default]
    Fresh,
    /// An instance that served other calls of the same mount, if available. Made by
    /// [`MountablePlugin::reuse`](crate::MountablePlugin::reuse).
    Bounded(Arc<InstanceCache>),
}

impl InstanceReuse {
    /// Returns the cache if it belongs to `component` and `mount`.
    pub(crate) fn cache(
        &self,
        component: &Arc<ComponentIdentity>,
        mount: &str,
    ) -> Option<Arc<InstanceCache>> {
        let Self::Bounded(cache) = self else { return None };
        let is_theirs = Arc::ptr_eq(&cache.component, component) && cache.mount == mount;
        is_theirs.then(|| Arc::clone(cache))
    }
}

/// Idle instances of a mount and a loaded component.
pub struct InstanceCache {
    mount: String,
    component: Arc<ComponentIdentity>,
    bounds: ReuseBounds,
    idle: Mutex<IdleInstances>,
}

#[derive(Default)]
struct IdleInstances {
    /// Idle instances by last use. The most recently used instance comes last and is lent first,
    /// because its memory is most likely in the processor's caches.
    kept: Vec<IdleInstance>,
    /// A task drops instances that grow too old.
    is_swept: bool,
    is_closed: bool,
}

struct IdleInstance {
    live: LiveInstance,
    /// The slot in the engine's pool: an idle instance holds a slot itself; otherwise the call
    /// holds the slots.
    _slot: SlotPermit,
}

impl InstanceCache {
    /// Takes an idle instance that may serve another call.
    pub(crate) fn take(&self) -> Option<LiveInstance> {
        loop {
            let instance = self.lock().kept.pop()?;
            if self.is_young(&instance.live) {
                return Some(instance.live);
            }
        }
    }

    /// Moves an answered call out of its instance, and keeps the instance if it may serve another
    /// call.
    pub(crate) fn keep(self: &Arc<Self>, mut live: LiveInstance) -> CallState {
        let left_nothing = live.store.data().is_reusable();
        let ended = live.end();
        let is_fit = left_nothing && live.calls() < self.bounds.calls && self.is_young(&live);
        if is_fit && let Some(slot) = ended.resources.process.slots.enter_idle() {
            self.put(IdleInstance { live, _slot: slot });
        }
        ended
    }

    fn put(self: &Arc<Self>, instance: IdleInstance) {
        let mut idle = self.lock();
        if idle.is_closed || idle.kept.len() >= self.bounds.idle {
            // `instance` is dropped after the lock is released.
            return;
        }
        idle.kept.push(instance);
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Returns the number of idle instances.
    pub(crate) fn idle(&self) -> usize {
        self.lock().kept.len()
    }

    /// Drops the least recently used idle instance. Returns true if there was one.
    fn drop_one(&self) -> bool {
        let mut idle = self.lock();
        let oldest = (!idle.kept.is_empty()).then(|| idle.kept.remove(0));
        drop(idle);
        oldest.is_some()
    }

    /// Drops instances that are too old. Returns the time at which the next instance is too old.
    fn drop_old(&self) -> Option<Instant> {
        let mut idle = self.lock();
        let old: Vec<IdleInstance> =
            idle.kept.extract_if(.., |instance| !self.is_young(&instance.live)).collect();
        let next =
            idle.kept.iter().map(|instance| instance.live.created_at() + self.bounds.age).min();
        idle.is_swept = next.is_some();
        drop(idle);
        drop(old);
        next
    }

    /// Drops all instances, and keeps none from now on.
    fn close(&self) {
        let mut idle = self.lock();
        idle.is_closed = true;
        let instances = std::mem::take(&mut idle.kept);
        drop(idle);
        drop(instances);
    }

    fn is_young(&self, live: &LiveInstance) -> bool {
        live.created_at().elapsed() < self.bounds.age
    }

    fn lock(&self) -> MutexGuard<'_, IdleInstances> {
        sync::lock(&self.idle)
    }
}

/// Drops instances that grow too old, until the cache is empty or gone.
async fn sweep(cache: Weak<InstanceCache>) {
    while let Some(next) = cache.upgrade().and_then(|cache| cache.drop_old()) {
        tokio::time::sleep_until(next).await;
    }
}

/// The instance caches of a sandbox.
#[derive(Default)]
pub(crate) struct InstanceCaches(Mutex<KnownCaches>);

#[derive(Default)]
struct KnownCaches {
    caches: Vec<Weak<InstanceCache>>,
    is_closed: bool,
}

impl InstanceCaches {
    /// Makes a cache for the instances of `component` on `mount`. The instances live as long as the
    /// cache.
    pub(crate) fn open(
        &self,
        component: &Arc<ComponentIdentity>,
        mount: &str,
        bounds: ReuseBounds,
    ) -> Arc<InstanceCache> {
        let (mount, component) = (mount.to_owned(), Arc::clone(component));
        let cache = Arc::new(InstanceCache { mount, component, bounds, idle: Mutex::default() });
        self.add(&cache);
        cache
    }

    fn add(&self, cache: &Arc<InstanceCache>) {
        let mut known_caches = self.lock();
        known_caches.caches.retain(|cache| cache.strong_count() > 0);
        known_caches.caches.push(Arc::downgrade(cache));
        if known_caches.is_closed {
            cache.close();
        }
    }

    /// Returns the number of idle instances of all mounts.
    pub(crate) fn idle(&self) -> usize {
        self.all().iter().map(|cache| cache.idle()).sum()
    }

    /// Drops up to `wanted` idle instances, each from the mount with most idle instances.
    pub(crate) fn make_room(&self, wanted: u32) {
        let caches = self.all();
        for _ in 0..wanted {
            let fullest = caches.iter().max_by_key(|cache| cache.idle());
            if !fullest.is_some_and(|cache| cache.drop_one()) {
                return;
            }
        }
    }

    /// Drops every idle instance, and keeps none from now on.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.all().iter().for_each(|cache| cache.close());
    }

    fn all(&self) -> Vec<Arc<InstanceCache>> {
        self.lock().caches.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, KnownCaches> {
        sync::lock(&self.0)
    }
}

#[cfg(test)]
mod tests;
