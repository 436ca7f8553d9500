//! The gate of a mount: counts the requests inside, holds requests back while the gate is paused,
//! and lets no request in once the gate is closed.
//!
//! This file prevents a request that found its mount before the mount was removed from storing a
//! row after the rows of the mount were deleted, and a request of one version of a plugin from
//! writing into data that another version migrates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// A gate that can be closed once, for good.
#[derive(Default)]
pub(crate) struct MountGate {
    closed: AtomicBool,
    inside: Arc<RwLock<()>>,
}

/// The guard of an entered gate, held until the work ends.
pub type GateEntry = OwnedRwLockReadGuard<()>;

/// The guard of a closed gate, with nothing inside. [`MountGate::enter_or_outwait`] waits until the
/// guard is dropped.
pub type ClosedGate = OwnedRwLockWriteGuard<()>;

/// The guard of a paused gate, with nothing inside. Requests wait until the guard is dropped.
pub type PausedGate = OwnedRwLockWriteGuard<()>;

impl MountGate {
    /// Makes a closed gate.
    pub(super) fn new_closed() -> Self {
        Self { closed: AtomicBool::new(true), inside: Arc::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    /// Returns whether the gate is paused, or about to be.
    pub(super) fn is_paused(&self) -> bool {
        self.inside.try_read().is_err()
    }

    /// Enters the gate, and waits while the gate is paused. Returns `None` if the gate is closed.
    pub(super) async fn enter(&self) -> Option<GateEntry> {
        if self.is_open() { self.enter_or_outwait().await } else { None }
    }

    /// Enters the gate as [`MountGate::enter`] does, but waits at most `patience`.
    ///
    /// # Errors
    /// If the gate is still paused.
    pub(super) async fn enter_within(
        &self,
        patience: Duration,
    ) -> Result<Option<GateEntry>, Elapsed> {
        if let Ok(inside) = Arc::clone(&self.inside).try_read_owned() {
            return Ok(self.is_open().then_some(inside));
        }
        timeout(patience, self.enter()).await
    }

    /// Pauses the gate, and waits until nothing is inside.
    pub(super) async fn pause(&self) -> PausedGate {
        Arc::clone(&self.inside).write_owned().await
    }

    /// Enters the gate. If the gate is closed, waits until its [`ClosedGate`] is dropped, and
    /// returns `None`.
    pub(super) async fn enter_or_outwait(&self) -> Option<GateEntry> {
        let inside = Arc::clone(&self.inside).read_owned().await;
        self.is_open().then_some(inside)
    }

    /// Closes the gate, and waits until nothing is inside. All work inside has a deadline, so the
    /// wait ends.
    pub(super) async fn close(&self) -> ClosedGate {
        self.closed.store(true, Ordering::SeqCst);
        Arc::clone(&self.inside).write_owned().await
    }
}

#[cfg(test)]
mod tests;
