//! Being sealed: what is in flight, and the sign for it to end.
//!
//! The fault this file stops: work that goes on beside what undoes it. Every request and every
//! piece of due work holds the in-flight lock for reading until it has ended; the store is opened
//! again only once that lock was had for writing.

use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

/// Work of the service, until it is dropped: the store is not opened again before.
pub(crate) type InFlight = OwnedRwLockReadGuard<()>;

/// What tells work of an open store whether that is being sealed.
#[derive(Clone)]
pub(crate) struct Sealing {
    in_flight: Arc<RwLock<()>>,
    stop: Arc<watch::Sender<bool>>,
}

impl Sealing {
    /// Of a store that was opened. `in_flight` is the process's: it outlives every seal.
    pub(crate) fn new(in_flight: &Arc<RwLock<()>>) -> Self {
        Self { in_flight: Arc::clone(in_flight), stop: Arc::new(watch::channel(false).0) }
    }

    /// The right to work. Never waits.
    ///
    /// # Errors
    /// 503 while the service waits for work to end, because it is being sealed.
    pub(crate) fn enter(&self) -> Result<InFlight, Failure> {
        Arc::clone(&self.in_flight).try_read_owned().map_err(|_| sealed())
    }

    /// Tells background work to end.
    pub(crate) fn begin(&self) {
        self.stop.send_replace(true);
    }

    /// Is background work to end?
    pub(crate) fn has_begun(&self) -> bool {
        *self.stop.borrow()
    }

    /// Resolves when background work is to end.
    pub(crate) async fn begun(&self) {
        // An error means that the sender is gone, which is an end, too.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Waits for what is in flight; `false` when some of it has not ended after `patience`.
    pub(crate) async fn outwait(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.in_flight.write()).await.is_ok()
    }
}

/// The words that clients of this API look for (decision H4).
pub(crate) fn sealed() -> Failure {
    Failure::new(Kind::Unavailable, "Vault is sealed")
}
