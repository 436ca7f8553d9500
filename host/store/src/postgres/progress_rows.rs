//! The rows of the table `progress`: the commits of other nodes that a node has read.
//!
//! This file prevents an answer that promises more than holds: a change is in force everywhere only
//! once every living node has read the change, or answers nothing from memory. The row of a node is
//! also its proof that its database still takes writes: after a failover, the old primary server
//! may answer reads for some time.
//!
//! The row is not the row of the node in `node`: a commit of the node would conflict with it.

use std::collections::BTreeMap;

use sqlx::Row as _;

use crate::foreign_changes::KnownCommits;
use bulkhead_record::fault::StoreFault;

use super::connections::PostgresDatabase;
use super::held_claim::HeldClaim;
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

/// The columns of the table. `seen` has a line for each node: the name of its row, a space, and the
/// number of its last commit whose changes were read.
pub(super) const PROGRESS_COLUMNS: &str = "name text COLLATE \"C\" NOT NULL PRIMARY KEY,
             seen text NOT NULL";

impl PostgresDatabase {
    /// As [`Database::write_progress`](crate::database::Database::write_progress).
    pub(crate) async fn write_progress(&self, known: &KnownCommits) -> Result<bool, StoreFault> {
        let Some(claim) = self.claim() else { return Ok(false) };
        let rows = self.follower.fetch(writing(&self.tables, claim, known)?).await?;
        Ok(!rows.is_empty())
    }

    /// As [`Database::seen_by_all`](crate::database::Database::seen_by_all).
    pub(crate) async fn seen_by_all(&self) -> Result<i64, StoreFault> {
        let own = self.claim().map(|claim| claim.node.row_name()).unwrap_or_default();
        let TableNames { node, progress, .. } = &self.tables;
        let text = format!(
            "SELECT coalesce(p.seen, '') AS seen FROM {node} AS n \
             LEFT JOIN {progress} AS p ON p.name = n.name \
             WHERE n.shares AND n.holder IS NOT NULL AND n.name <> $1"
        );
        let rows = self.follower.fetch(StatementDraft::of(text).with(own.as_str())?).await?;
        let mut least = i64::MAX;
        for row in rows {
            let seen: String = row.try_get("seen").map_err(PostgresError::from)?;
            least = least.min(parse(&seen).get(own.as_str()).copied().unwrap_or_default());
        }
        Ok(least)
    }
}

/// Returns the statement that writes what this process has read, if the process has its claim.
fn writing(
    tables: &TableNames,
    claim: &HeldClaim,
    known: &KnownCommits,
) -> Result<StatementDraft, PostgresError> {
    let text = format!(
        "UPDATE {} AS p SET seen = $2 FROM {} AS n \
         WHERE p.name = $1 AND n.name = $1 AND n.holder = $3 RETURNING p.name",
        tables.progress, tables.node
    );
    let lines = known.numbers.iter().map(|(name, number)| format!("{name} {number}\n"));
    let statement = StatementDraft::of(text).with(claim.node.row_name())?;
    statement.with(lines.collect::<String>())?.with(claim.node.holder.as_slice())
}

/// Parses `seen`: the numbers of commits by the names of rows.
pub(super) fn parse(seen: &str) -> BTreeMap<&str, i64> {
    let pairs = seen.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}
