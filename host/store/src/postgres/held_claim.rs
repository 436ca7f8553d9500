//! The claim of this process in the row of its node, and the statements that check, renew and give
//! back the claim.
//!
//! This file prevents writes of a node that others count as dead: the statement that counts a
//! commit also checks and renews the claim, so that a transaction of a node without the claim
//! changes no row of `node`, and is rolled back.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::foreign_changes::ExpiredClaim;
use bulkhead_place::claim_watch::{ClaimWatch, ClaimingNode, NodeSharing};

use super::node_rows::{self, GATE, NodeRow};
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

/// A claim that this process took.
pub(super) struct HeldClaim {
    pub(super) node: ClaimingNode,
    pub(super) watch: ClaimWatch,
    /// The database, for messages.
    database: PathBuf,
    /// Number of the last known commit.
    commits: AtomicI64,
    /// A commit statement was sent whose outcome is not known, so that the database may have more
    /// commits than known.
    is_in_doubt: AtomicBool,
    /// Another node ended the claim because nothing renewed the claim.
    is_ended_as_silent: AtomicBool,
}

impl HeldClaim {
    /// Creates the claim that a transaction took at commit `commits`. The steady clock read `begun`
    /// before the transaction.
    pub(super) fn new(
        database: PathBuf,
        node: ClaimingNode,
        (begun, commits): (u64, i64),
    ) -> HeldClaim {
        let watch = ClaimWatch::new(database.clone(), &node.times, begun);
        HeldClaim {
            node,
            watch,
            database,
            commits: AtomicI64::new(commits),
            is_in_doubt: AtomicBool::new(false),
            is_ended_as_silent: AtomicBool::new(false),
        }
    }

    /// Returns the number of the last known commit.
    pub(super) fn commits(&self) -> i64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Records a commit that was found in the database, once every commit is decided.
    pub(super) fn note_commit(&self, commits: i64) {
        self.commits.fetch_max(commits, Ordering::Relaxed);
        self.is_in_doubt.store(false, Ordering::Relaxed);
    }

    /// Records that a commit statement is sent. The next transaction that is confirmed ends the
    /// doubt; until then, the outcome is not known.
    pub(super) fn begin_doubt(&self) {
        self.is_in_doubt.store(true, Ordering::Relaxed);
    }

