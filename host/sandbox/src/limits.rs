//! Every limit of a call and of the pool of instances, with its unit in its name and one home.

mod words;

pub use words::LimitLine;

use std::fmt;
use std::time::Duration;

/// How often the epoch moves. A runaway loop is noticed within one tick of its deadline.
pub(crate) const EPOCH_TICK: Duration = Duration::from_millis(5);

/// What a call may compute before it needs a turn at each further tick: a hundred times what a call
/// of ours does.
pub(crate) const COMPUTED_FREELY: Duration = Duration::from_millis(2);
/// How long the calls of a mount need a turn from their start after one of them computed for longer
/// than that.
pub(crate) const COMPUTED_LONG_AGO: Duration = Duration::from_secs(1);

/// Instances that may live at once: the pool's size. Admission is taken below it.
pub(crate) const INSTANCES: u32 = 512;
/// Those of them that requests never take, so that due work always runs.
pub(crate) const WORK_PLACES: u32 = 64;
/// Requests of one mount that may wait for places.
pub(crate) const WAITING_CALLS: usize = 1_024;
/// Bytes of all linear memories of the process together.
pub(crate) const GUEST_MEMORY_BYTES: usize = 2 << 30;
/// A component built by the Rust toolchain is three core instances: main, shim and fix-up.
pub(crate) const CORE_INSTANCES_PER_INSTANCE: u32 = 4;
/// Tables of those core instances together.
pub(crate) const TABLES_PER_INSTANCE: u32 = 3;
/// Entries of one table.
pub(crate) const TABLE_ELEMENTS: usize = 20_000;
/// No linear memory grows above this, whatever a mount is granted. One instruction that fills or
/// copies so much is not interrupted, and takes some forty milliseconds.
pub(crate) const MEMORY_CEILING_BYTES: usize = 256 << 20;
/// Bytes of a dropped instance's memory that are wiped in place instead of given back to the
/// kernel: at least the initial memory of the official components, or every call pays page faults.
pub(crate) const MEMORY_KEPT_RESIDENT_BYTES: usize = 512 << 10;
/// The same for tables.
pub(crate) const TABLE_KEPT_RESIDENT_BYTES: usize = 64 << 10;
/// Host stack of one call.
pub(crate) const HOST_STACK_BYTES: usize = 1 << 20;
/// Part of it that the guest may use.
pub(crate) const GUEST_STACK_BYTES: usize = 512 << 10;
/// Bytes that one crossing from guest to host may make the host allocate.
pub(crate) const HOST_CALL_FUEL_BYTES: usize = 8 << 20;
/// Bytes of memory up to which an instance may serve another call: some times the initial memory of
/// the official components, so that idle instances stay small.
pub(crate) const REUSED_MEMORY_BYTES: usize = 2 << 20;

