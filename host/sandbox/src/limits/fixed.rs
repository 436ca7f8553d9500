//! Limits that are the same for every mount, with their units in their names.

use std::time::Duration;

/// How often the epoch moves. A runaway loop is noticed within one tick of its deadline.
pub(crate) const EPOCH_TICK: Duration = Duration::from_millis(5);

/// What a call may compute before it needs a permit at each further tick: a hundred times what a
/// call of ours does.
pub(crate) const COMPUTED_FREELY: Duration = Duration::from_millis(2);
/// How long the calls of a mount need a permit from their start after one of them computed for
/// longer than that.
pub(crate) const COMPUTED_LONG_AGO: Duration = Duration::from_secs(1);

/// Instances that may live at once: the pool's size. Admission is taken below it.
pub(crate) const INSTANCES: u32 = 512;
/// Slots of the pool that requests never take, so that due work always runs.
pub(crate) const BACKGROUND_SLOTS: u32 = 64;
/// Requests of one mount that may wait for slots.
pub(crate) const WAITING_CALLS: usize = 1_024;
/// Bytes of all linear memories of the process together.
pub(crate) const GUEST_MEMORY_BYTES: usize = 2 << 30;
/// Bytes that the host holds for the calls of all mounts together: buffered writes, remembered
/// reads, what caches and servers answered.
pub(crate) const HELD_BYTES: usize = 1 << 30;
/// Of those, what the calls of one mount have together: what one call is granted at most.
pub(crate) const HELD_BYTES_OF_MOUNT: usize = 256 << 20;
/// A component built by the Rust toolchain is three core instances: main, shim and fix-up.
pub(crate) const CORE_INSTANCES_PER_INSTANCE: u32 = 4;
/// Tables of those core instances together.
pub(crate) const TABLES_PER_INSTANCE: u32 = 3;
/// Entries of one table.
pub(crate) const TABLE_ELEMENTS: usize = 20_000;
/// No linear memory grows above this, also where a mount is granted more. One instruction that
/// fills or copies so much is not interrupted, and takes some forty milliseconds.
pub(crate) const MEMORY_CEILING_BYTES: usize = 256 << 20;
/// Bytes of a dropped instance's memory that are wiped in place instead of given back to the
/// kernel: at least the initial memory of the official components, or every call pays page faults.
pub(crate) const MEMORY_KEPT_RESIDENT_BYTES: usize = 512 << 10;
/// The same for tables.
pub(crate) const TABLE_KEPT_RESIDENT_BYTES: usize = 64 << 10;
/// Host stack of one call. Untouched pages cost address space only; builds without optimisation
/// need more than 1 MiB.
pub(crate) const HOST_STACK_BYTES: usize = 4 << 20;
/// Part of it that the guest may use.
pub(crate) const GUEST_STACK_BYTES: usize = 512 << 10;
/// Bytes that one crossing from guest to host may make the host allocate.
pub(crate) const HOST_CALL_FUEL_BYTES: usize = 8 << 20;
/// Bytes of memory up to which an instance may serve another call: some times the initial memory of
/// the official components, so that idle instances stay small.
pub(crate) const REUSED_MEMORY_BYTES: usize = 2 << 20;

