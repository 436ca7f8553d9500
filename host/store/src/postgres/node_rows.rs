//! The rows of the table `node`: one for each node that ever opened the store, with the claim of
//! its process and the number of its commits, and one row, the gate, that belongs to no node.
//!
//! This file prevents two nodes that work on the database although one of the two knows nothing of
//! the other: a node takes its claim in a transaction that changes the gate and looks at all rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use bulkhead_place::claim_watch::{ClaimingNode, NodeSharing};
use bulkhead_place::node_description::NodeDescription;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::fault::StoreFault;

use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

/// Name of the row that each opening, copy and exchange of the tables locks.
pub(super) const GATE: &str = "store";

/// The columns of a row besides its name, for the creation of the table. `kept` is the number of
/// the first commit whose changes are stored.
pub(super) const NODE_COLUMNS: &str = "commits bigint NOT NULL,
             kept bigint NOT NULL DEFAULT 0,
             shares boolean NOT NULL DEFAULT false,
             holder bytea,
             place text,
             about text,
             since timestamptz,
             until timestamptz";

/// Returns the statement that inserts the gate.
pub(super) fn gate_insertion(tables: &TableNames) -> String {
    format!("INSERT INTO {} (name, commits) VALUES ('{GATE}', 0)", tables.node)
}

/// Returns the statements that number the commits of each node in `present`, which took the place
/// of the tables `replaced`, after those in the replaced tables: nodes remember their numbers.
pub(super) fn continuation(present: &TableNames, replaced: &TableNames) -> String {
    format!(
        "INSERT INTO {} AS present (name, commits) SELECT name, commits + 1 FROM {} \
         ON CONFLICT (name) DO UPDATE SET commits = greatest(present.commits, excluded.commits); ",
        present.node, replaced.node
    )
}

/// Returns the statement that changes the gate: of two openings at the same time, one waits.
pub(super) fn gate_passage(tables: &TableNames) -> StatementDraft {
    let node = &tables.node;
    StatementDraft::of(format!("UPDATE {node} SET commits = commits + 1 WHERE name = '{GATE}'"))
}

/// Returns the statement that waits until every transaction without a claim is decided.
pub(super) fn gate_lock(tables: &TableNames) -> StatementDraft {
    let node = &tables.node;
    StatementDraft::of(format!("SELECT commits FROM {node} WHERE name = '{GATE}' FOR UPDATE"))
}

/// Returns the condition that the claim of a row has ended by the clock of the database. `row`
/// begins the names of the columns.
pub(super) fn expired(row: &str) -> String {
    format!("{row}holder IS NOT NULL AND {row}until < CURRENT_TIMESTAMP")
}

/// Returns the statement that begins the row of a node in the table of the progress.
///
/// # Errors
/// The error of the driver for a value that cannot be encoded.
pub(super) fn progress_beginning(
    tables: &TableNames,
    name: &str,
) -> Result<StatementDraft, PostgresError> {
    let text = format!(
        "INSERT INTO {} (name, seen) VALUES ($1, '') \
         ON CONFLICT (name) DO UPDATE SET seen = excluded.seen",
        tables.progress
    );
    StatementDraft::of(text).with(name)
}

/// Returns the question about the processes with a claim.
pub(super) fn holders(tables: &TableNames) -> StatementDraft {
    StatementDraft::of(format!("SELECT holder FROM {} WHERE holder IS NOT NULL", tables.node))
}

/// Returns the statement that waits until every transaction of every node is decided, and lets no
/// node commit until the end of the own transaction.
pub(super) fn all_locks(tables: &TableNames) -> StatementDraft {
    StatementDraft::of(format!("SELECT name FROM {} ORDER BY name FOR UPDATE", tables.node))
}

/// Returns the number of a commit from the row of a statement.
///
/// # Errors
/// The error of the driver for a column of another type.
pub(super) fn number_of(row: &PgRow) -> Result<i64, PostgresError> {
    Ok(row.try_get("commits")?)
}

/// The row of a node, as found in the database.
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) commits: i64,
    pub(super) holder: Option<Vec<u8>>,
    /// The process shares the database with other nodes.
    pub(super) shares: bool,
    pub(super) place: String,
    pub(super) about: NodeDescription,
    pub(super) since: String,
    until: String,
    /// By the clock of the database.
    is_live: bool,
    /// Seconds from the end of the claim to the moment `since` at which the process `place` ended
    /// the claim as silent; `None` for any other row.
    pub(super) silence: Option<i64>,
}

/// Returns the question about the rows of all nodes.
pub(super) fn all_rows(tables: &TableNames) -> StatementDraft {
    StatementDraft::of(format!(
        "SELECT name, commits, holder, shares, coalesce(place, '') AS place, \
             coalesce(about, '') AS about, coalesce(since::text, '') AS since, \
             coalesce(until::text, '') AS until, \
             coalesce(until > CURRENT_TIMESTAMP, false) AS is_live, \
             CASE WHEN holder IS NULL AND since > until \
                 THEN extract(epoch FROM since - until)::bigint END AS silence \
         FROM {} ORDER BY name",
        tables.node
    ))
}