    /// Returns whether the outcome of a commit statement is not known.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Relaxed)
    }

    /// Checks the number of commits in the answer of a transaction that counts `own` commits.
    ///
    /// # Errors
    /// The reason, in a sentence, if the database has commits that this process did not make.
    pub(super) fn check_number(&self, number: i64, own: i64) -> Result<(), String> {
        let expected = self.commits().saturating_add(own);
        if number == expected || self.is_in_doubt() {
            return Ok(());
        }
        Err(format!(
            "{} has commit {number}, and this node expected commit {expected}: another process \
             wrote with the claim of this node, as after a machine with its memory was set back to \
             an earlier state; this node answers and writes nothing more; check that a single \
             node uses the database, and unseal or restart this node",
            self.database.display()
        ))
    }

    /// Records a transaction that renewed the claim.
    pub(super) fn confirm(&self, begun: u64, commits: i64) {
        self.note_commit(commits);
        self.watch.confirm(begun);
    }

    /// Returns the statement that renews the claim of an idle node.
    ///
    /// # Errors
    /// The error of the driver for a value that cannot be encoded.
    pub(super) fn renewal(&self, tables: &TableNames) -> Result<StatementDraft, PostgresError> {
        let mut statement = StatementDraft::default();
        let update = self.update(&mut statement, tables, "")?;
        statement.add(&update);
        Ok(statement)
    }

    /// Returns the statement that gives the claim back.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn release(&self, tables: &TableNames) -> Result<StatementDraft, PostgresError> {
        let text = format!("UPDATE {} SET {NO_CLAIM} WHERE name = $1 AND holder = $2", tables.node);
        let statement = StatementDraft::of(text).with(self.node.row_name())?;
        statement.with(self.node.holder.as_slice())
    }

    /// Returns the statement that waits until every transaction of this process that counts a
    /// commit is decided, and returns the number of the last commit.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn lock(&self, tables: &TableNames) -> Result<StatementDraft, PostgresError> {
        let text = format!("SELECT commits FROM {} WHERE name = $1 FOR UPDATE", tables.node);
        StatementDraft::of(text).with(self.node.row_name())
    }

    /// Returns whether another node ended the claim because nothing renewed the claim. The row of
    /// this node is free then.
    pub(super) fn is_ended_as_silent(&self) -> bool {
        self.is_ended_as_silent.load(Ordering::Relaxed)
    }

    /// Returns whether other nodes read the changes of this node.
    pub(super) fn shares(&self) -> bool {
        self.node.sharing == NodeSharing::Shared
    }

    /// Returns the statements that end claims that were not renewed, and count a commit: no commit
    /// of such a node changes a row from then on. The row keeps the end of the claim, and names
    /// this process, for the message of the node.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn ending(
        &self,
        tables: &TableNames,
        silent: &[ExpiredClaim],
    ) -> Result<[StatementDraft; 2], PostgresError> {
        let mut counting = StatementDraft::default();
        let text = self.counting(&mut counting, tables)?;
        counting.add(&text);
        counting.mark_as_count();
        let text = format!(
            "UPDATE {} AS n SET holder = NULL, place = $3, since = CURRENT_TIMESTAMP \
             FROM unnest($1::text[], $2::text[]) AS silent (name, until) \
             WHERE n.name = silent.name AND n.until::text = silent.until AND n.shares",
            tables.node
        );
        let names: Vec<_> = silent.iter().map(|claim| claim.node.clone()).collect();
        let ends: Vec<_> = silent.iter().map(|claim| claim.until.clone()).collect();
        let place = self.node.place.as_str();
        Ok([counting, StatementDraft::of(text).with(names)?.with(ends)?.with(place)?])
    }

    /// Returns the statements that forget the changes of this node up to commit `until`, and count
    /// a commit.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn forgetting(
        &self,
        tables: &TableNames,
        until: i64,
    ) -> Result<[StatementDraft; 2], PostgresError> {
        let mut counting = StatementDraft::default();
        let first = counting.bind(until.saturating_add(1))?;
        let update = self.update(&mut counting, tables, &format!("{COUNT}, kept = {first}, "))?;
        counting.add(&update);
        counting.mark_as_count();
        let text = format!("DELETE FROM {} WHERE name = $1 AND number <= $2", tables.change);
        let forgetting = StatementDraft::of(text).with(self.node.row_name())?.with(until)?;
        Ok([counting, forgetting])
    }

    /// Notes whether another node ended the claim as silent, once the loss is certain.
    pub(super) fn note_loss(&self, rows: &[NodeRow]) {
        let own = rows.iter().find(|row| row.name == self.node.row_name());
        let is_ended =
            own.is_some_and(|own| own.silence.is_some() && own.commits >= self.commits());
        self.is_ended_as_silent.store(is_ended, Ordering::Relaxed);
    }

    /// Returns the reason why no row has the claim, in a sentence. `rows` are the rows of all
    /// nodes.
    pub(super) fn loss(&self, rows: &[NodeRow]) -> String {
        let (database, known) = (self.database.display(), self.commits());
        let own = rows.iter().find(|row| row.name == self.node.row_name());
        if let Some(own) = own.filter(|own| own.commits < known) {
            return self.node.mark.lost_commits(&self.database, own.commits, known);
        }
        if let Some((ended, silence)) = own.and_then(|own| own.silence.map(|it| (own, it))) {
            return self.ended_as_silent(ended, silence);
        }
        match rows.iter().find(|row| row.holder.is_some()) {
            Some(NodeRow { place, since, .. }) => format!(
                "{database} belongs to another node since {since}: {place}; the claim of this node \
                 had expired; this node answers and writes nothing more; stop one of the nodes, \
                 and unseal or restart this node to take part again"
            ),
            None => format!(
                "the claim of this node was removed from {database}, as by a restore of the \
                 tables; this node answers and writes nothing more; check the database, and \
                 unseal or restart this node"
            ),
        }
    }

    /// Returns the reason for the loss of a claim that another node ended as silent, `late` seconds
    /// after the end of the claim.
    fn ended_as_silent(&self, ended: &NodeRow, late: i64) -> String {
        let silence = self.node.times.claim.as_secs().saturating_add_signed(late);
        format!(
            "another node ended the claim of this node on {} at {}, after {silence} s without a \
             sign of life: {}; this node answers and writes nothing more; check that this node \
             reaches the database server at all times; this node opens the data again by itself",
            self.database.display(),
            ended.since,
            ended.place
        )
    }

    /// Returns the text of the statement that counts a commit, and checks and renews the claim.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn counting(
        &self,
        statement: &mut StatementDraft,
        tables: &TableNames,
    ) -> Result<String, PostgresError> {
        self.update(statement, tables, &format!("{COUNT}, "))
    }

    /// Returns the text of the statement that changes the row as long as this process holds the
    /// claim, and returns the name and the number of the last commit. `change` begins the list of
    /// changes.
    fn update(
        &self,
        statement: &mut StatementDraft,
        tables: &TableNames,
        change: &str,
    ) -> Result<String, PostgresError> {
        let name = statement.bind(self.node.row_name())?;
        let holder = statement.bind(self.node.holder.as_slice())?;
        let commits = statement.bind(self.commits())?;
        let (node, until) = (&tables.node, end_of(self.node.times.claim));
        Ok(format!(
            "UPDATE {node} SET {change}until = {until} WHERE name = {name} \
             AND holder = {holder} AND commits >= {commits} RETURNING name, commits"
        ))
    }
}

