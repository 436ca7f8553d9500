//! Limits that are the same for every mount, with units in the names.

use bulkhead_outbound::limits::{
    HTTP_ANSWER_BYTES, HTTP_ANSWER_HEAD_BYTES, LDAP_RESULT_BYTES, QUERY_BYTES,
};
use std::time::Duration;

/// Interval of the epoch. A runaway loop is noticed within a tick of its deadline.
pub(crate) const EPOCH_TICK: Duration = Duration::from_millis(5);

/// Time that a call may compute before it needs a permit at each further tick: a hundred times the
/// computing time of an ordinary call.
pub(crate) const UNPERMITTED_CPU_TIME: Duration = Duration::from_millis(2);
/// Time for which the calls of a mount need a permit from their start, after a call of the mount
/// computed for longer than [`UNPERMITTED_CPU_TIME`].
pub(crate) const CPU_HEAVY_WINDOW: Duration = Duration::from_secs(1);

/// Maximum number of live instances: the pool's size. Admission keeps below this number.
pub(crate) const INSTANCES: u32 = 512;
/// Slots of the pool that requests never take, so that due work always runs.
pub(crate) const BACKGROUND_SLOTS: u32 = 64;
/// Maximum number of requests of a mount that wait for slots.
pub(crate) const WAITING_CALLS: usize = 1_024;
/// Maximum bytes of all linear memories of the process together.
pub(crate) const GUEST_MEMORY_BYTES: usize = 2 << 30;
/// Maximum bytes that the host holds for the calls of all mounts together: buffered writes,
/// remembered reads, answers of caches and servers.
pub(crate) const HELD_BYTES: usize = 1 << 30;
/// Maximum bytes of [`HELD_BYTES`] for the calls of a mount together: the highest value that a
/// grant allows a single call.
pub(crate) const HELD_BYTES_OF_MOUNT: usize = 256 << 20;
/// Core instances of a component. The Rust toolchain builds three: main, shim and fix-up.
pub(crate) const CORE_INSTANCES_PER_INSTANCE: u32 = 4;
/// Tables of these core instances together.
pub(crate) const TABLES_PER_INSTANCE: u32 = 3;
/// Maximum number of elements of a table.
pub(crate) const TABLE_ELEMENTS: usize = 20_000;
/// Maximum bytes of a linear memory, also if a mount's grant is higher. A single instruction that
/// fills or copies this much takes about 40 ms and is not interrupted.
pub(crate) const MEMORY_CEILING_BYTES: usize = 256 << 20;
/// Bytes of a dropped instance's memory that are wiped in place instead of returned to the kernel:
/// at least the initial memory of the official components; otherwise every call has page faults.
pub(crate) const MEMORY_KEPT_RESIDENT_BYTES: usize = 512 << 10;
/// Bytes of a dropped instance's tables that are wiped in place.
pub(crate) const TABLE_KEPT_RESIDENT_BYTES: usize = 64 << 10;
/// Host stack of a call, in bytes. Untouched pages cost only address space; builds without
/// optimisation need more than 1 MiB.
pub(crate) const HOST_STACK_BYTES: usize = 4 << 20;
/// Part of the host stack that the guest may use, in bytes.
pub(crate) const GUEST_STACK_BYTES: usize = 512 << 10;
/// Bytes that a single crossing from guest to host may make the host allocate.
pub(crate) const HOST_CALL_FUEL_BYTES: usize = 8 << 20;
/// Maximum bytes of memory of an instance that may serve another call: a small multiple of the
/// initial memory of the official components, so that idle instances stay small.
pub(crate) const REUSED_MEMORY_BYTES: usize = 2 << 20;