/// Parses the answer to [`all_rows`]; `None` without the gate.
///
/// # Errors
/// The error of the driver for a column of another type.
pub(super) fn parse_all(rows: &[PgRow]) -> Result<Option<Vec<NodeRow>>, PostgresError> {
    let mut has_gate = false;
    let mut nodes = Vec::new();
    for row in rows {
        let node = parse(row)?;
        match node.name == GATE {
            true => has_gate = true,
            false => nodes.push(node),
        }
    }
    Ok(has_gate.then_some(nodes))
}

/// Reads the rows of all nodes; `None` without the gate.
///
/// # Errors
/// The error of the database.
pub(super) async fn find(
    connection: &mut PgConnection,
    tables: &TableNames,
) -> Result<Option<Vec<NodeRow>>, PostgresError> {
    parse_all(&all_rows(tables).fetch(connection).await?)
}

fn parse(row: &PgRow) -> Result<NodeRow, PostgresError> {
    Ok(NodeRow {
        name: row.try_get("name")?,
        commits: number_of(row)?,
        holder: row.try_get("holder")?,
        shares: row.try_get("shares")?,
        place: row.try_get("place")?,
        about: NodeDescription::parse(row.try_get("about")?),
        since: row.try_get("since")?,
        until: row.try_get("until")?,
        is_live: row.try_get("is_live")?,
        silence: row.try_get("silence")?,
    })
}

impl NodeRow {
    /// Returns whether another data directory has the name of `node`.
    pub(super) fn has_name_of(&self, node: &ClaimingNode) -> bool {
        self.name != node.row_name() && self.about.is_namesake(&node.description)
    }
}

/// The meaning of the found rows for a node that wants to take its claim.
#[derive(PartialEq, Eq)]
pub(super) enum ClaimVerdict {
    /// The node may take its claim.
    Free,
    /// The claim of another node is neither renewed nor expired so far.
    Pending,
}

/// The looks at the claims of other nodes.
#[derive(Default)]
pub(super) struct ClaimWait {
    /// By node: holder and end of the claim at the first look, and the reading of the steady clock.
    seen: BTreeMap<String, (Option<Vec<u8>>, String, u64)>,
}

impl ClaimWait {
    /// Judges the rows for `node`. The claims of nodes that share the database with `node` and have
    /// other names are left alone. A claim of the same data directory is free, because the lock of
    /// the directory proves that its process is dead. A claim that nobody renews for its whole time
    /// is free, too, whatever the clock of the database says. A claim that expired by the clock of
    /// the database is free after the silence of its times.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds a claim and renews the claim, or if the
    /// database has fewer commits of the node than the node knows of.
    pub(super) fn judge(
        &mut self,
        rows: &[NodeRow],
        (database, node): (&Path, &ClaimingNode),
    ) -> Result<ClaimVerdict, StoreFault> {
        let (name, mark) = (node.row_name(), node.mark.mark());
        let stored = rows.iter().find(|row| row.name == mark.node).map_or(0, |row| row.commits);
        if stored < mark.commits {
            let text = node.mark.lost_commits(database, stored, mark.commits);
            return Err(StoreFault::Refused(text));
        }
        let mut verdict = ClaimVerdict::Free;
        let shares = node.sharing == NodeSharing::Shared;
        let others = rows.iter().filter(|row| row.name != name && row.holder.is_some());
        for other in others {
            let is_companion = shares && other.shares && !other.has_name_of(node);
            if !is_companion && self.judge_other(other, (database, node))? == ClaimVerdict::Pending
            {
                verdict = ClaimVerdict::Pending;
            }
        }
        Ok(verdict)
    }

    fn judge_other(
        &mut self,
        found: &NodeRow,
        (database, node): (&Path, &ClaimingNode),
    ) -> Result<ClaimVerdict, StoreFault> {
        let now = steady_milliseconds();
        let Some((holder, until, since)) = self.seen.get(&found.name) else {
            let look = (found.holder.clone(), found.until.clone(), now);
            self.seen.insert(found.name.clone(), look);
            return Ok(ClaimVerdict::Pending);
        };
        if *holder != found.holder || *until != found.until {
            return Err(StoreFault::Refused(refusal(found, (database, node))));
        }
        let unchanged = Duration::from_millis(now.saturating_sub(*since));
        let limit = match found.is_live {
            true => node.times.claim,
            false => node.times.silence().min(node.times.claim),
        };
        Ok(match unchanged >= limit {
            true => ClaimVerdict::Free,
            false => ClaimVerdict::Pending,
        })
    }
}

/// Returns the reason why `node` cannot work beside `found`, whose claim was renewed.
fn refusal(found: &NodeRow, (database, node): (&Path, &ClaimingNode)) -> String {
    let NodeRow { place, about, since, until, .. } = found;
    let database = database.display();
    if found.has_name_of(node) {
        let NodeDescription { node_id, api_address, .. } = about;
        return format!(
            "the node_id {node_id:?} of this server belongs to another node on {database}: \
             {place}, at {api_address}, since {since}; its claim was renewed and lasts until \
             {until}; nothing was changed; give each node a node_id of its own in storage \
             \"postgresql\", or stop the other node first"
        );
    }
    format!(
        "{database} is in use by another node: {place}, since {since}; its claim was renewed and \
         lasts until {until}; nodes share a database only if each has ha_enabled = \"true\" in \
         storage \"postgresql\"; stop the other node first"
    )
}
