//! Metrics of the store: commits, reads, the cache, sizes, connections, and the free space of the
//! disk of the data directory.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge, histogram};
use bulkhead_core::Core;
use bulkhead_core::process::ProcessState;
use bulkhead_store::ConnectionUsage;
use rustix::fs::statvfs;

const COMMITS: Registration<0> = counter(
    "bulkhead_store_commits_total",
    [],
    "units of work committed with writes since the service was opened",
    "how many commits share a flush: the quotient with the flushes is the size of a group",
);
const CONFLICTS: Registration<0> = counter(
    "bulkhead_store_conflicts_total",
    [],
    "attempts of units that were refused because a record had changed",
    "do requests contend for the same records",
);
const FLUSHES: Registration<0> = counter(
    "bulkhead_store_flushes_total",
    [],
    "flushes of the database since the service was opened; commits share flushes",
    "how often does the disk flush",
);
const FLUSH_TIME: Registration<0> = histogram(
    "bulkhead_store_flush_duration_seconds",
    [],
    "time of the writes and the flush of a group of commits",
    "is the disk slow",
);
const ROWS: Registration<0> = counter(
    "bulkhead_store_rows_written_total",
    [],
    "rows put and deleted by commits",
    "how much is written",
);
const READS: Registration<0> = counter(
    "bulkhead_store_reads_total",
    [],
    "reads of the database outside of commits",
    "how much does the cache leave to the database",
);
const CACHE_READS: Registration<1> = counter(
    "bulkhead_store_cache_reads_total",
    ["outcome"],
    "reads of single records, by outcome: hit or miss",
    "is the cache large enough",
);
const CACHE_ENTRIES: Registration<0> = gauge(
    "bulkhead_store_cache_entries",
    [],
    "records in the cache, and absences of records",
    "how many records are in the cache",
);
const CACHE_BYTES: Registration<0> = gauge(
    "bulkhead_store_cache_bytes",
    [],
    "bytes of the cache",
    "how much memory does the cache use",
);
const QUEUED: Registration<0> = gauge(
    "bulkhead_store_queued_requests",
    [],
    "requests in the queue of a contended record",
    "do requests wait for each other",
);
const SIZE: Registration<0> = gauge(
    "bulkhead_store_size_bytes",
    [],
    "bytes of the database and its write-ahead log; on PostgreSQL of the records' table and \
     indexes",
    "how large are the data",
);
const LOG_SIZE: Registration<0> = gauge(
    "bulkhead_store_log_bytes",
    [],
    "bytes of the write-ahead log of SQLite",
    "does a long read keep the log from being emptied",
);
const CONNECTIONS: Registration<0> = gauge(
    "bulkhead_store_connections_in_use",
    [],
    "connections to a database server that read at this moment; another connection writes",
    "do reads wait for connections",
);
const MOST_CONNECTIONS: Registration<0> = gauge(
    "bulkhead_store_connections_max",
    [],
    "maximum of the connections that read: max_parallel of the storage",
    "do reads wait for connections",
);
const FREE: Registration<0> = gauge(
    "bulkhead_store_disk_free_bytes",
    [],
    "free bytes on the disk of the data directory, which is a disk of this server also beside \
     PostgreSQL",
    "when is the disk full",
);

const DISK: Registration<0> = gauge(
    "bulkhead_store_disk_size_bytes",
    [],
    "bytes of the disk of the data directory",
    "which part of the disk is free",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-store",
    metrics: &[
        &COMMITS,
        &CONFLICTS,
        &FLUSHES,
        &FLUSH_TIME,
        &ROWS,
        &READS,
        &CACHE_READS,
        &CACHE_ENTRIES,
        &CACHE_BYTES,
        &QUEUED,
        &SIZE,
        &LOG_SIZE,
        &CONNECTIONS,
        &MOST_CONNECTIONS,
        &FREE,
        &DISK,
    ],
};

/// Adds the metrics of the open store.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    let activity = core.store.activity();
    families.add(&COMMITS, [COMMITS.series([], activity.commits)]);
    families.add(&CONFLICTS, [CONFLICTS.series([], activity.conflicts)]);
    families.add(&FLUSHES, [FLUSHES.series([], activity.flushes)]);
    families.add(&FLUSH_TIME, [FLUSH_TIME.series([], activity.flush_time)]);
    families.add(&ROWS, [ROWS.series([], activity.rows_written)]);
    families.add(&READS, [READS.series([], activity.read_queries)]);
    let cache_reads = [("hit", activity.cache_hits), ("miss", activity.cache_misses)];
    let cache_reads = cache_reads.map(|(outcome, count)| CACHE_READS.series([outcome], count));
    families.add(&CACHE_READS, cache_reads);
    families.add(&CACHE_ENTRIES, [CACHE_ENTRIES.series([], activity.cache_entries)]);
    families.add(&CACHE_BYTES, [CACHE_BYTES.series([], activity.cache_bytes)]);
    families.add(&QUEUED, [QUEUED.series([], activity.queued_requests)]);
    // A database server does not tell the size of its log.
    let size = activity.database_bytes.map(|bytes| bytes + activity.log_bytes.unwrap_or_default());
    families.add(&SIZE, size.map(|bytes| SIZE.series([], bytes)));
    families.add(&LOG_SIZE, activity.log_bytes.map(|bytes| LOG_SIZE.series([], bytes)));
    add_connections(activity.connections, families);
}

fn add_connections(usage: Option<ConnectionUsage>, families: &mut MetricFamilies) {
    let Some(ConnectionUsage { in_use, maximum }) = usage else { return };
    families.add(&CONNECTIONS, [CONNECTIONS.series([], in_use)]);
    families.add(&MOST_CONNECTIONS, [MOST_CONNECTIONS.series([], maximum)]);
}

/// Adds the metrics of the disk, which are shown while sealed, too. A value that the system does
/// not give is left out.
pub(super) fn add_disk(process: &ProcessState, families: &mut MetricFamilies) {
    if let Ok(disk) = statvfs(&process.settings.store.directory) {
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        families.add(&FREE, [FREE.series([], bytes(disk.f_bavail))]);
        families.add(&DISK, [DISK.series([], bytes(disk.f_blocks))]);
    }
}
