//! Limits of outbound connections, with units in the names.

use std::time::Duration;

/// Maximum number of rows of a query.
pub const QUERY_ROWS: usize = 10_000;
/// Maximum bytes of a query's result.
pub const QUERY_BYTES: usize = 4 << 20;
/// Maximum bytes of a single message of a database, such as a row.
pub const SQL_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum bytes of all messages that answer a message to a database.
pub const SQL_ANSWER_BYTES: usize = 16 << 20;
/// Maximum number of columns of a result: the maximum of a table in either kind of server.
pub const SQL_COLUMNS: u64 = 4096;
/// Maximum time of an effect. An effect never begins with less time left in its call.
pub const EFFECT_TIME: Duration = Duration::from_secs(30);
/// Maximum time of a statement in the database, in milliseconds: shorter than an effect, so that
/// the database gives up before us and the session stays usable.
pub const STATEMENT_TIME_MS: u32 = 20_000;
/// Maximum time that a statement waits for a lock, in milliseconds; see [`STATEMENT_TIME_MS`].
pub const LOCK_TIME_MS: u32 = 15_000;
/// Maximum time that a transaction of a session waits for the next statement before the database
/// ends the session, in milliseconds. Longer than an effect, so that the database ends only a
/// session whose other end is gone; until then the session keeps its locks.
pub const IDLE_TRANSACTION_TIME_MS: u32 = 45_000;
/// Maximum time that a session of MySQL waits for a statement before the database ends the session,
/// in seconds. MySQL has no limit for transactions alone.
pub const IDLE_SESSION_TIME_SECS: u32 = 120;
/// Time without traffic after which the kernel asks whether the far end of a connection is there.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two of these questions.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of these questions without an answer after which the connection is broken.
pub const KEEPALIVE_PROBES: u32 = 3;
/// Maximum time that sent data may stay unacknowledged before the connection is broken, in
/// milliseconds. Longer than an effect, whose end is decided by its own limit.
pub const UNACKNOWLEDGED_TIME_MS: u32 = 60_000;
/// Maximum wait for lent sessions when the process ends.
pub const POOL_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of tries of a transaction that meets conflicts.
pub const CONFLICT_TRIES: u32 = 6;
/// Maximum number of sessions of a connection's pool, even if its settings ask for more.
pub const POOL_SESSIONS: u32 = 64;
/// Idle time after which a pool is closed.
pub const POOL_IDLE: Duration = Duration::from_secs(600);
/// Maximum time until a proxy answers a request to connect.
pub const PROXY_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Maximum bytes of the head of the proxy's answer.
pub const PROXY_ANSWER_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of outbound HTTP and LDAP connections of the process at a time.
pub const CONNECTIONS: usize = 256;
/// Maximum wait for a connection of the process or of the mount.
pub const CONNECTION_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to dial a server.
pub const HTTP_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum number of idle outbound HTTP connections of the process.
pub const IDLE_CONNECTIONS: usize = 64;
/// Maximum number of idle outbound HTTP connections of a mount.
pub const IDLE_CONNECTIONS_OF_MOUNT: usize = 16;
/// Maximum idle time of a connection.
pub const CONNECTION_IDLE_TIME: Duration = Duration::from_secs(10);
/// Maximum age of an idle connection.
pub const CONNECTION_MAX_AGE: Duration = Duration::from_secs(60);
/// Maximum number of parsed TLS settings, for all mounts: the settings of an authority or two for
/// each mount.
pub const PARSED_TLS_SETTINGS: usize = 128;
/// Maximum bytes of the URL of a request.
pub const HTTP_URL_BYTES: usize = 8 << 10;
/// Maximum number of headers of a request.
pub const HTTP_HEADERS: usize = 64;
/// Maximum bytes of the headers of a request, names and values together.
pub const HTTP_HEADER_BYTES: usize = 32 << 10;
/// Maximum bytes of the head of an answer. hyper reads at most 100 headers.
pub const HTTP_ANSWER_HEAD_BYTES: usize = 64 << 10;
/// Maximum bytes of the body of an answer.
pub const HTTP_ANSWER_BYTES: usize = 4 << 20;
/// Maximum bytes of a single message of a directory.
pub const LDAP_MESSAGE_BYTES: usize = 1 << 20;
/// Maximum bytes of all messages that answer a request to a directory.
pub const LDAP_ANSWER_BYTES: usize = 8 << 20;
/// Maximum bytes of the entries of a search: names and values, and their places in memory.
pub const LDAP_RESULT_BYTES: usize = 4 << 20;
/// Maximum number of entries of a search.
pub const LDAP_ENTRIES: u32 = 10_000;
/// Number of entries of a search without its own limit.
pub const LDAP_USUAL_ENTRIES: u32 = 1_000;
/// Number of entries that a directory is asked for at a time.
pub const LDAP_PAGE: u32 = 500;
/// Maximum number of pages of a search, so that a server cannot keep a search going with nearly
/// empty pages.
pub const LDAP_PAGES: u32 = 100;
/// Maximum number of servers of a directory.
pub const LDAP_SERVERS: usize = 16;
/// Maximum bytes of a name, of a DN, and of all parts of a filter together.
pub const LDAP_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of idle sessions with directories, for all mounts.
pub const LDAP_IDLE_SESSIONS: usize = 256;
/// Maximum number of idle sessions with the same login.
pub const LDAP_IDLE_OF_LOGIN: usize = 16;
/// Maximum idle time of a session: servers end idle sessions after some minutes.
pub const LDAP_IDLE: Duration = Duration::from_secs(60);
/// Maximum number of servers that a database connection names, in the answer of its plugin.
pub const TARGETS: usize = 64;
/// Maximum bytes of the names of these servers.
pub const TARGETS_BYTES: usize = 4 << 10;
/// Maximum number of connections of a mount with remembered server names.
pub const KNOWN_TARGETS: usize = 1_024;
/// Maximum bytes of a connection's name, which is kept in pools and written to log lines.
pub const CONNECTION_BYTES: usize = 512;
/// Maximum bytes of all texts of a session's target, except the TLS settings: a pool keeps the
/// texts while it is open.
pub const SQL_TARGET_BYTES: usize = 32 << 10;
/// Maximum number of endpoints of a target, which are tried in order.
pub const SQL_ENDPOINTS: usize = 64;
/// Maximum number of open SQL sessions in the pools of all connections together.
pub const SQL_SESSIONS: u32 = 1_024;
/// Maximum wait for sessions that other connections give up.
pub const SESSION_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a value of the environment.
pub const ENVIRONMENT_BYTES: usize = 32 << 10;
/// Maximum wait for a cloud's metadata service, which is on the machine's own link.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of the body of the metadata service's answer.
pub const METADATA_ANSWER_BYTES: usize = 64 << 10;
/// Maximum bytes of certificates or of a key in PEM, and of a file of the pod.
pub const PEM_BYTES: usize = 64 << 10;

const _: () = assert!(POOL_SESSIONS < SQL_SESSIONS);
const _: () = assert!(SQL_MESSAGE_BYTES < SQL_ANSWER_BYTES && QUERY_BYTES < SQL_ANSWER_BYTES);
const _: () = assert!(LDAP_MESSAGE_BYTES < LDAP_ANSWER_BYTES);
const _: () = assert!(
    (STATEMENT_TIME_MS as u64) < EFFECT_TIME.as_secs() * 1000 && LOCK_TIME_MS < STATEMENT_TIME_MS
);