/// Most bytes of one storage key.
pub(crate) const KEY_BYTES: usize = 512;
/// Most bytes of one stored value.
pub(crate) const VALUE_BYTES: usize = 1 << 20;
/// Most keys of one listing.
pub(crate) const KEYS_PER_LISTING: u32 = 1_000;
/// Most random bytes of one call to `crypto.random`.
pub(crate) const RANDOM_BYTES: u32 = 4_096;
/// What one round of key derivation counts for: some five hundred thousand rounds a call.
pub(crate) const ROUND_BYTES: usize = 128;
/// Pairs of one log line.
pub(crate) const LOG_PAIRS: usize = 32;
/// Bytes of the name of a log event or pair.
pub(crate) const LOG_NAME_BYTES: usize = 64;
/// Bytes of a lane's name.
pub(crate) const LANE_BYTES: usize = 256;
/// Characters of one secret that are told from other text; the rest of a longer one is not looked
/// for.
pub(crate) const SECRET_CHARACTERS: usize = 64 << 10;
/// Runs of characters that the secrets of a call may have together: some thousands of passwords.
pub(crate) const SECRET_RUNS: usize = 262_144;
/// Characters of secrets in a row that are no coincidence: a role may be called like a piece of a
/// password.
pub(crate) const SECRET_STRETCH: usize = 12;
/// Most rounds of one key derivation: some thirty milliseconds.
pub(crate) const DERIVATION_ROUNDS: u32 = 100_000;
/// Rounds that are derived at once: some millisecond. More are derived beside the runtime's
/// workers.
pub(crate) const DERIVATION_ROUNDS_AT_ONCE: u32 = 4_096;
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
/// Longest time that the database itself spends on one statement, and waits for a lock, in
/// milliseconds: shorter than an effect, so that the database gives up before we do and its session
/// stays usable.
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
/// Outbound HTTP connections of the process at a time.
pub(crate) const CONNECTIONS: usize = 256;
/// Longest wait for one of them, or for one of the mount's.
pub(crate) const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that dialling a server may take.
pub(crate) const HTTP_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Bytes of the URL of a request.
pub(crate) const HTTP_URL_BYTES: usize = 8 << 10;
/// Headers of a request.
pub(crate) const HTTP_HEADERS: usize = 64;
/// Bytes of the headers of a request, names and values together.
pub(crate) const HTTP_HEADER_BYTES: usize = 32 << 10;
/// Bytes of the head of an answer. Of headers it has at most the 100 that hyper reads.
pub(crate) const HTTP_ANSWER_HEAD_BYTES: usize = 64 << 10;
/// Bytes of the body of an answer.
pub(crate) const HTTP_ANSWER_BYTES: usize = 4 << 20;
/// Entries of a mount's cache.
pub(crate) const CACHE_ENTRIES: usize = 4_096;
/// What an entry of a cache, or a lead for one, counts for besides its key and value.
pub(crate) const CACHE_ENTRY_BYTES: usize = 128;
/// Longest time that a value is kept in a cache, in seconds.
pub(crate) const CACHE_SECONDS: u32 = 86_400;
/// How long a call waits for a value that another one makes.
pub(crate) const CACHE_LEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of certificates, or of a key, in PEM.
pub(crate) const PEM_BYTES: usize = 64 << 10;

/// A limit of its call that a guest went over: the call is stopped there.
#[derive(Debug)]
pub(crate) struct Exceeded {
    /// As a grant words the limit, without `limit:`.
    pub(crate) word: &'static str,
    /// What it allows, with its unit.
    pub(crate) bound: String,
}

impl Exceeded {
    /// Of a limit that is a count of something.
    pub(crate) fn count(word: &'static str, most: impl fmt::Display) -> Self {
        Self { word, bound: most.to_string() }
    }

    /// Of a limit in bytes.
    pub(crate) fn size(word: &'static str, bytes: usize) -> Self {
        let bound = match bytes {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
            bytes => bytes.to_string(),
        };
        Self { word, bound }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}={}", self.word, self.bound)
    }
}

impl std::error::Error for Exceeded {}

/// The limits of a mount and of its calls that grants may set. The defaults are the same for
/// everybody; the ceilings beside them are those that nobody is granted more than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a call may take where that is shorter than its route or the server says; `None`
    /// leaves it to them.
    pub deadline: Option<Duration>,
    /// Sum of all linear memories of a call's instance.
    pub memory_bytes: usize,
    /// Host calls of a call.
    pub host_calls: u32,
    /// Bytes that the host holds for a call: buffered writes, remembered listings, log lines.
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
    /// Requests of a mount that are served at a time, by the places that admission gives them.
    pub concurrency: u32,
    /// Requests of a mount in a second; `None` is without limit.
    pub rate: Option<u32>,
    /// Bytes that a mount keeps in its cache.
    pub cache_bytes: usize,
}

impl Limits {
    /// What nobody is granted more than.
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

const _: () = assert!(GUEST_STACK_BYTES < HOST_STACK_BYTES);
const _: () = assert!(VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(Limits::CEILING.answer_bytes < HOST_CALL_FUEL_BYTES);
const _: () = assert!(Limits::CEILING.concurrency + WORK_PLACES <= INSTANCES);
const _: () = assert!(QUERY_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(HTTP_ANSWER_BYTES + HTTP_ANSWER_HEAD_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(Limits::CEILING.connections as usize <= CONNECTIONS);
const _: () = assert!(
    (STATEMENT_TIME_MS as u64) < EFFECT_TIME.as_secs() * 1000 && LOCK_TIME_MS < STATEMENT_TIME_MS
);
