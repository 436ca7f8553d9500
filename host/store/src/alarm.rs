//! The alarm of the worker on due records: it rings when something is committed that is due
//! earlier than the time for which the worker has set it.
//!
//! Most leases are due in an hour: a worker that looked at every commit would ask the database four
//! times for each credential, to find nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Rings for one worker.
pub struct Alarm {
    at: AtomicU64,
    rung: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { at: AtomicU64::new(u64::MAX), rung: Notify::new() }
    }
}

impl Alarm {
    /// Every commit of a due record rings, until [`Alarm::set`]. Call it before looking for what is
    /// due, so that nothing is missed between the look and the sleep.
    pub fn listen(&self) {
        self.set(u64::MAX);
    }

    /// Only commits of records due before `moment` (store time, milliseconds) ring.
    pub fn set(&self, moment: u64) {
        self.at.store(moment, Ordering::SeqCst);
    }

    /// Resolves when it rings, at once when it has rung since the last time.
    pub async fn rung(&self) {
        self.rung.notified().await;
    }

    /// Something due at `due` was committed.
    pub(crate) fn ring(&self, due: u64) {
        if due < self.at.load(Ordering::SeqCst) {
            self.rung.notify_one();
        }
    }
}
