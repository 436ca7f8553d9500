//! The alarm of the worker for due records. The alarm rings if a commit contains a record due
//! earlier than the time for which the worker has set the alarm.
//!
//! Most leases are due in an hour: a worker that woke up at every commit would query the database 4
//! times per credential and find nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// An alarm for a single worker.
pub struct WorkerAlarm {
    at: AtomicU64,
    rung: Notify,
}

impl Default for WorkerAlarm {
    fn default() -> Self {
        Self { at: AtomicU64::new(u64::MAX), rung: Notify::new() }
    }
}

impl WorkerAlarm {
    /// Makes every commit of a due record ring, until [`WorkerAlarm::set`]. The worker calls this
    /// before looking for due records, so that nothing is missed between the look and the sleep.
    pub fn listen(&self) {
        self.ring_before(u64::MAX);
    }

    /// Makes only commits of records due before `moment` (store time, milliseconds) ring.
    pub fn ring_before(&self, moment: u64) {
        self.at.store(moment, Ordering::SeqCst);
    }

    /// Resolves when the alarm rings; at once if the alarm has rung since the last call.
    pub async fn wait_for_ring(&self) {
        self.rung.notified().await;
    }

    /// Rings if `due`, the due time of a committed record, is earlier than the set time.
    pub(crate) fn ring(&self, due: u64) {
        if due < self.at.load(Ordering::SeqCst) {
            self.rung.notify_one();
        }
    }
}
