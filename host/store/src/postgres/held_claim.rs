//! The claim of a node in the row of `writer`: its statements, and the judgement of the claim of
//! another node.
//!
//! This file prevents two nodes from writing at the same time: the statement that counts a commit
//! also checks and renews the claim, so that a transaction of a node without the claim changes no
//! row of `writer`, and is rolled back.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use bulkhead_place::claim_watch::{ClaimWatch, ClaimingNode};
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::fault::StoreFault;

use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;

/// Name of the row with the claim. All nodes share one row, so that one node at a time writes.
const ROW: &str = "store";

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

    /// Checks the number of commits in the answer of a transaction that counts `own` commits.
    ///
    /// # Errors
    /// The reason, in a sentence, if the database has commits that this process did not make.
    pub(super) fn check_number(&self, number: i64, own: i64) -> Result<(), String> {
        let expected = self.commits().saturating_add(own);
        if number == expected || self.is_in_doubt.load(Ordering::Relaxed) {
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
        self.add_update(&mut statement, tables, "")?;
        Ok(statement)
    }

    /// Returns the statement that gives the claim back.
    ///
    /// # Errors
    /// As [`HeldClaim::renewal`].
    pub(super) fn release(&self, tables: &TableNames) -> Result<StatementDraft, PostgresError> {
        let text = format!(
            "UPDATE {} SET holder = NULL, node = NULL, place = NULL, since = NULL, until = NULL \
             WHERE name = '{ROW}' AND holder = $1",
            tables.writer
        );
        StatementDraft::of(text).with(self.node.holder.as_slice())
    }

    /// Returns the reason why no row has the claim, in a sentence.
    pub(super) fn loss(&self, found: Option<&FoundClaim>) -> String {
        let (database, known) = (self.database.display(), self.commits());
        match found {
            Some(found) if found.commits < known => {
                self.node.mark.lost_commits(&self.database, found.commits, known)
            }
            Some(FoundClaim { holder: Some(_), place, since, .. }) => format!(
                "{database} belongs to another node since {since}: {place}; the claim of this node \
                 had expired; this node answers and writes nothing more; stop one of the nodes, \
                 and unseal or restart this node to take part again"
            ),
            _ => format!(
                "the claim of this node was removed from {database}, as by a restore of the \
                 tables; this node answers and writes nothing more; check the database, and \
                 unseal or restart this node"
            ),
        }
    }

    /// Adds the statement that changes the row as long as this process holds the claim, and
    /// returns the number of the last commit. `change` begins the list of changes.
    fn add_update(
        &self,
        statement: &mut StatementDraft,
        tables: &TableNames,
        change: &str,
    ) -> Result<(), PostgresError> {
        let holder = statement.bind(self.node.holder.as_slice())?;
        let commits = statement.bind(self.commits())?;
        let (writer, until) = (&tables.writer, end_of(self.node.times.claim));
        statement.add(&format!(
            "UPDATE {writer} SET {change}until = {until} WHERE name = '{ROW}' \
             AND holder = {holder} AND commits >= {commits} RETURNING commits"
        ));
        Ok(())
    }
}

/// Returns the end of a claim that is taken or renewed now.
fn end_of(claim: Duration) -> String {
    format!("CURRENT_TIMESTAMP + INTERVAL '{} milliseconds'", claim.as_millis())
}

/// Adds the statement that counts a commit, and with a claim checks and renews the claim.
///
/// # Errors
/// As [`HeldClaim::renewal`].
pub(super) fn add_count(
    statement: &mut StatementDraft,
    tables: &TableNames,
    claim: Option<&HeldClaim>,
) -> Result<(), PostgresError> {
    const COUNT: &str = "commits = commits + 1";
    match claim {
        Some(claim) => {
            claim.add_update(statement, tables, &format!("{COUNT}, "))?;
            statement.mark_as_count();
        }
        None => {
            statement.add(&format!("UPDATE {} SET {COUNT} WHERE name = '{ROW}'", tables.writer));
        }
    }
    Ok(())
}

/// Returns the columns of the row besides its name, for the creation of the table.
pub(super) const CLAIM_COLUMNS: &str = "commits bigint NOT NULL,
             holder bytea,
             node bytea,
             place text,
             since timestamptz,
             until timestamptz";

/// Returns the statement that inserts the row without a claim.
pub(super) fn insertion(tables: &TableNames) -> String {
    format!("INSERT INTO {} (name, commits) VALUES ('{ROW}', 0)", tables.writer)
}

