//! Places for snapshots in progress, and their end when the store is closed.
//!
//! This file prevents snapshots that nobody reads to the end from keeping the write-ahead log of
//! the database, and a snapshot from reading a directory that is no longer locked.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};

use bulkhead_record::fault::StoreFault;

/// Maximum number of snapshots taken at the same time. Each holds a connection, and the log of the
/// database cannot shrink meanwhile.
const MAX_SNAPSHOTS: u32 = 2;

/// The places of a store.
pub(crate) struct SnapshotPlaces {
    places: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

impl Default for SnapshotPlaces {
    fn default() -> SnapshotPlaces {
        let places = Arc::new(Semaphore::new(MAX_SNAPSHOTS as usize));
        SnapshotPlaces { places, closing: watch::Sender::new(false) }
    }
}

impl SnapshotPlaces {
    /// Takes a place.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if no place is free or the store is closed.
    pub(crate) fn take(&self) -> Result<SnapshotPlace, StoreFault> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => Ok(SnapshotPlace { _permit: permit, closing: self.closing.subscribe() }),
            Err(TryAcquireError::NoPermits) => Err(StoreFault::Unavailable(format!(
                "{MAX_SNAPSHOTS} snapshots are being taken at this moment, the maximum; wait for \
                 the end of a snapshot, then try again"
            ))),
            Err(TryAcquireError::Closed) => Err(StoreFault::Unavailable(
                "the store is closed; unseal the server, then take the snapshot".to_owned(),
            )),
        }
    }

    /// Ends all snapshots in progress, and refuses new ones.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        if let Ok(all) = self.places.acquire_many(MAX_SNAPSHOTS).await {
            self.places.close();
            drop(all);
        }
    }
}

/// A place, given back when dropped.
pub(crate) struct SnapshotPlace {
    _permit: OwnedSemaphorePermit,
    closing: watch::Receiver<bool>,
}

impl SnapshotPlace {
    /// Waits until the store is closed.
    pub(crate) async fn closed(&mut self) {
        // An error means that the store is gone.
        drop(self.closing.wait_for(|is_closing| *is_closing).await);
    }
}

#[cfg(test)]
mod tests;
