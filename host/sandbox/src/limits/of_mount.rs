//! Limits that differ between mounts: their defaults, and their ceilings.

use super::fixed::{
    BACKGROUND_SLOTS, BEFORE_EFFECT, CACHES_BYTES, EFFECT_MARGIN, HELD_BYTES_OF_MOUNT,
    HOST_CALL_FUEL_BYTES, INSTANCES, MEMORY_CEILING_BYTES,
};
use bulkhead_outbound::limits::{CONNECTIONS, EFFECT_TIME};
use bulkhead_wire::call_limits::CallLimits;
use std::time::Duration;

/// The limits of a mount and its calls that grants may set. All mounts have the same defaults. The
/// ceilings are the maximum that any mount can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLimits {
    /// Maximum time of a call, if shorter than the time of its route or of the server; `None`: only
    /// their times apply.
    pub deadline: Option<Duration>,
    /// Maximum time that a call may compute. No grant sets this limit: core limits a version on
    /// probation, so that a version that loops is found before the deadline of its calls.
    pub computing: Option<Duration>,
    /// Maximum bytes of all linear memories of a call's instance, together.
    pub memory_bytes: usize,
    /// Maximum number of host calls of a call.
    pub host_calls: u32,
    /// Maximum bytes that the host holds for a call: buffered writes, remembered reads and listings
    /// with their places in memory, and log lines.
    pub host_bytes: usize,
    /// Maximum bytes of an answer.
    pub answer_bytes: usize,
    /// Maximum number of component handles that a call holds.
    pub handles: usize,
    /// Maximum bytes that a call writes, keys and values together.
    pub storage_bytes: usize,
    /// Maximum bytes of a call's log text.
    pub log_bytes: usize,
    /// Maximum number of HTTP requests of a call.
    pub http_calls: u32,
    /// Maximum bytes that the HTTP requests of a call send and receive.
    pub http_bytes: usize,
    /// Maximum number of open outbound connections of a mount, for HTTP and LDAP.
    pub connections: u32,
    /// Maximum number of instance slots that the running requests of a mount hold.
    pub concurrency: u32,
    /// Rate limit of a mount, in requests per second; `None`: no limit.
    pub rate: Option<u32>,
    /// Maximum bytes of a mount's cache.
    pub cache_bytes: usize,
    /// Maximum bytes that a mount stores: its data, leases, reservations and timers.
    pub stored_bytes: u64,
}

impl MountLimits {
    /// Minimum time of a call that changes something outside. An effect begins only with its whole
    /// time left, so a call with less time could never create or revoke a credential.
    pub const LEAST_EFFECTFUL: Duration = EFFECT_TIME.saturating_add(BEFORE_EFFECT);

    /// The maximum that any mount can be granted.
    pub const CEILING: Self = Self {
        deadline: Some(Duration::from_secs(3_600)),
        computing: None,
        memory_bytes: MEMORY_CEILING_BYTES,
        host_calls: 1_000_000,
        host_bytes: 256 << 20,
        // less than the fuel of a single crossing
        answer_bytes: 7 << 20,
        handles: 10_000,
        storage_bytes: 64 << 20,
        log_bytes: 1 << 20,
        http_calls: 1_000,
        http_bytes: 64 << 20,
        connections: 256,
        concurrency: 448,
        rate: Some(1_000_000),
        cache_bytes: 64 << 20,
        stored_bytes: 1 << 40,
    };

    /// Returns the limits that a component is told, so that its loops end before them.
    #[must_use]
    pub const fn of_call(&self) -> CallLimits {
        CallLimits {
            host_calls: self.host_calls,
            http_calls: self.http_calls,
            http_bytes: self.http_bytes,
            storage_bytes: self.storage_bytes,
        }
    }
}

impl Default for MountLimits {
    fn default() -> Self {
        let CallLimits { host_calls, http_calls, http_bytes, storage_bytes } = CallLimits::DEFAULT;
        Self {
            deadline: None,
            computing: None,
            memory_bytes: 64 << 20,
            host_calls,
            host_bytes: 64 << 20,
            answer_bytes: 4 << 20,
            handles: 1_000,
            storage_bytes,
            log_bytes: 64 << 10,
            http_calls,
            http_bytes,
            connections: 16,
            concurrency: 256,
            rate: None,
            cache_bytes: 4 << 20,
            stored_bytes: 1 << 30,
        }
    }
}

/// Bounds on the reuse of a mount's instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseBounds {
    /// Maximum number of calls that an instance serves.
    pub calls: u32,
    /// Maximum age of an instance when a call enters it. An idle instance is dropped at this age.
    pub age: Duration,
    /// Maximum number of idle instances.
    pub idle: usize,
}

impl Default for ReuseBounds {
    fn default() -> Self {
        Self { calls: 1_000, age: Duration::from_secs(60), idle: 32 }
    }
}

const _: () = assert!(MountLimits::CEILING.host_bytes <= HELD_BYTES_OF_MOUNT);
const _: () = assert!(MountLimits::CEILING.cache_bytes < CACHES_BYTES);
const _: () = assert!(MountLimits::CEILING.answer_bytes < HOST_CALL_FUEL_BYTES);
const _: () = assert!(MountLimits::CEILING.concurrency + BACKGROUND_SLOTS <= INSTANCES);
const _: () = assert!(BEFORE_EFFECT.as_secs() > EFFECT_MARGIN.as_secs());
const _: () = assert!(MountLimits::CEILING.connections as usize <= CONNECTIONS);
