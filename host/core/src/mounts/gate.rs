//! The gate of a mount: what is inside, and nothing comes in any more once it is closed.
//!
//! The fault this file stops: a request that found its mount before the mount was taken away, and
//! stores something after its rows were deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// A door that is closed once, for good.
#[derive(Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    inside: Arc<RwLock<()>>,
}

/// Being inside; dropped, its holder is outside again.
pub(crate) type Inside = OwnedRwLockReadGuard<()>;

/// A gate that was closed, with nothing inside; those who outwait it wait until this is dropped.
pub(crate) type Closed = OwnedRwLockWriteGuard<()>;

impl Gate {
    /// A gate through which nothing ever comes.
    pub(super) fn closed() -> Self {
        Self { closed: AtomicBool::new(true), inside: Arc::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    /// Goes in, unless it is closed. Never waits.
    pub(crate) fn enter(&self) -> Option<Inside> {
        // It fails only for those that come while it is being closed.
        let inside = Arc::clone(&self.inside).try_read_owned().ok()?;
        self.is_open().then_some(inside)
    }

    /// Goes in; at a closed gate, waits until its [`Closed`] is dropped, and stays outside.
    pub(super) async fn enter_or_outwait(&self) -> Option<Inside> {
        let inside = Arc::clone(&self.inside).read_owned().await;
        self.is_open().then_some(inside)
    }

    /// Closes, and waits until nothing is inside. What is inside has a deadline, so that it ends.
    pub(super) async fn close(&self) -> Closed {
        self.closed.store(true, Ordering::SeqCst);
        Arc::clone(&self.inside).write_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_waits_for_those_inside_and_lets_nobody_in() {
        let gate = Arc::new(Gate::default());
        let (one, other) = (gate.enter().unwrap(), gate.enter().unwrap());
        let closing = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { drop(gate.close().await) }
        });
        while gate.is_open() {
            tokio::task::yield_now().await;
        }
        assert!(gate.enter().is_none());
        drop(one);
        assert!(!closing.is_finished());
        drop(other);
        closing.await.unwrap();
        assert!(gate.enter().is_none(), "it stays closed");
        assert!(Gate::closed().enter().is_none());
    }

    #[tokio::test]
    async fn whoever_outwaits_a_closing_stays_outside() {
        let gate = Arc::new(Gate::default());
        drop(gate.enter_or_outwait().await.unwrap());
        let closed = gate.close().await;
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter_or_outwait().await.is_none() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(closed);
        assert!(waiting.await.unwrap());
    }
}
