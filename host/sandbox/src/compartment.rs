//! A compartment: the resources that the calls of one mount share, separate from other mounts.
//!
//! This file prevents the requests of one mount from taking the resources that all mounts need. The
//! mount's use is counted here, over all its calls and across changes of its limits.

use crate::fault_counts::{FaultCounts, TrapReading};
use crate::held_memory::HeldBytes;
use crate::identity::ComponentIdentity;
use crate::key_ring::KeyRing;
use crate::limits::{self, MountLimits};
use crate::memory::GuestMemory;
use crate::slow_work::SlowWorkQueues;
use bulkhead_outbound::connections::{ConnectionPermit, MountConnections};
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The resources that the calls of one mount share.
pub struct Compartment {
    mount: String,
    limits: MountLimits,
    taken: Arc<CompartmentUsage>,
}

/// Use of a compartment, whichever limits apply.
#[derive(Default)]
pub(crate) struct CompartmentUsage {
    /// Instance slots that requests of the mount hold. Written only under the lock of admission.
    slots: AtomicU32,
    rate: Mutex<TokenBucket>,
    /// Outbound connections of HTTP and LDAP.
    connections: Arc<MountConnections>,
    /// Bytes that the host holds for the mount's calls.
    held: Arc<HeldBytes>,
    /// Bytes of the linear memories of the mount's instances, running and idle.
    guest_memory: Arc<GuestMemory>,
    host_calls: AtomicU64,
    faults: FaultCounts,
    /// Parsed public keys for the mount's verifications.
    keys: KeyRing,
    /// Turns of the mount at slow work of the host.
    turns: SlowWorkQueues,
    /// Last time at which a call of the mount was found to compute for long.
    long: Mutex<Option<std::time::Instant>>,
}

/// A token bucket with the capacity of one second.
#[derive(Default)]
struct TokenBucket {
    /// Requests that may come at once, and the time of the count; `None` before the first request.
    left: Option<(f64, Instant)>,
}

impl Compartment {
    /// Makes the compartment of the mount with this uuid.
    #[must_use]
    pub fn new(mount: &str, limits: MountLimits) -> Arc<Self> {
        Arc::new(Self { mount: mount.to_owned(), limits, taken: Arc::default() })
    }

    /// Returns the same compartment under other limits. Its use stays counted.
    #[must_use]
    pub fn with_limits(&self, limits: MountLimits) -> Arc<Self> {
        Arc::new(Self { mount: self.mount.clone(), limits, taken: Arc::clone(&self.taken) })
    }

    /// Returns the mount's uuid: the prefix of its rows.
    #[must_use]
    pub fn mount(&self) -> &str {
        &self.mount
    }

    /// Returns the limits of the mount and of each of its calls.
    #[must_use]
    pub fn limits(&self) -> &MountLimits {
        &self.limits
    }

    /// Counts a request against the mount's rate limit.
    ///
    /// # Errors
    /// The time until the next request is allowed, if the rate is exceeded.
    pub fn count_request(&self, now: Instant) -> Result<(), Duration> {
        let Some(rate) = self.limits.rate else { return Ok(()) };
        let mut bucket = sync::lock(&self.taken.rate);
        let taken = bucket.take(f64::from(rate), now);
        taken.inspect_err(|_| self.taken.faults.note_limit("rate"))
    }

    /// Waits for a free outbound connection of the mount, and of the process (`all`). `None` only
    /// if `all` is closed.
    pub(crate) async fn acquire_connection(&self, all: Arc<Semaphore>) -> Option<ConnectionPermit> {
        self.taken.connections.acquire(self.limits.connections, all).await
    }

