//! Sealing: tracking of work in flight, and the signal for background work to end.
//!
//! This file prevents old work from running concurrently with a reopened store. Every request and
//! every piece of due work holds the in-flight lock for reading until its end; the store is opened
//! again only after the lock was taken for writing.

use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};
use tokio::task::JoinHandle;

/// Guard of a piece of work. The store is not opened again until the guard is dropped.
pub type InFlight = OwnedRwLockReadGuard<()>;

/// Handle that tells work on an open store to end when the store is being sealed.
#[derive(Clone)]
pub struct SealSignal {
    in_flight: Arc<RwLock<()>>,
    stop: Arc<watch::Sender<bool>>,
}

impl SealSignal {
    /// Returns the handle for a newly opened store. `in_flight` belongs to the process and survives
    /// every seal.
    pub fn new(in_flight: &Arc<RwLock<()>>) -> Self {
        Self { in_flight: Arc::clone(in_flight), stop: Arc::new(watch::channel(false).0) }
    }

    /// Registers a piece of work, without waiting.
    ///
    /// # Errors
    /// 503 while the service is being sealed and waits for running work.
    pub fn enter(&self) -> Result<InFlight, Failure> {
        Arc::clone(&self.in_flight).try_read_owned().map_err(|_| sealed_failure())
    }

    /// Runs `work` in a separate task, for which sealing waits.
    ///
    /// # Errors
    /// 503 while the service is being sealed.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        let in_flight = self.enter()?;
        Ok(tokio::spawn(async move {
            let done = work.await;
            drop(in_flight);
            done
        }))
    }

    /// Tells background work to end.
    pub fn begin(&self) {
        self.stop.send_replace(true);
    }

    /// Returns true if background work must end.
    pub fn has_begun(&self) -> bool {
        *self.stop.borrow()
    }

    /// Resolves when background work must end.
    pub async fn wait_for_seal(&self) {
        // An error means that the sender is gone, which also means the end.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Waits for work in flight; returns `false` if some work has not ended after `patience`.
    pub async fn wait_for_work(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.in_flight.write()).await.is_ok()
    }
}

/// Returns the failure with the words that clients of this API look for (decision H4).
pub fn sealed_failure() -> Failure {
    Failure::new(FailureKind::Unavailable, "Vault is sealed")
}
