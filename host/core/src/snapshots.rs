//! Scheduled snapshots: the block of the configuration, and the outcome of the last attempts.
//!
//! This file prevents a backup that has failed for weeks without notice: a failing snapshot is a
//! condition of the service's health until the next success.

mod file;
mod folder;
mod name;
mod schedule;
mod steps;

pub(crate) use file::{CompleteSnapshot, UnfinishedSnapshot};
pub(crate) use folder::Retention;
pub use name::SnapshotName;
pub use schedule::SnapshotSchedule;
pub(crate) use steps::{SnapshotSteps, StepState, interrupted};

use bulkhead_wire::sync;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

/// Maximum number of scheduled snapshots of a server.
pub const MAX_SNAPSHOT_BLOCKS: usize = 16;
/// Maximum number of files that a scheduled snapshot retains.
pub const MAX_RETAINED_SNAPSHOTS: u64 = 10_000;

/// A scheduled snapshot.
#[derive(Clone, Debug)]
pub struct ScheduledSnapshot {
    /// Name of the block, and first part of the names of the files.
    pub name: SnapshotName,
    /// Times at which the snapshot is taken.
    pub schedule: SnapshotSchedule,
    /// Directory of the files.
    pub directory: PathBuf,
    /// Number of files that stay; the oldest files beyond the number are deleted. At least 1.
    pub retain: usize,
}

/// The outcome of the last attempts, and the turn of the attempts.
#[derive(Default)]
pub(crate) struct SnapshotWatch {
    /// Held during an attempt: scheduled snapshots take a single place of the store.
    pub(crate) turn: tokio::sync::Mutex<()>,
    failing: Mutex<BTreeSet<String>>,
}

impl SnapshotWatch {
    /// Notes the outcome of an attempt.
    pub(crate) fn note(&self, name: &SnapshotName, is_saved: bool) {
        let mut failing = sync::lock(&self.failing);
        if is_saved {
            failing.remove(name.as_str());
        } else {
            failing.insert(name.as_str().to_owned());
        }
    }

    /// Returns the number of scheduled snapshots whose last attempt failed.
    pub(crate) fn count_failing(&self) -> usize {
        sync::lock(&self.failing).len()
    }
}

#[cfg(test)]
mod tests;
