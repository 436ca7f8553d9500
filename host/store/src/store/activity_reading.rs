//! The figures of the store's activity, as metrics ask for them.

#[cfg(test)]
mod tests;

use super::Store;
use crate::activity::StoreActivity;

impl Store {
    /// Returns the activity since the store was opened, and the present sizes. Reads the sizes of
    /// files, and no record.
    pub fn activity(&self) -> StoreActivity {
        let (counters, database) = (&self.data.activity, self.database());
        let (cache_entries, cache_bytes) = self.data.cache.size();
        let sizes = database.sizes();
        StoreActivity {
            commits: counters.commits.read(),
            conflicts: counters.conflicts.read(),
            flushes: database.flushes(),
            flush_time: database.flush_time(),
            rows_written: counters.rows_written.read(),
            read_queries: database.read_queries(),
            cache_hits: counters.cache_hits.read(),
            cache_misses: counters.cache_misses.read(),
            cache_entries,
            cache_bytes,
            database_bytes: sizes.database,
            log_bytes: sizes.log,
            connections: database.connection_usage(),
            queued_requests: self.turns.queued(),
        }
    }

    /// Counts an attempt of a unit that was refused with a conflict.
    pub(crate) fn count_conflict(&self) {
        self.data.activity.conflicts.increment();
    }

    /// Returns the number of commits flushed to disk since the store was opened.
    pub fn flushes(&self) -> u64 {
        self.database().flushes()
    }

    /// Returns the number of units of work committed since the store was opened. Units committed
    /// together share a flush.
    pub fn commits(&self) -> u64 {
        self.data.activity.commits.read()
    }
}
