//! Metrics of the store: commits, size, and the free space of its disk.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_core::Core;
use bulkhead_core::process::ProcessState;
use rustix::fs::statvfs;
use std::fs;
use std::path::Path;

const COMMITS: Registration<0> = counter(
    "bulkhead_store_commits_total",
    [],
    "units of work committed since the service was opened",
    "how many commits share a flush",
);
const FLUSHES: Registration<0> = counter(
    "bulkhead_store_flushes_total",
    [],
    "flushes of the database since the service was opened; commits share flushes",
    "how often does the disk flush",
);
const SIZE: Registration<0> = gauge(
    "bulkhead_store_size_bytes",
    [],
    "bytes of the database and its write-ahead log",
    "how large are the data",
);
const FREE: Registration<0> = gauge(
    "bulkhead_store_disk_free_bytes",
    [],
    "free bytes on the disk of the data",
    "when is the disk full",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-store", metrics: &[&COMMITS, &FLUSHES, &SIZE, &FREE] };

/// Adds the metrics of the open store.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    families.add(&COMMITS, [COMMITS.series([], core.store.commits())]);
    families.add(&FLUSHES, [FLUSHES.series([], core.store.flushes())]);
}

/// Adds the metrics of the disk, which are shown while sealed, too. A value that the system does
/// not give is left out.
pub(super) fn add_disk(process: &ProcessState, families: &mut MetricFamilies) {
    let directory = &process.settings.directory;
    families.add(&SIZE, stored_bytes(directory).map(|bytes| SIZE.series([], bytes)));
    families.add(&FREE, free_bytes(directory).map(|bytes| FREE.series([], bytes)));
}

fn stored_bytes(directory: &Path) -> Option<u64> {
    let size = |name: &str| fs::metadata(directory.join(name)).map(|file| file.len()).ok();
    size("bulkhead.db").map(|size_of_data| size_of_data + size("bulkhead.db-wal").unwrap_or(0))
}

fn free_bytes(directory: &Path) -> Option<u64> {
    let disk = statvfs(directory).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_database_has_no_size() {
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(stored_bytes(Path::new("/nonexistent")), None);
    }
}