/// Returns the statement that numbers the commits of other tables after `commits`.
pub(super) fn continuation(tables: &TableNames, commits: i64) -> String {
    let (writer, next) = (&tables.writer, commits.saturating_add(1));
    format!("UPDATE {writer} SET commits = greatest(commits, {next}) WHERE name = '{ROW}'")
}

/// Returns the statement that waits until every transaction that counts a commit is decided, and
/// returns the number of the last commit.
pub(super) fn lock(tables: &TableNames) -> StatementDraft {
    let writer = &tables.writer;
    StatementDraft::of(format!("SELECT commits FROM {writer} WHERE name = '{ROW}' FOR UPDATE"))
}

/// Returns the number of a commit from the row of a statement.
///
/// # Errors
/// The error of the driver for a column of another type.
pub(super) fn number_of(row: &PgRow) -> Result<i64, PostgresError> {
    Ok(row.try_get("commits")?)
}

/// The row of the claim, as found in the database.
pub(super) struct FoundClaim {
    pub(super) commits: i64,
    holder: Option<Vec<u8>>,
    node: Option<Vec<u8>>,
    place: String,
    since: String,
    until: String,
    /// By the clock of the database.
    is_live: bool,
}

/// Reads the row of the claim; `None` without a row. `ending` follows the statement.
///
/// # Errors
/// The error of the database.
pub(super) async fn find(
    connection: &mut PgConnection,
    tables: &TableNames,
    ending: &str,
) -> Result<Option<FoundClaim>, PostgresError> {
    let text = format!(
        "SELECT commits, holder, node, coalesce(place, '') AS place, \
             coalesce(since::text, '') AS since, coalesce(until::text, '') AS until, \
             coalesce(until > CURRENT_TIMESTAMP, false) AS is_live \
         FROM {} WHERE name = '{ROW}'{ending}",
        tables.writer
    );
    let rows = StatementDraft::of(text).fetch(connection).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(FoundClaim {
        commits: number_of(row)?,
        holder: row.try_get("holder")?,
        node: row.try_get("node")?,
        place: row.try_get("place")?,
        since: row.try_get("since")?,
        until: row.try_get("until")?,
        is_live: row.try_get("is_live")?,
    }))
}

/// The meaning of a found claim for a node that wants to take the claim.
pub(super) enum ClaimVerdict {
    /// The node may take the claim.
    Free,
    /// The claim is neither renewed nor expired so far.
    Pending,
}

/// The looks at the claim of another node.
#[derive(Default)]
pub(super) struct ClaimWait {
    /// Holder and end of the claim at the first look, and the reading of the steady clock.
    seen: Option<(Option<Vec<u8>>, String, u64)>,
}

impl ClaimWait {
    /// Judges the claim for `node`. A claim of the same data directory is free, because the lock of
    /// the directory proves that its process is dead. A claim that nobody renews for its whole time
    /// is free, too, whatever the clock of the database says. A claim that expired by the clock of
    /// the database is free after the silence of its times.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds the claim and renews the claim, or if the
    /// database has fewer commits than the node knows of.
    pub(super) fn judge(
        &mut self,
        found: &FoundClaim,
        (database, node): (&Path, &ClaimingNode),
    ) -> Result<ClaimVerdict, StoreFault> {
        let marked = node.mark.commits();
        if found.commits < marked {
            let text = node.mark.lost_commits(database, found.commits, marked);
            return Err(StoreFault::Refused(text));
        }
        let is_own = found.node.is_some() && found.node == node.node;
        if found.holder.is_none() || is_own {
            return Ok(ClaimVerdict::Free);
        }
        let now = steady_milliseconds();
        let Some((holder, until, since)) = &self.seen else {
            self.seen = Some((found.holder.clone(), found.until.clone(), now));
            return Ok(ClaimVerdict::Pending);
        };
        if *holder != found.holder || *until != found.until {
            return Err(StoreFault::Refused(format!(
                "{} is in use by another node: {}, since {}; its claim was renewed and lasts until \
                 {}; a single node at a time works on a database; stop the other node first",
                database.display(),
                found.place,
                found.since,
                found.until
            )));
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

/// Returns the statement that takes the claim for `node`.
///
/// # Errors
/// As [`HeldClaim::renewal`].
pub(super) fn taking(
    tables: &TableNames,
    node: &ClaimingNode,
) -> Result<StatementDraft, PostgresError> {
    let text = format!(
        "UPDATE {} SET holder = $1, node = $2, place = $3, since = CURRENT_TIMESTAMP, \
         until = {} WHERE name = '{ROW}' RETURNING commits",
        tables.writer,
        end_of(node.times.claim)
    );
    let statement = StatementDraft::of(text).with(node.holder.as_slice())?;
    statement.with(node.node.as_deref())?.with(node.place.as_str())
}
