//! The health of the open service: conditions under which requests are refused or due work waits,
//! and one log line at the beginning and one at the end of each condition.
//!
//! This file prevents a service that refuses writes, or records less than configured, while
//! monitoring and the log say "well"; and a log that repeats the condition at each health request.

use crate::mounts::MountCondition;
use crate::snapshots::SnapshotWatch;
use bulkhead_access::background::DueWorkSuspension;
use bulkhead_access::log::{Log, LogCause, cause};
use bulkhead_audit::Audit;
use bulkhead_store::{Store, WriteCondition};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::{duration, sync};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Lag of the machine's clock that counts as a condition, in milliseconds. Clock synchronisation
/// corrects a smaller lag in steps.
const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// A condition of the service that monitoring has to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCondition {
    /// An I/O error, or the loss of the database to another node, stopped all writes.
    WritesStopped,
    /// The database did not confirm the claim of this node for too long: all requests are refused.
    DatabaseUnconfirmed,
    /// This node does not read the changes of the other nodes: all requests are refused.
    ChangesUnread,
    /// The disk had no room for the last write.
    DiskFull,
    /// The database server cannot be reached, or accepts no writes.
    WritesRefused,
    /// No audit device works, so that requests are refused.
    AuditStopped,
    /// Some of the audit devices do not work.
    AuditDegraded {
        /// Number of failing devices.
        failing: usize,
        /// Number of all devices.
        devices: usize,
    },
    /// The machine's clock is behind store time.
    ClockBehind {
        /// The lag, in seconds.
        seconds: u64,
    },
    /// The service that keeps the key of the seal would not open the data at a restart.
    SealUnreachable,
    /// The last attempt of scheduled snapshots failed.
    SnapshotFailing {
        /// Number of these scheduled snapshots.
        failing: usize,
    },
    /// No due work runs.
    DueWorkSuspended(DueWorkSuspension),
    /// Some mounts do not serve as usual.
    Mounts {
        /// The condition of these mounts.
        condition: MountCondition,
        /// Number of these mounts.
        mounts: usize,
    },
}

impl HealthCondition {
    /// Returns the code for programs, which never changes.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::WritesStopped => "writes-stopped",
            Self::DatabaseUnconfirmed => "database-unconfirmed",
            Self::ChangesUnread => "changes-unread",
            Self::DiskFull => "disk-full",
            Self::WritesRefused => "writes-refused",
            Self::AuditStopped => "audit-stopped",
            Self::AuditDegraded { .. } => "audit-device-failing",
            Self::ClockBehind { .. } => "clock-behind",
            Self::SealUnreachable => "seal-unreachable",
            Self::SnapshotFailing { .. } => "snapshot-failing",
            Self::DueWorkSuspended(_) => "due-work-suspended",
            Self::Mounts { condition, .. } => condition.health_code(),
        }
    }

    /// Returns the condition and the remedy in a sentence. Callers without a token read the
    /// sentence, so that no sentence holds a path or a name.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::WritesStopped => {
                "all writes stopped, and the log names the reason; check the disk of the data or \
                 the database server, and restart the server, or unseal a sealed server"
                    .to_owned()
            }
            Self::DatabaseUnconfirmed => {
                "requests are refused until the database confirms the claim; check the database"
                    .to_owned()
            }
            Self::ChangesUnread => {
                "requests are refused until this node reads the changes of the other nodes; check \
                 the database and the connection"
                    .to_owned()
            }
            Self::DiskFull => {
                "the disk of the data is full: writes are refused, and reads continue; make room"
                    .to_owned()
            }
            Self::WritesRefused => {
                "the database server cannot be reached or accepts no writes, and writes are \
                 refused; check the server and the connection"
                    .to_owned()
            }
            Self::AuditStopped => {
                "no audit device can be written, and requests are refused; the log names the error"
                    .to_owned()
            }
            Self::AuditDegraded { failing, devices } => format!(
                "{failing} of {devices} audit devices cannot be written; the log names device and \
                 error"
            ),
            Self::ClockBehind { seconds } => format!(
                "the clock of the machine is {} behind the time of the data; set the clock",
                duration::show(*seconds)
            ),
            Self::SealUnreachable => {
                "the service that keeps the key of the seal does not open the data at present: \
                 requests work, and after a restart the server would stay sealed; the log names \
                 the error"
                    .to_owned()
            }
            Self::SnapshotFailing { failing } => format!(
                "{failing} scheduled snapshots failed at the last attempt; the log names snapshot \
                 and error"
            ),
            Self::DueWorkSuspended(suspension) => format!(
                "{}: no lease ends and nothing is rotated by itself; {}",
                suspension.reason(),
                suspension.remedy()
            ),
            Self::Mounts { condition, mounts } => {
                let code = condition.code();
                let noun = if *mounts == 1 { "mount is" } else { "mounts are" };
                format!("{mounts} {noun} {code}; sys/mounts and sys/auth name the cause")
            }
        }
    }

    /// Returns whether the node is of no use to clients: a load balancer sends requests elsewhere.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::WritesStopped
                | Self::DatabaseUnconfirmed
                | Self::ChangesUnread
                | Self::AuditStopped
        )
    }

    fn level(&self) -> LogLevel {
        match self {
            _ if self.is_fatal() => LogLevel::Error,
            // The usual state after each swap.
            Self::Mounts { condition: MountCondition::OnProbation, .. } => LogLevel::Info,
            _ => LogLevel::Warn,
        }
    }
}

