//! Constants that are limits by convention and have no row in `docs/limits.md`, with the reason.

/// Reasons, each with the names of constants. A name that several files use follows the name of the
/// file: `cache.rs: MOST_BYTES`.
pub const INTERNAL: [(&str, &[&str]); 9] = [
    (
        "weight of an operation that counts towards another limit",
        &[
            "fixed.rs: ROW_BYTES",
            "LISTED_KEY_BYTES",
            "ROUND_BYTES",
            "fixed.rs: PASSWORD_BYTES",
            "SIGNATURE_BYTES",
            "SIGNATURE_WORK_BYTES",
            "RSA_KEY_WORK_BYTES",
            "HASH_WORK_SHARE",
            "CACHE_ENTRY_BYTES",
        ],
    ),
    (
        "part of the calculation of another limit",
        &[
            "MAX_SET_WORK",
            "bounds.rs: HASH",
            "DIGEST",
            "FRAME",
            "ESCAPED_PRINTABLE",
            "ESCAPED",
            "BEFORE_EFFECT",
            "HOST_STACK_BYTES",
            "HEADER_LIST_MAX",
        ],
    ),
    (
        "size of a cache: a full cache costs time and refuses nothing",
        &[
            "cache.rs: MOST_BYTES",
            "folders.rs: MOST_FOLDERS",
            "folders.rs: MOST_MOUNTS",
            "stored.rs: MOST_COUNTERS",
            "stored.rs: MOST_RULES",
            "lane_order.rs: MOST_MOUNTS",
            "DOCUMENTS_MAX",
            "PARSED_KEYS",
            "PARSED_TLS_SETTINGS",
            "KNOWN_TARGETS",
            "MAX_CACHED_TOKENS",
            "MAX_SEEN_CLIENTS",
            "MAX_KEPT_BYTES",
            "MEMORY_KEPT_RESIDENT_BYTES",
            "TABLE_KEPT_RESIDENT_BYTES",
            "REUSED_MEMORY_BYTES",
        ],
    ),
    (
        "size of a step of longer work",
        &[
            "committer.rs: MOST_UNITS",
            "committer.rs: MOST_BYTES",
            "committer.rs: MOST_ROWS",
            "statements.rs: MOST_ROWS",
            "LDAP_PAGE",
            "DERIVATION_ROUNDS_AT_ONCE",
        ],
    ),
    (
        "fairness between calls and tasks: nothing is refused",
        &[
            "EPOCH_TICK",
            "UNPERMITTED_CPU_TIME",
            "CPU_HEAVY_WINDOW",
            "MAX_POLL_ROUNDS",
            "MAX_YIELDS",
            "MAX_QUEUED_KEYS",
            "folder.rs: MOST_FOLDERS",
        ],
    ),
    (
        "retries inside of the server, before a caller sees a conflict",
        &["MAX_RECORD_TRIES", "MOST_ATTEMPTS", "MAX_DRAWS", "LOCK_TIMEOUT"],
    ),
    (
        "interval of the server's own checks, and its waits when it stops",
        &["LONGEST_SLEEP", "MAX_SETTLE_CHECKS", "POOL_CLOSE_TIMEOUT", "PAUSE_MAX"],
    ),
    (
        "guard against broken randomness or an unsolvable password policy",
        &["MAX_DISCARDED_BYTES", "MAX_TRIAL_CHARACTERS", "MAX_DRAWN_CHARACTERS"],
    ),
    (
        "length of a text in a message, or of a figure for operators",
        &[
            "MAX_SHOWN_KEY",
            "MAX_SHOWN_CONNECTIONS",
            "MAX_SPREAD_KEY",
            "WORDS_MAX",
            "host_services.rs: MAX_COUNTED_LEASES",
            "pending_plugin.rs: MAX_COUNTED_LEASES",
        ],
    ),
];
