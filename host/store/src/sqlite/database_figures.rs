//! The figures of a database: flushes and their times, reads, and the sizes of the files.

use std::fs;
use std::path::Path;

use bulkhead_wire::duration_histogram::HistogramReading;

use super::connections::SqliteDatabase;
use crate::activity::DatabaseSizes;

impl SqliteDatabase {
    /// Returns the number of commits flushed since the database was opened.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.read()
    }

    /// Returns the times of the writes and the flush of the commits.
    pub(crate) fn flush_time(&self) -> HistogramReading {
        self.flush_time.read()
    }

    /// Returns the number of reads of single states so far.
    pub(crate) fn read_queries(&self) -> u64 {
        self.readers.reads()
    }

    /// Returns the sizes of the files. A log that does not exist has 0 bytes.
    pub(crate) fn sizes(&self) -> DatabaseSizes {
        let size = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        let database = size(&self.path);
        let log = database.map(|_| size(Path::new(&log)).unwrap_or_default());
        DatabaseSizes { database, log }
    }
}