impl LogCause for HealthCondition {
    fn words(&self) -> String {
        self.message()
    }
}

/// The reported conditions of an open service.
pub struct HealthWatch {
    /// Codes of the conditions in the log that have not ended.
    reported: Mutex<BTreeSet<&'static str>>,
    /// True while the keeper of the seal's key fails.
    seal_fails: AtomicBool,
    log: Arc<dyn Log>,
}

impl HealthWatch {
    pub(crate) fn new(log: &Arc<dyn Log>) -> Self {
        Self {
            reported: Mutex::default(),
            seal_fails: AtomicBool::new(false),
            log: Arc::clone(log),
        }
    }

    /// Notes whether the keeper of the seal's key fails. The next review reports a change.
    pub(crate) fn note_seal(&self, fails: bool) {
        self.seal_fails.store(fails, Ordering::Relaxed);
    }

    /// Returns the present conditions, with the conditions of other parts that `others` finds, and
    /// logs each condition that began or ended since the last review. Stores nothing.
    pub(crate) fn review<Others: IntoIterator<Item = HealthCondition>>(
        &self,
        store: &Store,
        audit: &Audit,
        snapshots: &SnapshotWatch,
        others: impl FnOnce() -> Others,
    ) -> Vec<HealthCondition> {
        // The lock also orders the look: an older look must not end a condition of a newer look.
        let mut reported = sync::lock(&self.reported);
        let mut conditions = conditions(store, audit, snapshots);
        if self.seal_fails.load(Ordering::Relaxed) {
            conditions.push(HealthCondition::SealUnreachable);
        }
        conditions.extend(others());
        self.report(&mut reported, &conditions);
        conditions
    }

    fn report(&self, reported: &mut BTreeSet<&'static str>, conditions: &[HealthCondition]) {
        for condition in conditions {
            if reported.insert(condition.code()) {
                let pairs = [("code", condition.code().to_owned()), cause(condition)];
                self.log.line(condition.level(), "health-degraded", &pairs);
            }
        }
        reported.retain(|code| {
            let lasts = conditions.iter().any(|condition| condition.code() == *code);
            if !lasts {
                self.log.line(LogLevel::Info, "health-restored", &[("code", (*code).to_owned())]);
            }
            lasts
        });
    }
}

/// Returns the present conditions of store, audit, clock and snapshots, fatal conditions first.
fn conditions(store: &Store, audit: &Audit, snapshots: &SnapshotWatch) -> Vec<HealthCondition> {
    let of_writes = match store.write_condition() {
        WriteCondition::Works => None,
        WriteCondition::DiskFull => Some(HealthCondition::DiskFull),
        WriteCondition::Refused => Some(HealthCondition::WritesRefused),
        WriteCondition::Stopped => Some(HealthCondition::WritesStopped),
    };
    let of_claim = match (store.is_claim_in_doubt(), store.has_unread_changes()) {
        (true, _) => Some(HealthCondition::DatabaseUnconfirmed),
        (false, true) => Some(HealthCondition::ChangesUnread),
        (false, false) => None,
    };
    let of_audit = audit_condition(audit.count_failing(), audit.devices().len());
    let lag = store.clock_lag();
    let of_clock = (lag >= CLOCK_TOLERANCE_MS)
        .then_some(HealthCondition::ClockBehind { seconds: lag / 1_000 });
    let failing = snapshots.outcomes.count_failing();
    let of_snapshots = (failing > 0).then_some(HealthCondition::SnapshotFailing { failing });
    let found = [of_writes, of_claim, of_audit, of_clock, of_snapshots];
    let mut conditions: Vec<_> = found.into_iter().flatten().collect();
    conditions.sort_by_key(|condition| !condition.is_fatal());
    conditions
}

fn audit_condition(failing: usize, devices: usize) -> Option<HealthCondition> {
    match failing {
        0 => None,
        failing if failing >= devices => Some(HealthCondition::AuditStopped),
        failing => Some(HealthCondition::AuditDegraded { failing, devices }),
    }
}

#[cfg(test)]
mod tests;
