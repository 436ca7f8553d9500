//! Figures of a store's activity since the store was opened, for metrics.
//!
//! Counters are incremented without a lock and without an order between them: a reading may show a
//! commit before the rows of the commit.

use std::sync::atomic::{AtomicU64, Ordering};

use bulkhead_wire::duration_histogram::HistogramReading;

/// The activity of a store since the store was opened, and the present sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreActivity {
    /// Units of work that were committed with writes. Units committed together share a flush.
    pub commits: u64,
    /// Attempts of units that were refused with [`StoreFault::Conflict`](crate::StoreFault):
    /// a record that the unit read has changed, or another request has its turn.
    pub conflicts: u64,
    /// Transactions flushed to disk, each with a group of units.
    pub flushes: u64,
    /// Time of the writing statements and the commit statement of each flushed transaction,
    /// including the flush.
    pub flush_time: HistogramReading,
    /// Rows put and deleted by committed units. A row that several units of a group write counts
    /// once.
    pub rows_written: u64,
    /// Reads of the database outside of the transactions that write.
    pub read_queries: u64,
    /// Reads of single records that the cache answered.
    pub cache_hits: u64,
    /// Reads of single records that the cache did not answer, including reads of kinds that are
    /// never cached.
    pub cache_misses: u64,
    /// Records in the cache, and absences of records.
    pub cache_entries: u64,
    /// Bytes of the cache, including table overhead.
    pub cache_bytes: u64,
    /// Bytes of the database without the write-ahead log; `None` if the size cannot be read.
    pub database_bytes: Option<u64>,
    /// Bytes of the write-ahead log; `None` if the size cannot be read.
    pub log_bytes: Option<u64>,
    /// Use of the reading connections; `None` without a database server.
    pub connections: Option<ConnectionUsage>,
    /// Requests that are in the queue of a contended record at this moment, with those that have
    /// their turn.
    pub queued_requests: u64,
}

/// Use of the connections that read from a database server. Another connection writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Connections that read at this moment.
    pub in_use: u64,
    /// Maximum of such connections. A further read waits.
    pub maximum: u64,
}

/// Sizes of a database, in bytes; `None` if a size cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseSizes {
    pub(crate) database: Option<u64>,
    pub(crate) log: Option<u64>,
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct ActivityCounter(AtomicU64);

impl ActivityCounter {
    /// Adds 1.
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the number.
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of an open store, besides the counters of its database.
#[derive(Default)]
pub(crate) struct ActivityCounters {
    pub(crate) commits: ActivityCounter,
    pub(crate) conflicts: ActivityCounter,
    pub(crate) rows_written: ActivityCounter,
    pub(crate) cache_hits: ActivityCounter,
    pub(crate) cache_misses: ActivityCounter,
}