/// Bytes that a remembered read or a buffered write counts for, besides its texts: the entry in
/// memory, and the uuid of the mount.
pub(crate) const ROW_BYTES: usize = 192;
/// Bytes that a key of a listing counts for, besides its text.
pub(crate) const LISTED_KEY_BYTES: usize = 80;
/// Maximum bytes of a storage key.
pub(crate) const KEY_BYTES: usize = 512;
/// Maximum bytes of a stored value.
pub(crate) const VALUE_BYTES: usize = 1 << 20;
/// Maximum bytes of the values in a page of records, except the first value.
pub(crate) const PAGE_BYTES: usize = 1 << 20;
/// Maximum number of keys of a listing.
pub(crate) const KEYS_PER_LISTING: u32 = 1_000;
/// Maximum number of random bytes of a call to `crypto.random`.
pub(crate) const RANDOM_BYTES: u32 = 4_096;
/// Bytes that a round of key derivation counts for: allows about 500,000 rounds in a call.
pub(crate) const ROUND_BYTES: usize = 128;
/// Bytes that a generated password counts for: allows about 16,000 passwords in a call.
pub(crate) const PASSWORD_BYTES: usize = 4_096;
/// Bytes that a signature by core counts for: allows about 100 signatures in a call, each of 1 ms
/// to 2 ms.
pub(crate) const SIGNATURE_BYTES: usize = 512 << 10;
/// Maximum number of pairs of a log line.
pub(crate) const LOG_PAIRS: usize = 32;
/// Maximum bytes of the name of a log event or pair.
pub(crate) const LOG_NAME_BYTES: usize = 64;
/// Maximum bytes of a lane's name.
pub(crate) const LANE_BYTES: usize = 256;
/// Characters of a secret that scrubbing looks for; the rest of a longer secret is not hidden.
pub(crate) const SECRET_CHARACTERS: usize = 16 << 10;
/// Maximum bytes of all secrets of a call: several thousand passwords. All spellings together take
/// 300 times as much.
pub(crate) const SECRETS_BYTES: usize = 64 << 10;
/// Maximum number of rounds of a key derivation: about 30 ms.
pub(crate) const DERIVATION_ROUNDS: u32 = 100_000;
/// Maximum number of rounds that are derived on a worker of the runtime: about 1 ms. More rounds
/// are derived beside the workers.
pub(crate) const DERIVATION_ROUNDS_AT_ONCE: u32 = 4_096;
/// Maximum number of parsed public keys of a mount: the keys of an identity provider or two.
pub(crate) const PARSED_KEYS: usize = 64;
/// Bytes of work that a signature, a verified certificate chain or a generated key counts for:
/// allows several hundred in a call.
pub(crate) const SIGNATURE_WORK_BYTES: usize = 256 << 10;
/// Bytes of work that a new RSA key of 2,048 bits counts for; a key of twice the bits counts four
/// times as much.
pub(crate) const RSA_KEY_WORK_BYTES: usize = 8 << 20;
/// Divisor of a password hash's work: allows about a dozen hashes in a call.
pub(crate) const HASH_WORK_SHARE: usize = 8;
/// Maximum number of log lines of a call, including the notice that further lines are dropped.
pub(crate) const LOG_LINES: u32 = 64;
/// Maximum bytes of a log line, a warning or a failure message; the rest is cut.
pub(crate) const TEXT_BYTES: usize = 4_096;
/// Maximum bytes that are stored of the beginning and of the end of a component's standard output,
/// and of its standard error.
pub(crate) const OUTPUT_BYTES: usize = 8 << 10;
/// Maximum number of log lines about one of these streams in a call; an even number.
pub(crate) const OUTPUT_LINES: usize = 32;
/// Maximum number of such log lines of a call and its nested calls.
pub(crate) const OUTPUT_LINES_OF_CALL: u32 = 128;
/// Maximum bytes of such a line; the rest is cut.
pub(crate) const OUTPUT_LINE_BYTES: usize = 1_024;
/// Maximum bytes of the last lines of the standard error in the report of a trap.
pub(crate) const LAST_WORDS_BYTES: usize = 2_048;
/// Maximum bytes of the text of a backtrace before its frames are cut.
pub(crate) const BACKTRACE_BYTES: usize = 16 << 10;
/// Maximum number of frames of a backtrace.
pub(crate) const FRAMES: usize = 32;
/// Maximum bytes of a frame.
pub(crate) const FRAME_BYTES: usize = 160;
/// Maximum number of warnings of an answer.
pub(crate) const WARNINGS: usize = 32;
/// Maximum number of headers of a reply of plain HTTP, and maximum bytes of all their names and
/// values and of its `ext` pairs.
pub(crate) const REPLY_HEADERS: usize = 64;
pub(crate) const REPLY_HEAD_BYTES: usize = 32 << 10;
/// Maximum number of keys that a parked request waits for.
pub(crate) const PARK_KEYS: usize = 64;
/// Time that a call must have left besides the time of an effect.
pub(crate) const EFFECT_MARGIN: Duration = Duration::from_secs(1);
/// Minimum time, besides the time of an effect, of a call if the operator chose the call's whole
/// time: for the margin, and for the work before the effect.
pub(crate) const BEFORE_EFFECT: Duration = Duration::from_secs(5);
/// Maximum bytes in the caches of all mounts together.
pub(crate) const CACHES_BYTES: usize = 256 << 20;
/// Maximum number of entries of a mount's cache.
pub(crate) const CACHE_ENTRIES: usize = 4_096;
/// Bytes that an entry of a cache, or a lead, counts for besides its key and value.
pub(crate) const CACHE_ENTRY_BYTES: usize = 128;
/// Maximum time that a value stays in a cache, in seconds.
pub(crate) const CACHE_SECONDS: u32 = 86_400;
/// Maximum wait of a call for a value that another call makes.
pub(crate) const CACHE_LEAD_TIME: Duration = Duration::from_secs(10);

const _: () = assert!(GUEST_STACK_BYTES < HOST_STACK_BYTES);
const _: () = assert!(HELD_BYTES_OF_MOUNT < HELD_BYTES);
const _: () = assert!(VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(PAGE_BYTES + VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(QUERY_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(LDAP_RESULT_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(HTTP_ANSWER_BYTES + HTTP_ANSWER_HEAD_BYTES < HOST_CALL_FUEL_BYTES);
