//! Work of the host that takes long and cannot be interrupted: making an RSA key, hashing a
//! password.
//!
//! The attack this file stops: a mount whose calls ask for so much of it that the calls of others
//! wait behind all of them. A mount has one turn at a time, so that another one's waits at most for
//! one piece of work of each mount; and one processor is left to everything else.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of the process, of each sort of work: hashing does not wait for keys.
pub(crate) struct SlowWork {
    keys: Arc<Semaphore>,
    hashes: Arc<Semaphore>,
}

/// The turns of one mount, one of each sort.
pub(crate) struct Turns {
    keys: Arc<Semaphore>,
    hashes: Arc<Semaphore>,
}

/// A mount's turn and a place, until they are dropped: with the work, not with the call that asked.
pub(crate) struct Turn {
    _place: OwnedSemaphorePermit,
    _of_mount: OwnedSemaphorePermit,
}

impl SlowWork {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places = || Arc::new(Semaphore::new(processors.saturating_sub(1).max(1)));
        Self { keys: places(), hashes: places() }
    }

    /// A turn at making an RSA key. `None` cannot happen while the process runs.
    pub(crate) async fn key(&self, mount: &Turns) -> Option<Turn> {
        turn(&mount.keys, &self.keys).await
    }

    /// A turn at hashing a password. `None` cannot happen while the process runs.
    pub(crate) async fn hash(&self, mount: &Turns) -> Option<Turn> {
        turn(&mount.hashes, &self.hashes).await
    }
}

/// The mount's turn first: only one of its calls waits for a place.
async fn turn(mount: &Arc<Semaphore>, places: &Arc<Semaphore>) -> Option<Turn> {
    let of_mount = Arc::clone(mount).acquire_owned().await.ok()?;
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    Some(Turn { _place: place, _of_mount: of_mount })
}

impl Default for Turns {
    fn default() -> Self {
        let one = || Arc::new(Semaphore::new(1));
        Self { keys: one(), hashes: one() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_mount_with_a_thousand_wishes_keeps_another_waiting_for_one_of_them() {
        let one = || Arc::new(Semaphore::new(1));
        let work = SlowWork { keys: one(), hashes: one() };
        let (greedy, modest) = (Turns::default(), Turns::default());
        let first = work.key(&greedy).await;
        let mut others: Vec<_> = (0..1_000).map(|_| Box::pin(work.key(&greedy))).collect();
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        let mut modest = Box::pin(work.key(&modest));
        assert!(modest.as_mut().now_or_never().is_none());
        drop(first);
        // The next of the greedy mount has its turn now, and waits for the place behind the other.
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        assert!(modest.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn hashing_does_not_wait_for_keys() {
        let (work, mount) = (SlowWork::new(), Turns::default());
        let _key = work.key(&mount).await;
        assert!(work.hash(&mount).now_or_never().flatten().is_some());
    }
}
