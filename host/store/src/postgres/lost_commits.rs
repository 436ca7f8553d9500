//! The finding that the database lost commits which this process has made or read.
//!
//! This file prevents a node that goes on with the memory of a history which the database no longer
//! has: a backup was restored under running nodes, or a standby was promoted without the last
//! commits. Such a node would answer by records that are gone, and its next commits would mix both
//! histories. The node stops for good, because later commits of other nodes would hide the loss.
//!
//! A read may reach an old primary server for a moment, whose commits are older. A loss counts once
//! reads on new connections have shown the loss for a while.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::foreign_changes::{AFTER_ALL, KnownCommits};
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::fault::StoreFault;

use super::connections::{BrokenTransaction, PostgresDatabase};
use super::held_claim::HeldClaim;
use super::node_rows::{self, number_of};
use super::postgres_error::PostgresError;

/// A difference between the database and the commits that this process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HistoryFault {
    /// The database has fewer commits of this process than the process made.
    OwnCommits { found: i64, known: i64 },
    /// The database has fewer commits of another node than this process has read.
    ReadCommits { node: String, found: i64, known: i64 },
    /// Another process opened the data of the node at a commit that this process has read already.
    OtherHistory { node: String, known: i64 },
    /// The own row has no claim, or another one.
    OwnClaim,
}

/// The row of a node in a read of changes.
#[derive(Debug, Default)]
struct ReadRow {
    commits: i64,
    kept: i64,
    holder: Option<Vec<u8>>,
}

/// Returns the first difference between `rows` and the known commits. `own` are the number of the
/// last commit of this process before the read, and the bytes of its claim. The rows of nodes
/// without a claim are missing unless `has_all`.
fn difference(
    rows: &BTreeMap<String, ReadRow>,
    known: &KnownCommits,
    own: (i64, &[u8]),
    has_all: bool,
) -> Option<HistoryFault> {
    let followed = known.followed();
    known.numbers.iter().find_map(|(name, number)| {
        let Some(row) = rows.get(name) else {
            let is_missing = has_all || followed.contains_key(name);
            return is_missing.then(|| fault_of(name, 0, (*number, own.0)));
        };
        if row.commits < if *number == AFTER_ALL { own.0 } else { *number } {
            return Some(fault_of(name, row.commits, (*number, own.0)));
        }
        if *number == AFTER_ALL {
            return (row.holder.as_deref() != Some(own.1)).then_some(HistoryFault::OwnClaim);
        }
        // An opening counts a commit, and forgets the changes up to this commit.
        let is_opened = row.holder.is_some() && row.holder.as_ref() != known.holders.get(name);
        let is_known = row.kept < number.saturating_add(2);
        (is_opened && is_known)
            .then(|| HistoryFault::OtherHistory { node: name.clone(), known: *number })
    })
}

fn fault_of(node: &str, found: i64, (known, own): (i64, i64)) -> HistoryFault {
    match known {
        AFTER_ALL => HistoryFault::OwnCommits { found, known: own },
        known => HistoryFault::ReadCommits { node: node.to_owned(), found, known },
    }
}

impl PostgresDatabase {
    /// Checks that the database has every commit that this process knows. `own` is the number of
    /// the last commit of this process before the read.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if commits are lost. Once the loss is certain, this process has
    /// no claim any more.
    pub(super) async fn check_history(
        &self,
        rows: &[PgRow],
        (known, own): (&KnownCommits, i64),
        has_all: bool,
    ) -> Result<(), StoreFault> {
        let Some(claim) = self.claim().filter(|claim| !claim.watch.is_ended()) else {
            return Ok(());
        };
        let rows = parse(rows)?;
        let fault = difference(&rows, known, (own, &claim.node.holder), has_all);
        let is_certain = self.losses.note(fault.is_some(), steady_milliseconds());
        let Some(fault) = fault else { return Ok(()) };
        let reason = self.describe((claim, is_certain), &fault).await?;
        if is_certain {
            drop(self.failure(BrokenTransaction::Fenced(reason.clone())));
        }
        // The next read may reach another server.
        self.follower.cut();
        Err(self.condition.answer(StoreFault::Unavailable(reason)))
    }

    async fn describe(
        &self,
        (claim, is_certain): (&HeldClaim, bool),
        fault: &HistoryFault,
    ) -> Result<String, PostgresError> {
        let database = self.name();
        let lost = |node: &str, rest: String| {
            format!(
                "{} has {rest} of the node {node}: acknowledged writes are lost, as after a \
                 failover to a standby that was behind, or after the restore of a backup; this \
                 node answers and writes nothing more; bring the lost commits back, or stop every \
                 node, and start and unseal them again to accept the database as found",
                database.display()
            )
        };
        Ok(match fault {
            HistoryFault::OwnCommits { found, known } => {
                claim.node.mark.lost_commits(database, *found, *known)
            }
            HistoryFault::ReadCommits { node, found, known } => {
                lost(node, format!("commit {found}, and this node has read commit {known}"))
            }
            HistoryFault::OtherHistory { node, known } => {
                lost(node, format!("another commit {known} than this node has read"))
            }
            HistoryFault::OwnClaim => {
                let rows = self.follower.fetch(node_rows::all_rows(&self.tables)).await?;
                let rows = node_rows::parse_all(&rows)?.unwrap_or_default();
                if is_certain {
                    claim.note_loss(&rows);
                }
                claim.loss(&rows)
            }
        })
    }
}

fn parse(rows: &[PgRow]) -> Result<BTreeMap<String, ReadRow>, PostgresError> {
    let each = rows.iter().map(|row| {
        let (commits, kept) = (number_of(row)?, row.try_get("kept")?);
        Ok((row.try_get("name")?, ReadRow { commits, kept, holder: row.try_get("holder")? }))
    });
    each.collect()
}

#[cfg(test)]
mod tests;
