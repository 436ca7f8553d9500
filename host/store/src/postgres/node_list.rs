//! The list of the nodes with a claim.
//!
//! This file prevents ages that depend on the clock of a machine: the database computes them by its
//! clock, which also decides the ends of claims.

use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_place::node_description::{LivingNode, NodeDescription};
use bulkhead_record::fault::StoreFault;

use super::connections::PostgresDatabase;
use super::node_rows::number_of;
use super::postgres_error::PostgresError;
use super::progress_rows;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

impl PostgresDatabase {
    /// As [`Database::living_nodes`](crate::database::Database::living_nodes).
    pub(crate) async fn living_nodes(&self) -> Result<Vec<LivingNode>, StoreFault> {
        let Some(claim) = self.claim().filter(|claim| claim.shares()) else {
            return Ok(Vec::new());
        };
        let rows = self.readers.fetch(question(&self.tables)).await?;
        let (own, claim_time) = (claim.node.row_name(), claim.node.times.claim);
        let nodes: Result<Vec<FoundNode>, PostgresError> =
            rows.iter().map(|row| parse(row, &own, claim_time)).collect();
        let mut nodes = nodes?;
        count_unread(&mut nodes);
        Ok(nodes.into_iter().map(|found| found.node).collect())
    }
}

/// A row of the list.
struct FoundNode {
    /// Name of the row.
    name: String,
    /// The commits that the node has read, as its row of `progress` has them.
    seen: String,
    node: LivingNode,
}

/// Returns the question about the nodes, the oldest first. Times are in milliseconds.
fn question(tables: &TableNames) -> StatementDraft {
    StatementDraft::of(format!(
        "SELECT n.name, n.commits, coalesce(n.about, '') AS about, \
             CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP - n.since) * 1000 AS bigint) AS age, \
             CAST(EXTRACT(EPOCH FROM n.until - CURRENT_TIMESTAMP) * 1000 AS bigint) AS rest, \
             coalesce(p.seen, '') AS seen \
         FROM {} AS n LEFT JOIN {} AS p ON p.name = n.name \
         WHERE n.shares AND n.holder IS NOT NULL ORDER BY n.since, n.name",
        tables.node, tables.progress
    ))
}

/// Parses a row. Each commit and each renewal set the rest of the claim to `claim_time`.
fn parse(row: &PgRow, own: &str, claim_time: Duration) -> Result<FoundNode, PostgresError> {
    let name: String = row.try_get("name")?;
    let [age, rest] = [row.try_get("age")?, row.try_get("rest")?];
    let node = LivingNode {
        description: NodeDescription::parse(row.try_get("about")?),
        is_self: name == own,
        age: milliseconds(age),
        silence: match rest < 0 {
            true => claim_time + milliseconds(-rest),
            false => claim_time.saturating_sub(milliseconds(rest)),
        },
        last_commit: number_of(row)?,
        unread_commits: 0,
    };
    Ok(FoundNode { seen: row.try_get("seen")?, name, node })
}

/// Returns the duration; zero if a clock was set back.
fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or_default())
}

/// Counts the commits of the other nodes that each node has not read.
fn count_unread(nodes: &mut [FoundNode]) {
    let last: Vec<(String, i64)> =
        nodes.iter().map(|found| (found.name.clone(), found.node.last_commit)).collect();
    for found in nodes {
        let seen = progress_rows::parse(&found.seen);
        let others = last.iter().filter(|(name, _)| *name != found.name);
        let unread = others.map(|(name, last)| {
            let read_commit = seen.get(name.as_str()).copied().unwrap_or_default();
            u64::try_from(last.saturating_sub(read_commit)).unwrap_or_default()
        });
        found.node.unread_commits = unread.sum();
    }
}
