//! Every limit of a call and of the pool of instances, with its unit in its name and one home.

use std::time::Duration;

/// How often the epoch moves. A runaway loop is noticed within one tick of its deadline.
pub(crate) const EPOCH_TICK: Duration = Duration::from_millis(5);

/// Instances that may live at once: the pool's size. Admission is taken below it.
pub(crate) const INSTANCES: u32 = 512;
/// A component built by the Rust toolchain is three core instances: main, shim and fix-up.
pub(crate) const CORE_INSTANCES_PER_INSTANCE: u32 = 4;
/// Tables of those core instances together.
pub(crate) const TABLES_PER_INSTANCE: u32 = 3;
/// Entries of one table.
pub(crate) const TABLE_ELEMENTS: usize = 20_000;
/// No linear memory grows above this, whatever a mount is granted.
pub(crate) const MEMORY_CEILING_BYTES: usize = 256 << 20;
/// Bytes of a dropped instance's memory that are wiped in place instead of given back to the kernel:
/// at least the initial memory of the official components, or every call pays page faults.
pub(crate) const MEMORY_KEPT_RESIDENT_BYTES: usize = 512 << 10;
/// The same for tables.
pub(crate) const TABLE_KEPT_RESIDENT_BYTES: usize = 64 << 10;
/// Host stack of one call.
pub(crate) const HOST_STACK_BYTES: usize = 1 << 20;
/// Part of it that the guest may use.
pub(crate) const GUEST_STACK_BYTES: usize = 512 << 10;
/// Bytes that one crossing from guest to host may make the host allocate.
pub(crate) const HOST_CALL_FUEL_BYTES: usize = 8 << 20;
/// Component handles a store may hold.
pub(crate) const HANDLES: usize = 1_000;

/// Bytes of memory up to which an instance may serve another call: some times the initial memory of the official
/// components, so that idle instances stay small.
pub(crate) const REUSED_MEMORY_BYTES: usize = 2 << 20;

/// Most bytes of one storage key.
pub(crate) const KEY_BYTES: usize = 512;
/// Most bytes of one stored value.
pub(crate) const VALUE_BYTES: usize = 1 << 20;
/// Most keys of one listing.
pub(crate) const KEYS_PER_LISTING: u32 = 1_000;
/// Most random bytes of one call to `crypto.random`.
pub(crate) const RANDOM_BYTES: u32 = 4_096;
/// Bytes that the host holds for one call: buffered writes, remembered listings, log lines.
pub(crate) const HELD_BYTES: usize = 64 << 20;
/// What one round of key derivation counts for: some five hundred thousand rounds a call.
pub(crate) const ROUND_BYTES: usize = 128;
/// Pairs of one log line.
pub(crate) const LOG_PAIRS: usize = 32;
/// Bytes of a lane's name.
pub(crate) const LANE_BYTES: usize = 256;
/// Characters of one secret that are told from other text; the rest of a longer one is not looked for.
pub(crate) const SECRET_CHARACTERS: usize = 64 << 10;
/// Most rounds of one key derivation: some thirty milliseconds.
pub(crate) const DERIVATION_ROUNDS: u32 = 100_000;
/// Log lines of one call; more is counted and dropped.
pub(crate) const LOG_LINES: u32 = 64;
/// Bytes of one log line, one warning or one failure message; more is cut.
pub(crate) const TEXT_BYTES: usize = 4_096;
/// Warnings of one answer.
pub(crate) const WARNINGS: usize = 32;
/// Rows of one query.
pub(crate) const QUERY_ROWS: usize = 10_000;
/// Bytes of one query's result.
pub(crate) const QUERY_BYTES: usize = 4 << 20;
/// Longest time that one effect may take. It is never begun with less time left in its call.
pub(crate) const EFFECT_TIME: Duration = Duration::from_secs(30);
/// What a call must have left besides the time of an effect that it begins.
pub(crate) const EFFECT_MARGIN: Duration = Duration::from_secs(1);
/// Longest time that the database itself spends on one statement, and waits for a lock, in milliseconds:
/// shorter than an effect, so that the database gives up before we do and its session stays usable.
pub(crate) const STATEMENT_TIME_MS: u32 = 20_000;
/// See [`STATEMENT_TIME_MS`].
pub(crate) const LOCK_TIME_MS: u32 = 15_000;
/// Longest wait for sessions that are lent when the process ends.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);
/// Tries of one transaction that meets conflicts.
pub(crate) const CONFLICT_TRIES: u32 = 6;
/// Most sessions of one connection's pool, whatever its settings ask.
pub(crate) const POOL_SESSIONS: u32 = 64;
/// A pool that nobody used for so long is closed.
pub(crate) const POOL_IDLE: Duration = Duration::from_secs(600);

/// The limits of one call that a mount may narrow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sum of all linear memories of the call's instance.
    pub memory_bytes: usize,
    /// Host calls it may make.
    pub host_calls: u32,
    /// Bytes of its answer.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 64 << 20, host_calls: 100_000, answer_bytes: 4 << 20 }
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

const _: () = assert!(GUEST_STACK_BYTES < HOST_STACK_BYTES);
const _: () = assert!(VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(QUERY_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!((STATEMENT_TIME_MS as u64) < EFFECT_TIME.as_secs() * 1000 && LOCK_TIME_MS < STATEMENT_TIME_MS);
