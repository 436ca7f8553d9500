//! Replication: a timer for each table fetches the records of the authoritative region.
//!
//! Records are compared by content, because a restored region restarts its indexes.
//!
//! This file prevents a round from failing for ever at a limit of its run (decision F10): a round
//! commits in batches, ends before every limit of the run, and the next round goes on behind the
//! last record.

mod policies;
mod roles;
mod tokens;

#[cfg(test)]
mod tests;

use crate::index::RecordTable;
use crate::region_config::RegionConfig;
use crate::replication_round::{FAILING, ReplicaState, ReplicationRound};
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::{Context, Failure, FailureKind, Host};

/// Key prefix of the timers.
const TIMER: &str = "replicate/";

/// Returns the timer key of a table.
#[must_use]
pub(crate) fn timer_of(table: RecordTable) -> String {
    format!("{TIMER}{}", table.name())
}

/// Returns the table of a timer key.
#[must_use]
pub(crate) fn table_of(key: &str) -> Option<RecordTable> {
    RecordTable::ALL.into_iter().find(|table| timer_of(*table) == key)
}

/// Starts replication by `config`, or stops replication if this region is authoritative. If
/// `is_anew`, forgets the indexes of the previous server.
///
/// # Errors
/// Failures of the store.
pub(crate) fn begin(host: &dyn Host, config: &RegionConfig, is_anew: bool) -> Result<(), Failure> {
    for table in RecordTable::ALL {
        if is_anew {
            host.storage().delete(&ReplicaState::key(table))?;
        }
        if config.is_replica() {
            schedule(host, table, 0)?;
        } else {
            host.clock().cancel(&timer_of(table))?;
        }
    }
    Ok(())
}

fn schedule(host: &dyn Host, table: RecordTable, pause: u64) -> Result<(), Failure> {
    let timer = timer_of(table);
    host.clock().schedule(&timer, host.clock().now().saturating_add(pause), &timer)
}

/// Runs one round. Logs a failure of the authoritative region and retries after the configured
/// pause.
///
/// # Errors
/// Failures of the store; the host then runs the round again.
pub(crate) fn run(
    host: &dyn Host,
    context: &Context,
    table: RecordTable,
    attempt: u32,
) -> Result<(), Failure> {
    let config = RegionConfig::stored(host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let round = ReplicationRound::begin(host, context, &config, table)?;
    round.report_doubt(attempt);
    let done = match table {
        RecordTable::Policies => policies::converge(&round),
        RecordTable::Roles => roles::converge(&round),
        RecordTable::Tokens => tokens::converge(&round),
    };
    match done {
        Ok((progress, listing)) => {
            round.finish(&listing, &progress)?;
            host.metrics().set(&FAILING, table.name(), 0.0);
            schedule(host, table, 0)
        }
        Err(why) if is_remote(&why) => {
            let (label, region) = (table.name(), config.authoritative_region.as_str());
            let pairs = [("table", label), ("region", region), ("error", why.message.as_str())];
            host.log().write(LogLevel::Warn, "replication-failed", &pairs);
            host.metrics().set(&FAILING, label, 1.0);
            schedule(host, table, config.replication_backoff)
        }
        Err(why) => Err(why),
    }
}

/// Returns true if the authoritative region caused the failure. All writes before such a failure
/// are committed batches, so the failure leaves no partial change.
fn is_remote(why: &Failure) -> bool {
    matches!(
        why.kind,
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::PermissionDenied
    )
}