/// Returns the end of a claim that is taken or renewed now.
fn end_of(claim: Duration) -> String {
    format!("CURRENT_TIMESTAMP + INTERVAL '{} milliseconds'", claim.as_millis())
}

/// The change of a row that ends its claim.
const NO_CLAIM: &str = "holder = NULL, place = NULL, about = NULL, since = NULL, until = NULL";
/// The change of a row that counts a commit.
const COUNT: &str = "commits = commits + 1";

/// Adds the statement that counts a commit, and with a claim checks and renews the claim.
///
/// # Errors
/// As [`HeldClaim::renewal`].
pub(super) fn add_count(
    statement: &mut StatementDraft,
    tables: &TableNames,
    claim: Option<&HeldClaim>,
) -> Result<(), PostgresError> {
    match claim {
        Some(claim) => {
            let counting = claim.counting(statement, tables)?;
            statement.add(&counting);
            statement.mark_as_count();
        }
        None => {
            statement.add(&format!("UPDATE {} SET {COUNT} WHERE name = '{GATE}'", tables.node));
        }
    }
    Ok(())
}

/// Returns the statements that take the claim for `node`, and end the claim of every other node,
/// unless both share the database and the row is not in `namesakes`: a commit of the other node
/// changes no row from then on. The opening counts as a commit, and the last statement returns its
/// number: a directory has a mark from its first opening on. Changes of earlier openings are
/// forgotten: a node that has not read them has a gap.
///
/// # Errors
/// As [`HeldClaim::renewal`].
pub(super) fn taking(
    tables: &TableNames,
    node: &ClaimingNode,
    namesakes: Vec<String>,
) -> Result<[StatementDraft; 4], PostgresError> {
    let (table, until) = (&tables.node, end_of(node.times.claim));
    let name = node.row_name();
    let ending = format!(
        "UPDATE {table} SET {NO_CLAIM} \
         WHERE name <> $1 AND holder IS NOT NULL \
             AND (NOT (shares AND $2) OR name = ANY($3))"
    );
    let taking = format!(
        "INSERT INTO {table} AS present \
             (name, commits, kept, holder, place, shares, about, since, until) \
         VALUES ($1, 1, 2, $2, $3, $4, $5, CURRENT_TIMESTAMP, {until}) \
         ON CONFLICT (name) DO UPDATE SET commits = present.commits + 1, \
             kept = present.commits + 2, shares = excluded.shares, \
             holder = excluded.holder, place = excluded.place, about = excluded.about, \
             since = excluded.since, until = excluded.until \
         RETURNING present.commits"
    );
    let forgetting = format!("DELETE FROM {} WHERE name = $1", tables.change);
    let shares = node.sharing == NodeSharing::Shared;
    let ending = StatementDraft::of(ending).with(name.clone())?.with(shares)?.with(namesakes)?;
    let forgetting = StatementDraft::of(forgetting).with(name.clone())?;
    let taking = StatementDraft::of(taking).with(name)?.with(node.holder.as_slice())?;
    let progress = node_rows::progress_beginning(tables, &node.row_name())?;
    let taking = taking.with(node.place.as_str())?.with(shares)?;
    Ok([ending, forgetting, progress, taking.with(node.description.to_text())?])
}