/// What a remembered read or a buffered write counts for besides its texts: its place in memory,
/// and the uuid of its mount.
pub(crate) const ROW_BYTES: usize = 192;
/// The same for a key of a listing.
pub(crate) const LISTED_KEY_BYTES: usize = 80;
/// Most bytes of one storage key.
pub(crate) const KEY_BYTES: usize = 512;
/// Most bytes of one stored value.
pub(crate) const VALUE_BYTES: usize = 1 << 20;
/// Most bytes of the values of one page of records, behind its first one.
pub(crate) const PAGE_BYTES: usize = 1 << 20;
/// Most keys of one listing.
pub(crate) const KEYS_PER_LISTING: u32 = 1_000;
/// Most random bytes of one call to `crypto.random`.
pub(crate) const RANDOM_BYTES: u32 = 4_096;
/// What one round of key derivation counts for: some five hundred thousand rounds a call.
pub(crate) const ROUND_BYTES: usize = 128;
/// What drawing one password counts for: some sixteen thousand passwords a call.
pub(crate) const PASSWORD_BYTES: usize = 4_096;
/// What one signature of core's counts for: some hundred a call, each of a millisecond or two.
pub(crate) const SIGNATURE_BYTES: usize = 512 << 10;
/// Pairs of one log line.
pub(crate) const LOG_PAIRS: usize = 32;
/// Bytes of the name of a log event or pair.
pub(crate) const LOG_NAME_BYTES: usize = 64;
/// Bytes of a lane's name.
pub(crate) const LANE_BYTES: usize = 256;
/// Characters of one secret that are looked for; the rest of a longer one is not.
pub(crate) const SECRET_CHARACTERS: usize = 16 << 10;
/// Bytes of all secrets of a call: some thousands of passwords. Spelled out they take 200 times as
/// much.
pub(crate) const SECRETS_BYTES: usize = 64 << 10;
/// Most rounds of one key derivation: some thirty milliseconds.
pub(crate) const DERIVATION_ROUNDS: u32 = 100_000;
/// Rounds that are derived at once: some millisecond. More are derived beside the runtime's
/// workers.
pub(crate) const DERIVATION_ROUNDS_AT_ONCE: u32 = 4_096;
/// Public keys that are kept parsed for a mount: those of an identity provider or two.
pub(crate) const PARSED_KEYS: usize = 64;
/// What a signature counts for as work, and a chain of certificates: some hundreds a call.
pub(crate) const SIGNATURE_WORK_BYTES: usize = 256 << 10;
/// What an RSA key of 2,048 bits counts for as work; one of twice as many bits four times that.
pub(crate) const RSA_KEY_WORK_BYTES: usize = 8 << 20;
/// Which part of what a password's hash goes over counts as work: some dozen hashes a call.
pub(crate) const HASH_WORK_SHARE: usize = 8;
/// Log lines of one call; more is counted and dropped.
pub(crate) const LOG_LINES: u32 = 64;
/// Bytes of one log line, one warning or one failure message; more is cut.
pub(crate) const TEXT_BYTES: usize = 4_096;
/// Warnings of one answer.
pub(crate) const WARNINGS: usize = 32;
/// Headers of one reply of plain HTTP, and bytes of all their names and values.
pub(crate) const REPLY_HEADERS: usize = 64;
pub(crate) const REPLY_HEAD_BYTES: usize = 32 << 10;
/// Keys that one parked request may wait for.
pub(crate) const PARK_KEYS: usize = 64;
/// Rows of one query.
pub(crate) const QUERY_ROWS: usize = 10_000;
/// Bytes of one query's result.
pub(crate) const QUERY_BYTES: usize = 4 << 20;
/// Bytes of one message of a database, such as a row.
pub(crate) const SQL_MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of all messages that answer one message to a database.
pub(crate) const SQL_ANSWER_BYTES: usize = 16 << 20;
/// Columns of one result: the most that a table of either kind of server has.
pub(crate) const SQL_COLUMNS: u64 = 4096;
/// Longest time that one effect may take. It is never begun with less time left in its call.
pub(crate) const EFFECT_TIME: Duration = Duration::from_secs(30);
/// What a call must have left besides the time of an effect that it begins.
pub(crate) const EFFECT_MARGIN: Duration = Duration::from_secs(1);
/// What a call of which the whole time is an operator's choice gets at least besides the time of an
/// effect: for the margin, and for what it does before.
pub(crate) const BEFORE_EFFECT: Duration = Duration::from_secs(5);
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
/// Most sessions of one connection's pool, even where its settings ask for more.
pub(crate) const POOL_SESSIONS: u32 = 64;
/// A pool that no call used for so long is closed.
pub(crate) const POOL_IDLE: Duration = Duration::from_secs(600);
/// How long a proxy may take to answer whether it connects.
pub(crate) const PROXY_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of that answer.
pub(crate) const PROXY_ANSWER_HEAD_BYTES: usize = 16 << 10;
/// Outbound HTTP connections of the process at a time.
pub(crate) const CONNECTIONS: usize = 256;
/// Longest wait for one of them, or for one of the mount's.
pub(crate) const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that dialling a server may take.
pub(crate) const HTTP_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Outbound HTTP connections of the process that are kept while nothing uses them, and of a mount.
pub(crate) const KEPT: usize = 64;
pub(crate) const KEPT_OF_MOUNT: usize = 16;
/// How long one is kept after its last answer, and after it was opened.
pub(crate) const KEPT_TIME: Duration = Duration::from_secs(10);
pub(crate) const KEPT_AGE: Duration = Duration::from_secs(60);
/// Settings of TLS that are kept as they were read, of all mounts: those of an authority or two of
/// each.
pub(crate) const READ_TLS_SETTINGS: usize = 128;
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
/// Bytes of one message of a directory.
pub(crate) const LDAP_MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of all messages that answer one request to a directory.
pub(crate) const LDAP_ANSWER_BYTES: usize = 8 << 20;
/// Bytes of the entries that one search finds: names and values, and their places in memory.
pub(crate) const LDAP_RESULT_BYTES: usize = 4 << 20;
/// Entries that one search finds at most.
pub(crate) const LDAP_ENTRIES: u32 = 10_000;
/// Entries that a search finds which says nothing of it.
pub(crate) const LDAP_USUAL_ENTRIES: u32 = 1_000;
/// Entries that a directory is asked for at a time.
pub(crate) const LDAP_PAGE: u32 = 500;
/// Pages of one search: with more of them than entries need, a server would keep it going.
pub(crate) const LDAP_PAGES: u32 = 100;
/// Servers of one directory.
pub(crate) const LDAP_SERVERS: usize = 16;
/// Bytes of a name, of a DN, and of all parts of a filter together.
pub(crate) const LDAP_TEXT_BYTES: usize = 64 << 10;
/// Idle sessions with directories that are kept for later calls, of all mounts.
pub(crate) const LDAP_IDLE_SESSIONS: usize = 256;
/// Those that are logged in as the same.
pub(crate) const LDAP_IDLE_OF_LOGIN: usize = 16;
/// How long an idle one is kept: servers end them after some minutes.
pub(crate) const LDAP_IDLE: Duration = Duration::from_secs(60);
/// Servers that one connection with a database names, in the answer of its plugin.
pub(crate) const TARGETS: usize = 64;
/// Bytes of their names.
pub(crate) const TARGETS_BYTES: usize = 4 << 10;
/// Connections of one mount of which those names are remembered.
pub(crate) const KNOWN_TARGETS: usize = 1_024;
/// Bytes of a connection's name, which pools in memory and lines of the log bear.
pub(crate) const CONNECTION_BYTES: usize = 512;
/// Bytes of all texts of a target with which sessions are opened, but those of TLS: a pool keeps
/// them as long as it is open.
pub(crate) const SQL_TARGET_BYTES: usize = 32 << 10;
/// Endpoints of it, which are tried one after another.
pub(crate) const SQL_ENDPOINTS: usize = 64;
/// SQL sessions that the pools of all connections may have open together.
pub(crate) const SQL_SESSIONS: u32 = 1_024;
/// Longest wait for sessions that other connections give up.
pub(crate) const SESSION_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes in the caches of all mounts together.
pub(crate) const CACHES_BYTES: usize = 256 << 20;
/// Entries of a mount's cache.
pub(crate) const CACHE_ENTRIES: usize = 4_096;
/// What an entry of a cache, or a lead for one, counts for besides its key and value.
pub(crate) const CACHE_ENTRY_BYTES: usize = 128;
/// Longest time that a value is kept in a cache, in seconds.
pub(crate) const CACHE_SECONDS: u32 = 86_400;
/// How long a call waits for a value that another one makes.
pub(crate) const CACHE_LEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of one value of the environment.
pub(crate) const ENVIRONMENT_BYTES: usize = 32 << 10;
/// How long a call waits for a cloud's metadata service, which is of the machine's own link.
pub(crate) const METADATA_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the body of its answer.
pub(crate) const METADATA_ANSWER_BYTES: usize = 64 << 10;
/// Bytes of certificates, or of a key, in PEM; also of a file of the pod.
pub(crate) const PEM_BYTES: usize = 64 << 10;

const _: () = assert!(GUEST_STACK_BYTES < HOST_STACK_BYTES);
const _: () = assert!(HELD_BYTES_OF_MOUNT < HELD_BYTES);
const _: () = assert!(POOL_SESSIONS < SQL_SESSIONS);
const _: () = assert!(VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(PAGE_BYTES + VALUE_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(QUERY_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(SQL_MESSAGE_BYTES < SQL_ANSWER_BYTES && QUERY_BYTES < SQL_ANSWER_BYTES);
const _: () = assert!(LDAP_RESULT_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(LDAP_MESSAGE_BYTES < LDAP_ANSWER_BYTES);
const _: () = assert!(HTTP_ANSWER_BYTES + HTTP_ANSWER_HEAD_BYTES < HOST_CALL_FUEL_BYTES);
const _: () = assert!(
    (STATEMENT_TIME_MS as u64) < EFFECT_TIME.as_secs() * 1000 && LOCK_TIME_MS < STATEMENT_TIME_MS
);
