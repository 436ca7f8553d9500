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

use bulkhead_wire::attempt_outcomes::AttemptOutcomes;
use std::path::PathBuf;

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

/// The outcomes of the attempts, and their turn.
#[derive(Default)]
pub struct SnapshotWatch {
    /// Held during an attempt: scheduled snapshots take a single place of the store.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The outcomes, by the names of the snapshots.
    pub outcomes: AttemptOutcomes,
}

#[cfg(test)]
mod tests;
