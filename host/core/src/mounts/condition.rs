//! The condition of a mount that does not serve as usual, for operators and monitoring.
//!
//! This file prevents a mount that rests, waits or serves another version than chosen from looking
//! like any other mount.

use super::breaker::RestReading;
use super::mount::Mount;
use super::table::{MountTable, Mounts};
use super::unavailable::UnavailableMount;
use super::version::RollbackRecord;
use bulkhead_access::timestamp::timestamp;
use bulkhead_wire::name::MountPath;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A condition in which a mount does not serve as usual, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountCondition {
    /// A migration stopped between two schemas, and every request is refused. Graver than a missing
    /// component: after the return of the component, the migration must still be finished.
    MigrationUnfinished,
    /// The component is missing or cannot be loaded, and every request is refused.
    Unavailable,
    /// The component crashed too often in a row, and calls are refused for a while.
    Resting,
    /// The version crashed within its probation, and the version before could not serve again.
    RollbackFailed,
    /// The version before serves again, because the chosen version crashed within its probation.
    RolledBack,
    /// Crashes of the version bring the version before back.
    OnProbation,
}

impl MountCondition {
    /// Returns the code for programs, the `status` of the API, which never changes.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.health_code().trim_start_matches("mounts-")
    }

    /// Returns the code of `sys/health` for mounts in this condition.
    #[must_use]
    pub fn health_code(self) -> &'static str {
        match self {
            Self::Unavailable => "mounts-unavailable",
            Self::MigrationUnfinished => "mounts-migration-unfinished",
            Self::Resting => "mounts-resting",
            Self::RollbackFailed => "mounts-rollback-failed",
            Self::RolledBack => "mounts-rolled-back",
            Self::OnProbation => "mounts-on-probation",
        }
    }
}

/// A condition in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountStatus {
    /// The condition.
    pub condition: MountCondition,
    /// Begin, in milliseconds of store time; `None` if unknown. After a start of the server, an
    /// unavailable mount is unavailable since that start.
    pub since: Option<u64>,
    /// Cause and remedy.
    pub message: String,
}

impl Mount {
    /// Returns the gravest condition; `None` for a mount that serves as usual.
    #[must_use]
    pub fn condition(&self) -> Option<MountCondition> {
        let record = &self.record;
        if record.has_unfinished_migration() {
            return Some(MountCondition::MigrationUnfinished);
        }
        if self.rest().is_some() {
            return Some(MountCondition::Resting);
        }
        match &record.rollback {
            Some(rollback) => Some(rollback.condition()),
            None => record.before_swap.as_ref().map(|_| MountCondition::OnProbation),
        }
    }

    /// Returns the gravest condition in words at the store time `now`, in milliseconds.
    #[must_use]
    pub fn status(&self, now: u64) -> Option<MountStatus> {
        let record = &self.record;
        let condition = self.condition()?;
        let (since, message) = match condition {
            MountCondition::Resting => rest_words(self.rest()?, now, Instant::now()),
            MountCondition::RolledBack | MountCondition::RollbackFailed => {
                let rollback = record.rollback.as_ref()?;
                (Some(rollback.time), rollback_words(rollback))
            }
            MountCondition::OnProbation => {
                let before = record.before_swap.as_ref()?;
                let (until, version) = (time_words(before.until), version_words(&before.version));
                (None, format!("on probation until {until}; crashes bring {version} back"))
            }
            MountCondition::Unavailable | MountCondition::MigrationUnfinished => {
                (None, "the data of the mount are being migrated".to_owned())
            }
        };
        Some(MountStatus { condition, since, message })
    }
}

impl RollbackRecord {
    /// Returns the condition of a mount with this rollback and no graver condition.
    #[must_use]
    pub fn condition(&self) -> MountCondition {
        match self.is_done {
            true => MountCondition::RolledBack,
            false => MountCondition::RollbackFailed,
        }
    }
}

impl UnavailableMount {
    /// Returns the gravest condition.
    #[must_use]
    pub fn condition(&self) -> MountCondition {
        match self.record.has_unfinished_migration() {
            true => MountCondition::MigrationUnfinished,
            false => MountCondition::Unavailable,
        }
    }

    /// Returns the condition in words at the store time `now`, in milliseconds.
    #[must_use]
    pub fn status(&self, now: u64) -> MountStatus {
        let since = Some(before(now, self.since.elapsed()));
        MountStatus { condition: self.condition(), since, message: self.why.clone() }
    }
}

impl Mounts {
    /// Returns the condition of each mount that does not serve as usual, in the order of paths of
    /// the available and then of the unavailable mounts.
    pub fn conditions(&self) -> Vec<(MountPath, MountCondition)> {
        let table = self.read();
        let found = conditions(&table).map(|(path, condition)| (path.clone(), condition));
        found.collect()
    }

    /// Returns the number of mounts in each condition.
    pub fn count_conditions(&self) -> BTreeMap<MountCondition, usize> {
        let mut counts = BTreeMap::new();
        for (_, condition) in conditions(&self.read()) {
            *counts.entry(condition).or_insert(0) += 1;
        }
        counts
    }
}

/// Returns the conditions of available, and then of unavailable mounts.
fn conditions(table: &MountTable) -> impl Iterator<Item = (&MountPath, MountCondition)> {
    let available = table.by_path.values();
    let available = available.filter_map(|mount| Some((&mount.record.path, mount.condition()?)));
    let unavailable = table.unavailable.values();
    available.chain(unavailable.map(|mount| (&mount.record.path, mount.condition())))
}

fn rest_words(rest: RestReading, now: u64, present: Instant) -> (Option<u64>, String) {
    let RestReading { crashes, began, until } = rest;
    let left = until.saturating_duration_since(present);
    let next = match left.is_zero() {
        true => "the next call tries the component".to_owned(),
        false => format!("calls are refused for another {} s", left.as_secs().saturating_add(1)),
    };
    let message = format!("the component crashed {crashes} times in a row; {next}");
    (Some(before(now, present.saturating_duration_since(began))), message)
}

fn rollback_words(rollback: &RollbackRecord) -> String {
    let (from, to) = (version_words(&rollback.from), version_words(&rollback.to));
    match rollback.is_done {
        true => format!("{to} serves instead of {from}: {}", rollback.reason),
        false => format!("{from} serves on, and {to} does not: {}", rollback.reason),
    }
}

fn version_words(version: &str) -> String {
    match version {
        "" => "the version of this server".to_owned(),
        version => format!("version {version}"),
    }
}

fn time_words(milliseconds: u64) -> String {
    timestamp(milliseconds / 1_000).as_str().unwrap_or_default().to_owned()
}

fn before(now: u64, elapsed: Duration) -> u64 {
    now.saturating_sub(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
