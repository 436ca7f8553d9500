//! The rows of the table `progress`: the commits of other nodes that a node has read, and
//! the proofs of the nodes.
//!
//! This file prevents an answer that promises more than holds: a change is in force everywhere only
//! once every living node has read the change, or answers nothing from memory. It also prevents
//! reads that wait for slow commits: the progress does not wait for the flush, because a lost row
//! only lets writers wait longer. The proof of a node has a row of its own, whose lock the progress
//! would otherwise wait for, and a connection of its own.
//!
//! No row is the row of the node in `node`: a commit of the node would conflict with it.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::change_watch::StartedProof;
use crate::foreign_changes::KnownCommits;
use bulkhead_place::write_proof::{MOST_PROOF_TIME, OtherNode, QUICK_PROOF_TIME};
use bulkhead_record::fault::StoreFault;
use bulkhead_wire::hexadecimal;

use super::connections::PostgresDatabase;
use super::held_claim::HeldClaim;
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

/// The columns of the table. `seen` has a line for each node: the name of its row, a space, and the
/// number of its last commit whose changes were read. In the row of a proof, `seen` is the proof
/// time in milliseconds, the holder of the claim in hexadecimal digits, and the number of the proof
/// of this process.
pub(super) const PROGRESS_COLUMNS: &str = "name text COLLATE \"C\" NOT NULL PRIMARY KEY,
             seen text NOT NULL";
/// End of the name of the row with the proof of a node, after the name of the node's row.
const PROOF_SUFFIX: &str = "/proof";

impl PostgresDatabase {
    /// As [`Database::write_progress`](crate::database::Database::write_progress).
    pub(crate) async fn write_progress(&self, known: &KnownCommits) -> Result<bool, StoreFault> {
        let Some(claim) = self.claim() else { return Ok(false) };
        let rows = self.follower.fetch(writing(&self.tables, claim, known)?).await?;
        Ok(!rows.is_empty())
    }

    /// As [`Database::write_proof`](crate::database::Database::write_proof).
    pub(crate) async fn write_proof(&self, proof: &StartedProof) -> Result<bool, StoreFault> {
        let Some(claim) = self.claim() else { return Ok(false) };
        let rows = self.proofs.fetch(proving(&self.tables, claim, proof)?).await?;
        Ok(!rows.is_empty())
    }

    /// Returns the name of the row with the proof of this process; empty without a claim.
    pub(super) fn proof_row(&self) -> String {
        let claim = self.claim();
        claim.map(|claim| claim.node.row_name() + PROOF_SUFFIX).unwrap_or_default()
    }

    /// Parses the row with the proof of this process. Returns the number of the proof; `None` for a
    /// proof of another process.
    pub(super) fn number_of_proof(&self, row: &str) -> Option<u64> {
        let words: Vec<&str> = row.split(' ').collect();
        let [_, holder, number] = words[..] else { return None };
        let is_own = holder == hexadecimal::text(&self.claim()?.node.holder);
        number.parse().ok().filter(|_| is_own)
    }

    /// As [`Database::other_nodes`](crate::database::Database::other_nodes).
    pub(crate) async fn other_nodes(&self) -> Result<Vec<OtherNode>, StoreFault> {
        let own = self.claim().map(|claim| claim.node.row_name()).unwrap_or_default();
        let TableNames { node, progress, .. } = &self.tables;
        let text = format!(
            "SELECT coalesce(p.seen, '') AS seen, coalesce(proof.seen, '') AS proof_time \
             FROM {node} AS n LEFT JOIN {progress} AS p ON p.name = n.name \
             LEFT JOIN {progress} AS proof ON proof.name = n.name || '{PROOF_SUFFIX}' \
             WHERE n.shares AND n.holder IS NOT NULL AND n.name <> $1"
        );
        let rows = self.follower.fetch(StatementDraft::of(text).with(own.as_str())?).await?;
        let nodes: Result<Vec<OtherNode>, PostgresError> =
            rows.iter().map(|row| parse_node(row, &own)).collect();
        Ok(nodes?)
    }
}

fn parse_node(row: &PgRow, own: &str) -> Result<OtherNode, PostgresError> {
    let [seen, proof_time]: [String; 2] = [row.try_get("seen")?, row.try_get("proof_time")?];
    let proof_time = match proof_time.split(' ').next().unwrap_or_default() {
        "" => QUICK_PROOF_TIME,
        text => text.parse().map_or(MOST_PROOF_TIME, Duration::from_millis),
    };
    let seen = parse(&seen).get(own).copied().unwrap_or_default();
    Ok(OtherNode { seen, proof_time })
}

/// Returns the statement that stores a proof, if the process has its claim. The statement waits for
/// the flush and for a synchronous standby.
fn proving(
    tables: &TableNames,
    claim: &HeldClaim,
    proof: &StartedProof,
) -> Result<StatementDraft, PostgresError> {
    let text = format!(
        "INSERT INTO {} AS present (name, seen) \
         SELECT n.name || '{PROOF_SUFFIX}', $2 FROM {} AS n WHERE n.name = $1 AND n.holder = $3 \
         ON CONFLICT (name) DO UPDATE SET seen = excluded.seen RETURNING present.name",
        tables.progress, tables.node
    );
    let statement = StatementDraft::of(text).with(claim.node.row_name())?;
    let holder = &claim.node.holder;
    let StartedProof { number, time, .. } = proof;
    let row = format!("{} {} {number}", time.as_millis(), hexadecimal::text(holder));
    statement.with(row)?.with(holder.as_slice())
}

/// Returns the statement that writes what this process has read, if the process has its claim. The
/// row is visible to other sessions at once, and the statement waits for no flush.
fn writing(
    tables: &TableNames,
    claim: &HeldClaim,
    known: &KnownCommits,
) -> Result<StatementDraft, PostgresError> {
    let text = format!(
        "UPDATE {} AS p SET seen = $2 FROM {} AS n \
         WHERE p.name = $1 AND n.name = $1 AND n.holder = $3 \
         RETURNING set_config('synchronous_commit', 'off', true)",
        tables.progress, tables.node
    );
    let followed = known.followed();
    let lines = followed.iter().map(|(name, number)| format!("{name} {number}\n"));
    let statement = StatementDraft::of(text).with(claim.node.row_name())?;
    statement.with(lines.collect::<String>())?.with(claim.node.holder.as_slice())
}

/// Parses `seen`: the numbers of commits by the names of rows.
pub(super) fn parse(seen: &str) -> BTreeMap<&str, i64> {
    let pairs = seen.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}
