//! A compartment: what the calls of one mount share, and no call of another mount touches.
//!
//! The attack this file stops: one mount's requests taking what all mounts need. What a mount has
//! taken is counted here, over all its calls and over its tunes.

use crate::held::HeldBytes;
use crate::key_ring::KeyRing;
use crate::limits::{self, Limits};
use crate::slow_work::Turns;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What the calls of one mount share.
pub struct Compartment {
    mount: String,
    limits: Limits,
    taken: Arc<Taken>,
}

/// What runs or ran in a compartment, under any of its limits.
#[derive(Default)]
pub(crate) struct Taken {
    /// Instance slots that requests of the mount hold. Written under the lock of admission only.
    slots: AtomicU32,
    rate: Mutex<Bucket>,
    /// Outbound HTTP connections that are open.
    connections: AtomicU32,
    /// Bytes that the host holds for the mount's calls.
    held: Arc<HeldBytes>,
    /// Public keys that its calls verified with.
    keys: KeyRing,
    /// Its turns at work of the host that takes long.
    turns: Turns,
    /// Notified when one is closed.
    closed: Notify,
    /// When one of its calls was last found to compute for long.
    long: Mutex<Option<std::time::Instant>>,
}

/// The right to one outbound HTTP connection of a mount, until it is dropped.
pub(crate) struct Connection {
    _of_mount: OfMount,
    _of_process: OwnedSemaphorePermit,
}

/// A connection that is counted for its mount.
struct OfMount(Arc<Taken>);

impl Drop for OfMount {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.closed.notify_waiters();
    }
}

/// A token bucket that holds what one second allows.
#[derive(Default)]
struct Bucket {
    /// Requests that may come at once, and when they were counted; `None` before the first.
    left: Option<(f64, Instant)>,
}

impl Compartment {
    /// The compartment of the mount with that uuid.
    #[must_use]
    pub fn new(mount: &str, limits: Limits) -> Arc<Self> {
        Arc::new(Self { mount: mount.to_owned(), limits, taken: Arc::default() })
    }

    /// The same compartment under other limits: what runs in it stays counted.
    #[must_use]
    pub fn under(&self, limits: Limits) -> Arc<Self> {
        Arc::new(Self { mount: self.mount.clone(), limits, taken: Arc::clone(&self.taken) })
    }

    /// The mount's uuid: the prefix of its rows.
    #[must_use]
    pub fn mount(&self) -> &str {
        &self.mount
    }

    /// The limits of the mount and of each of its calls.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts a request against the mount's rate.
    ///
    /// # Errors
    /// When there were too many: how long until the next one may come.
    pub fn count_request(&self, now: Instant) -> Result<(), Duration> {
        let Some(rate) = self.limits.rate else { return Ok(()) };
        let mut bucket = sync::lock(&self.taken.rate);
        bucket.take(f64::from(rate), now)
    }

    /// Waits for one of the mount's outbound HTTP connections, and for one of `all`. `None` only
    /// where there are none.
    pub(crate) async fn acquire_connection(&self, all: Arc<Semaphore>) -> Option<Connection> {
        let of_mount = loop {
            // Asked for before looking, so that none is missed that closes in between.
            let closed = self.taken.closed.notified();
            match self.taken.try_acquire_connection(self.limits.connections) {
                Some(of_mount) => break of_mount,
                None => closed.await,
            }
        };
        let of_process = all.acquire_owned().await.ok()?;
        Some(Connection { _of_mount: of_mount, _of_process: of_process })
    }

    pub(crate) fn taken(&self) -> &Arc<Taken> {
        &self.taken
    }
}

impl Taken {
    /// Bytes that the host holds for the mount's calls.
    pub(crate) fn held(&self) -> &Arc<HeldBytes> {
        &self.held
    }

    /// Public keys that the mount's calls verified with.
    pub(crate) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// The mount's turns at work of the host that takes long.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Instance slots that requests of the mount hold.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, slots: u32) {
        self.slots.fetch_add(slots, Ordering::Relaxed);
    }

    fn try_acquire_connection(self: &Arc<Self>, most: u32) -> Option<OfMount> {
        let one_more = |open: u32| (open < most).then(|| open + 1);
        let counted = self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then(|| OfMount(Arc::clone(self)))
    }

    pub(crate) fn give_back(&self, slots: u32) {
        self.slots.fetch_sub(slots, Ordering::Relaxed);
    }

    /// Notes that a call of the mount computes for long.
    pub(crate) fn mark_computing_long(&self, now: std::time::Instant) {
        *sync::lock(&self.long) = Some(now);
    }

    /// Whether one did a moment before `now`.
    pub(crate) fn computed_long(&self, now: std::time::Instant) -> bool {
        let long = *sync::lock(&self.long);
        long.is_some_and(|at| now.saturating_duration_since(at) < limits::COMPUTED_LONG_AGO)
    }
}

impl Bucket {
    /// `rate` is in requests a second, and at least 1 of them may always come after a second of
    /// silence.
    fn take(&mut self, rate: f64, now: Instant) -> Result<(), Duration> {
        let most = rate.max(1.0);
        let left = match self.left {
            None => most,
            Some((left, at)) => {
                (left + now.saturating_duration_since(at).as_secs_f64() * rate).min(most)
            }
        };
        if left < 1.0 {
            self.left = Some((left, now));
            // A rate of nothing would never fill it.
            return Err(Duration::try_from_secs_f64((1.0 - left) / rate).unwrap_or(Duration::MAX));
        }
        self.left = Some((left - 1.0, now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(rate: u32) -> Arc<Compartment> {
        Compartment::new("mount", Limits { rate: Some(rate), ..Limits::default() })
    }

    /// How many of a thousand requests at once pass.
    fn passing(compartment: &Compartment, now: Instant) -> usize {
        (0..1_000).filter(|_| compartment.count_request(now).is_ok()).count()
    }

    #[test]
    fn a_rate_lets_a_second_of_requests_come_at_once_and_the_others_in_turn() {
        let (compartment, now) = (limited(200), Instant::now());
        assert_eq!(passing(&compartment, now), 200);
        let wait = compartment.count_request(now).unwrap_err();
        assert!(wait <= Duration::from_millis(5), "{wait:?}");
        let later = now + Duration::from_millis(100);
        assert!(
            (19..=20).contains(&passing(&compartment, later)),
            "a tenth of a second is worth twenty requests"
        );
        let much_later = now + Duration::from_secs(3_600);
        assert_eq!(passing(&compartment, much_later), 200, "an hour of silence saves nothing up");
    }

    #[test]
    fn other_limits_forget_nothing_that_was_counted() {
        let (compartment, now) = (limited(1), Instant::now());
        compartment.count_request(now).unwrap();
        let tuned = compartment.under(*compartment.limits());
        assert!(tuned.count_request(now).is_err());
        assert!(
            tuned.under(Limits::default()).count_request(now).is_ok(),
            "without a rate nothing is counted"
        );
    }
}
