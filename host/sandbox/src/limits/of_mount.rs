//! The limits that differ from mount to mount: their defaults, and the most that is granted.

use super::fixed::{
    BACKGROUND_SLOTS, BEFORE_EFFECT, CACHES_BYTES, CONNECTIONS, EFFECT_MARGIN, EFFECT_TIME,
    HELD_BYTES_OF_MOUNT, HOST_CALL_FUEL_BYTES, INSTANCES, MEMORY_CEILING_BYTES,
};
use std::time::Duration;

/// The limits of a mount and of its calls that grants may set. The defaults are the same for
/// all mounts; the ceilings beside them are the most that any mount is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a call may take where that is shorter than its route or the server says; `None`
    /// leaves it to them.
    pub deadline: Option<Duration>,
    /// Sum of all linear memories of a call's instance.
    pub memory_bytes: usize,
    /// Host calls of a call.
    pub host_calls: u32,
    /// Bytes that the host holds for a call: buffered writes, remembered reads and listings with
    /// their places in memory, log lines.
    pub host_bytes: usize,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// Component handles that a call holds.
    pub handles: usize,
    /// Bytes that a call writes, keys and values together.
    pub storage_bytes: usize,
    /// Bytes of log text of a call.
    pub log_bytes: usize,
    /// HTTP requests of a call.
    pub http_calls: u32,
    /// Bytes that the HTTP requests of a call send and receive.
    pub http_bytes: usize,
    /// Outbound HTTP connections of a mount at a time.
    pub connections: u32,
    /// Requests of a mount that are served at a time, by the slots that admission gives them.
    pub concurrency: u32,
    /// Requests of a mount in a second; `None` is without limit.
    pub rate: Option<u32>,
    /// Bytes that a mount keeps in its cache.
    pub cache_bytes: usize,
    /// Bytes that a mount stores: its data, leases, reservations and timers.
    pub stored_bytes: u64,
}

impl Limits {
    /// The shortest time of a call that reaches outside. An effect is begun only with its whole
    /// time left, so that one of a call that has less never happens: no credential would be made,
    /// and none be revoked.
    pub const LEAST_EFFECTFUL: Duration = EFFECT_TIME.saturating_add(BEFORE_EFFECT);

    /// The most that any mount is granted.
    pub const CEILING: Self = Self {
        deadline: Some(Duration::from_secs(3_600)),
        memory_bytes: MEMORY_CEILING_BYTES,
        host_calls: 1_000_000,
        host_bytes: 256 << 20,
        // below what one crossing may hold
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: None,
            memory_bytes: 64 << 20,
            host_calls: 100_000,
            host_bytes: 64 << 20,
            answer_bytes: 4 << 20,
            handles: 1_000,
            storage_bytes: 16 << 20,
            log_bytes: 64 << 10,
            http_calls: 20,
            http_bytes: 8 << 20,
            connections: 16,
            concurrency: 256,
            rate: None,
            cache_bytes: 4 << 20,
            stored_bytes: 1 << 30,
        }
    }
}

/// How far the instances of one mount are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseBounds {
    /// Calls that one instance serves.
    pub calls: u32,
    /// How old an instance may be when a call enters it. An idle one is dropped at that age.
    pub age: Duration,
    /// Idle instances that are kept.
    pub idle: usize,
}

impl Default for ReuseBounds {
    fn default() -> Self {
        Self { calls: 1_000, age: Duration::from_secs(60), idle: 32 }
    }
}

const _: () = assert!(Limits::CEILING.host_bytes <= HELD_BYTES_OF_MOUNT);
const _: () = assert!(Limits::CEILING.cache_bytes < CACHES_BYTES);
const _: () = assert!(Limits::CEILING.answer_bytes < HOST_CALL_FUEL_BYTES);
const _: () = assert!(Limits::CEILING.concurrency + BACKGROUND_SLOTS <= INSTANCES);
const _: () = assert!(BEFORE_EFFECT.as_secs() > EFFECT_MARGIN.as_secs());
const _: () = assert!(Limits::CEILING.connections as usize <= CONNECTIONS);
