//! Slow work of the host that cannot be interrupted: making an RSA key, hashing a password.
//!
//! This file prevents a mount with many such calls from blocking the calls of other mounts, and a
//! client from blocking the other clients of a mount, for example by logins. A mount has a single
//! turn at a time, which goes round by client. A call therefore waits at most for one piece of work
//! of each other mount, and of each client of its own mount. One processor is left to all other
//! work, if there is more than one.

use crate::fair_queue::{FairPermit, FairSemaphore};
use bulkhead_wire::client::Client;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of the process, separate for each sort of work: hashing does not wait for keys.
pub(crate) struct SlowWork {
    keys: Arc<Semaphore>,
    hashes: Arc<Semaphore>,
}

/// The client of a call; `None` for due work.
type CallerKey = Option<Client>;

/// The turns of a mount, one for each sort of work.
pub(crate) struct SlowWorkQueues {
    keys: FairSemaphore<CallerKey>,
    hashes: FairSemaphore<CallerKey>,
}

/// A mount's turn and a place, until dropped: with the work, not with the call that asked.
pub(crate) struct SlowWorkPermit {
    _place: OwnedSemaphorePermit,
    _of_mount: FairPermit<CallerKey>,
}

impl SlowWork {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places = || Arc::new(Semaphore::new(processors.saturating_sub(1).max(1)));
        Self { keys: places(), hashes: places() }
    }

    /// Waits for a turn at making an RSA key. `None` cannot happen while the process runs.
    pub(crate) async fn key(
        &self,
        mount: &SlowWorkQueues,
        caller: CallerKey,
    ) -> Option<SlowWorkPermit> {
        acquire_permit(&mount.keys, caller, &self.keys).await
    }

    /// Waits for a turn at hashing a password. `None` cannot happen while the process runs.
    pub(crate) async fn hash(
        &self,
        mount: &SlowWorkQueues,
        caller: CallerKey,
    ) -> Option<SlowWorkPermit> {
        acquire_permit(&mount.hashes, caller, &self.hashes).await
    }
}

/// Waits for the mount's turn first, so that only a single call of a mount waits for a place.
async fn acquire_permit(
    mount: &FairSemaphore<CallerKey>,
    caller: CallerKey,
    places: &Arc<Semaphore>,
) -> Option<SlowWorkPermit> {
    let of_mount = mount.acquire(caller).await?;
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    Some(SlowWorkPermit { _place: place, _of_mount: of_mount })
}

impl Default for SlowWorkQueues {
    fn default() -> Self {
        Self { keys: FairSemaphore::new(1), hashes: FairSemaphore::new(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn thousand_requests_of_mount_delay_other_by_one() {
        let one = || Arc::new(Semaphore::new(1));
        let work = SlowWork { keys: one(), hashes: one() };
        let (greedy, modest) = (SlowWorkQueues::default(), SlowWorkQueues::default());
        let first = work.key(&greedy, None).await;
        let mut others: Vec<_> = (0..1_000).map(|_| Box::pin(work.key(&greedy, None))).collect();
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        let mut modest = Box::pin(work.key(&modest, None));
        assert!(modest.as_mut().now_or_never().is_none());
        drop(first);
        // The next call of the greedy mount has the mount's turn now, and waits for a place behind
        // the modest mount's call.
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        assert!(modest.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn thousand_requests_of_client_delay_other_by_one() {
        let (work, mount) = (SlowWork::new(), SlowWorkQueues::default());
        let client = |last| Some(Client::of([192, 0, 2, last].into()));
        let first = work.hash(&mount, client(1)).await;
        let mut others: Vec<_> =
            (0..1_000).map(|_| Box::pin(work.hash(&mount, client(1)))).collect();
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        let mut modest = Box::pin(work.hash(&mount, client(2)));
        assert!(modest.as_mut().now_or_never().is_none());
        drop(first);
        let second = others[0].as_mut().now_or_never().flatten();
        assert!(second.is_some() && modest.as_mut().now_or_never().is_none());
        drop(second);
        assert!(modest.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn hashing_does_not_wait_for_keys() {
        let (work, mount) = (SlowWork::new(), SlowWorkQueues::default());
        let _key = work.key(&mount, None).await;
        assert!(work.hash(&mount, None).now_or_never().flatten().is_some());
    }
}