    /// Counts a host call of one of the mount's components.
    pub(crate) fn note_host_call(&self) {
        self.taken.host_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of host calls of the mount's components.
    #[must_use]
    pub fn host_calls(&self) -> u64 {
        self.taken.host_calls.load(Ordering::Relaxed)
    }

    /// Counts a call that was stopped at a limit.
    pub(crate) fn note_limit(&self, limit: &'static str) {
        self.taken.faults.note_limit(limit);
    }

    /// Counts a call that ended with a trap of a component.
    pub(crate) fn note_trap(&self, component: &ComponentIdentity) {
        self.taken.faults.note_trap(&component.name, &component.version);
    }

    /// Returns the traps of the mount's calls, by plugin and version.
    #[must_use]
    pub fn traps(&self) -> Vec<TrapReading> {
        self.taken.faults.traps()
    }

    /// Returns the names of limits, each with the number of calls that reached the limit.
    #[must_use]
    pub fn reached_limits(&self) -> Vec<(&'static str, u64)> {
        self.taken.faults.limits()
    }

    pub(crate) fn taken(&self) -> &Arc<CompartmentUsage> {
        &self.taken
    }
}

impl CompartmentUsage {
    /// Returns the count of bytes that the host holds for the mount's calls.
    pub(crate) fn held(&self) -> &Arc<HeldBytes> {
        &self.held
    }

    /// Returns the count of bytes of the mount's instances.
    pub(crate) fn guest_memory(&self) -> &Arc<GuestMemory> {
        &self.guest_memory
    }

    /// Returns the parsed public keys of the mount's calls.
    pub(crate) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Returns the mount's turns at slow work of the host.
    pub(crate) fn turns(&self) -> &SlowWorkQueues {
        &self.turns
    }

    /// Returns the instance slots that requests of the mount hold.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, slots: u32) {
        self.slots.fetch_add(slots, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, slots: u32) {
        self.slots.fetch_sub(slots, Ordering::Relaxed);
    }

    /// Records that a call of the mount computes for long.
    pub(crate) fn mark_computing_long(&self, now: std::time::Instant) {
        *sync::lock(&self.long) = Some(now);
    }

    /// Returns true if a call of the mount computed for long shortly before `now`.
    pub(crate) fn computed_long(&self, now: std::time::Instant) -> bool {
        let long = *sync::lock(&self.long);
        long.is_some_and(|at| now.saturating_duration_since(at) < limits::CPU_HEAVY_WINDOW)
    }
}

impl TokenBucket {
    /// Takes one request from the bucket. `rate` is in requests per second; the capacity is at
    /// least 1.
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
            // A rate of 0 never refills the bucket.
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
        Compartment::new("mount", MountLimits { rate: Some(rate), ..MountLimits::default() })
    }

    /// Returns the number of accepted requests, out of a thousand at once.
    fn passing(compartment: &Compartment, now: Instant) -> usize {
        (0..1_000).filter(|_| compartment.count_request(now).is_ok()).count()
    }

    #[test]
    fn rate_allows_one_second_burst_then_spaced_requests() {
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
        let tuned = compartment.with_limits(*compartment.limits());
        assert!(tuned.count_request(now).is_err());
        assert!(
            tuned.with_limits(MountLimits::default()).count_request(now).is_ok(),
            "a mount without a rate has no limit"
        );
    }

    #[tokio::test]
    async fn mount_connections_are_bounded_and_next_waits() {
        let all = Arc::new(Semaphore::new(2));
        let limited = |connections: u32| MountLimits { connections, ..MountLimits::default() };
        let (one, other) =
            (Compartment::new("one", limited(1)), Compartment::new("other", limited(9)));
        let soon = Duration::from_millis(50);
        let connection = one.acquire_connection(Arc::clone(&all)).await.unwrap();
        let waits = async |compartment: &Compartment| {
            tokio::time::timeout(soon, compartment.acquire_connection(Arc::clone(&all)))
                .await
                .is_err()
        };
        assert!(waits(&one).await);
        let _others = other.acquire_connection(Arc::clone(&all)).await.unwrap();
        assert!(waits(&other).await, "the process has no more");
        assert!(
            waits(&one.with_limits(limited(1))).await,
            "what is open stays counted when limits change"
        );
        let waiting = Arc::clone(&one);
        let waiting = tokio::spawn({
            let all = Arc::clone(&all);
            async move { waiting.acquire_connection(all).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(connection);
        assert!(tokio::time::timeout(Duration::from_secs(15), waiting).await.unwrap().unwrap());
    }
}
