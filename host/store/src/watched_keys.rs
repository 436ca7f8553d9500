//! Watched keys: a commit that puts or deletes a watched key rings a bell.
//!
//! This file prevents a lost wake-up. A bell rings after the commit can be read and before the
//! commit is acknowledged, and stays rung until the owner looks. Commits pay nothing while no key
//! is watched.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use bulkhead_wire::sync;

use bulkhead_record::record::{Address, Space};

/// The bells of every watched key of [`Space::Data`].
#[derive(Default)]
pub(crate) struct WatchedKeys {
    bells: Mutex<HashMap<String, Vec<Arc<Notify>>>>,
    /// Number of watched keys, read without the lock.
    keys: AtomicUsize,
}

/// A bell that rings when a watched key is put or deleted, until the watch is dropped.
pub struct KeyWatch {
    watched: Arc<WatchedKeys>,
    keys: Vec<String>,
    bell: Arc<Notify>,
}

impl WatchedKeys {
    /// Watches full keys: the mount's UUID, a slash, and the component's key.
    pub(crate) fn watch(self: &Arc<Self>, keys: Vec<String>) -> KeyWatch {
        let bell = Arc::new(Notify::new());
        let mut bells = sync::lock(&self.bells);
        for key in &keys {
            bells.entry(key.clone()).or_default().push(Arc::clone(&bell));
        }
        self.keys.store(bells.len(), Ordering::SeqCst);
        KeyWatch { watched: Arc::clone(self), keys, bell }
    }

    /// Rings the bells of the addresses that a commit wrote.
    pub(crate) fn ring<'a>(&self, written: impl Iterator<Item = &'a Address>) {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return;
        }
        let bells = sync::lock(&self.bells);
        let data = written.filter(|address| address.space == Space::Data);
        for bell in data.filter_map(|address| bells.get(&address.key)).flatten() {
            bell.notify_one();
        }
    }

    /// Rings all bells, because any key may have changed.
    pub(crate) fn ring_all(&self) {
        sync::lock(&self.bells).values().flatten().for_each(|bell| bell.notify_one());
    }
}

impl KeyWatch {
    /// Resolves after a commit since the start, or since the last call, wrote a watched key.
    pub async fn changed(&self) {
        self.bell.notified().await;
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        let mut bells = sync::lock(&self.watched.bells);
        for key in &self.keys {
            let Some(of_key) = bells.get_mut(key) else { continue };
            of_key.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if of_key.is_empty() {
                bells.remove(key);
            }
        }
        self.watched.keys.store(bells.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
