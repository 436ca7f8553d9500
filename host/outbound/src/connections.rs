//! The right to an outbound connection of HTTP or LDAP, counted for the mount and the process.
//!
//! This file prevents the requests of one mount from taking the connections that all mounts need.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The open outbound connections of a mount.
#[derive(Default)]
pub struct MountConnections {
    open: AtomicU32,
    /// Notified when a connection is closed.
    closed: Notify,
}

/// The right to a single outbound connection of HTTP or LDAP, until dropped.
pub struct ConnectionPermit {
    _of_mount: CountedConnection,
    _of_process: OwnedSemaphorePermit,
}

/// A connection that is counted for its mount.
struct CountedConnection(Arc<MountConnections>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.closed.notify_waiters();
    }
}

impl MountConnections {
    /// Waits for a free connection of the mount, with at most `most` connections, and of the
    /// process (`all`). `None` only if `all` is closed.
    pub async fn acquire(
        self: &Arc<Self>,
        most: u32,
        all: Arc<Semaphore>,
    ) -> Option<ConnectionPermit> {
        let of_mount = loop {
            // The waiter is registered before the count is read, so that a close in between is not
            // missed.
            let closed = self.closed.notified();
            match self.try_acquire(most) {
                Some(of_mount) => break of_mount,
                None => closed.await,
            }
        };
        let of_process = all.acquire_owned().await.ok()?;
        Some(ConnectionPermit { _of_mount: of_mount, _of_process: of_process })
    }

    fn try_acquire(self: &Arc<Self>, most: u32) -> Option<CountedConnection> {
        let one_more = |open: u32| (open < most).then(|| open + 1);
        let counted = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then(|| CountedConnection(Arc::clone(self)))
    }
}
