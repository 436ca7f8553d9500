//! The rows of the table `change`: the addresses that a commit of a node put or deleted, for the
//! other nodes of a shared database.
//!
//! This file prevents a commit that other nodes do not learn of: the row is inserted by the
//! statement that counts the commit, with the number of the commit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::foreign_changes::{AFTER_ALL, ExpiredClaim, ForeignChanges, KnownCommits, is_followed};
use bulkhead_place::write_failure::WriteFailure;
use bulkhead_record::committed_state::GroupWrites;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{KEYRING, RESTORED, TIME};
use bulkhead_record::record::{Address, Space};

use super::connections::PostgresDatabase;
use super::node_rows::{self, GATE, number_of};
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::server_clock::{self, CLOCK};
use super::statement_draft::StatementDraft;
use super::stored_text::{decode, encode, number};

/// The columns of the table. `name` is the row of a node, `number` the number of the commit. The
/// node waits until others have read an `awaited` commit.
pub(super) const CHANGE_COLUMNS: &str = "name text COLLATE \"C\" NOT NULL,
             number bigint NOT NULL,
             spaces smallint[] NOT NULL,
             keys text[] NOT NULL,
             awaited boolean NOT NULL,
             PRIMARY KEY (name, number)";

/// Returns the part of a statement that inserts the changes of a commit; `None` if no other node
/// has such records in memory. `counted` is the part with the columns `name` and `commits`.
///
/// # Errors
/// The error of the driver for a value that cannot be encoded.
pub(super) fn insertion(
    statement: &mut StatementDraft,
    (tables, counted): (&TableNames, &str),
    writes: &GroupWrites<'_>,
) -> Result<Option<String>, PostgresError> {
    let put = writes.puts.iter().map(|row| &row.address);
    let written = put.chain(writes.deletes.iter().copied());
    let followed = written.filter(|address| is_followed(address.space));
    let (spaces, keys): (Vec<i16>, Vec<Cow<'_, str>>) =
        followed.map(|address| (number(address.space), encode(&address.key))).unzip();
    if spaces.is_empty() {
        return Ok(None);
    }
    let (spaces, keys) = (statement.bind(spaces)?, statement.bind(keys)?);
    let awaited = statement.bind(writes.is_awaited)?;
    Ok(Some(format!(
        "changed AS (INSERT INTO {} (name, number, spaces, keys, awaited) \
         SELECT name, commits, {spaces}::smallint[], {keys}::text[], {awaited} FROM {counted})",
        tables.change
    )))
}

impl PostgresDatabase {
    /// As [`Database::read_changes`](crate::database::Database::read_changes).
    pub(crate) async fn read_changes(
        &self,
        known: &KnownCommits,
    ) -> Result<ForeignChanges, StoreFault> {
        let own = self.own_commits();
        let followed = known.followed();
        let proof = self.proof_row();
        let question_about_followed =
            question(&self.tables, (&followed, &proof), RowChoice::Followed)?;
        let mut rows = self.follower.fetch(question_about_followed).await?;
        let has_news = EndedNodes::expected(known, &rows)? != ended_of(&rows)?;
        if has_news {
            let question = question(&self.tables, (&known.numbers, &proof), RowChoice::All)?;
            rows = self.follower.fetch(question).await?;
        }
        self.follow_server().await;
        self.check_history(&rows, (known, own), has_news).await?;
        let mut found = parse(&rows, known)?;
        let proof: Option<&str> = match rows.first() {
            Some(row) => row.try_get("own_proof").map_err(PostgresError::from)?,
            None => None,
        };
        found.own_proof = proof.and_then(|row| self.number_of_proof(row));
        if !has_news {
            found.known.complete_from(known);
        }
        Ok(found)
    }

    /// As [`Database::forget_changes`](crate::database::Database::forget_changes).
    pub(crate) async fn forget_changes(&self, until: i64) -> Result<(), WriteFailure> {
        self.write_by_claim(|claim| claim.forgetting(&self.tables, until)).await
    }
}

/// Returns the tables with the nodes as `n`, their known commits as `known`, and their changes
/// after these commits as `c`. `names` and `numbers` are arrays of the known commits.
fn unread_changes(tables: &TableNames, names: &str, numbers: &str) -> String {
    format!(
        "{} AS n LEFT JOIN unnest({names}::text[], {numbers}::bigint[]) AS known (name, number) \
             ON known.name = n.name \
         LEFT JOIN {} AS c ON c.name = n.name AND c.number > coalesce(known.number, 0)",
        tables.node, tables.change
    )
}

/// Returns the expression for the length of a row's value in bytes; 0 without the row. `name` is a
/// name that this program chose.
fn length_of(tables: &TableNames, name: &str) -> String {
    let text = format!("SELECT octet_length(value) FROM {} WHERE name = '{name}'", tables.meta);
    format!("coalesce(({text}), 0)::bigint")
}

/// The nodes that a read of changes asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowChoice {
    /// Those with a claim, and those with known commits: every data directory that ever opened the
    /// store has a row.
    Followed,
    All,
}

/// Returns the question about the changes after the known commits: at least one row for each chosen
/// node, with the number of its last commit.
fn question(
    tables: &TableNames,
    (known, proof): (&BTreeMap<String, i64>, &str),
    choice: RowChoice,
) -> Result<StatementDraft, PostgresError> {
    let (chosen, ended) = match choice {
        RowChoice::Followed => {
            ("AND (n.holder IS NOT NULL OR n.name = ANY($1))", "name <> ALL($1)")
        }
        RowChoice::All => ("", "false"),
    };
    let text = format!(
        "SELECT n.name, n.commits, n.kept, n.holder, c.spaces, c.keys, \
             coalesce(c.awaited, false) AS is_awaited, \
             CASE WHEN n.shares AND {} THEN n.until::text END AS expired, \
             {} AS keyring_bytes, {} > 0 AS is_restored, {CLOCK} AS server_time, \
             (SELECT value FROM {} WHERE name = '{TIME}') AS time_mark, \
             (SELECT seen FROM {} WHERE name = $3) AS own_proof, \
             (SELECT count(*)::bigint FROM {ENDED}) AS ended_count, \
             (SELECT coalesce(sum(commits), 0)::bigint FROM {ENDED}) AS ended_commits FROM {} \
         WHERE n.name <> '{GATE}' {chosen} ORDER BY n.name, c.number",
        node_rows::expired("n."),
        length_of(tables, KEYRING),
        length_of(tables, RESTORED),
        tables.meta,
        tables.progress,
        unread_changes(tables, "$1", "$2"),
        ENDED =
            format_args!("{} WHERE holder IS NULL AND name <> '{GATE}' AND {ended}", tables.node),
    );
    let (names, numbers): (Vec<String>, Vec<i64>) = known.clone().into_iter().unzip();
    StatementDraft::of(text).with(names)?.with(numbers)?.with(proof)
}

/// The nodes without a claim that a read did not ask for: nothing is new if their number and the
/// sum of their commits are as expected.
#[derive(Debug, PartialEq, Eq)]
struct EndedNodes {
    count: i64,
    commits: i64,
}

impl EndedNodes {
    /// Returns the nodes as they were at the earlier reads; `None` if a node is missing.
    fn expected(known: &KnownCommits, rows: &[PgRow]) -> Result<Option<EndedNodes>, PostgresError> {
        let mut missing = known.numbers.clone();
        for row in rows {
            missing.remove(row.try_get::<&str, _>("name")?);
        }
        let followed = known.followed();
        if missing.keys().any(|name| followed.contains_key(name)) {
            return Ok(None);
        }
        let count = i64::try_from(missing.len()).unwrap_or(i64::MAX);
        Ok(Some(EndedNodes { count, commits: missing.values().sum() }))
    }
}

/// Returns the nodes that a read did not ask for; `None` without a row.
fn ended_of(rows: &[PgRow]) -> Result<Option<EndedNodes>, PostgresError> {
    let Some(row) = rows.first() else { return Ok(None) };
    let count = row.try_get("ended_count")?;
    Ok(Some(EndedNodes { count, commits: row.try_get("ended_commits")? }))
}

/// Returns a table with the changed addresses after the known commits: `place` is the number of the
/// space, and `key` is NULL if changes are stored no longer.
///
/// # Errors
/// The error of the driver for a value that cannot be encoded.
pub(super) fn unread(
    statement: &mut StatementDraft,
    tables: &TableNames,
    known: &BTreeMap<String, i64>,
) -> Result<String, PostgresError> {
    let names = statement.bind(known.keys().cloned().collect::<Vec<_>>())?;
    let numbers = statement.bind(known.values().copied().collect::<Vec<_>>())?;
    Ok(format!(
        "(SELECT coalesce(u.space, 0)::bigint AS place, u.key FROM {} \
         LEFT JOIN LATERAL unnest(c.spaces, c.keys) AS u (space, key) ON true \
         WHERE n.name <> '{GATE}' \
             AND (u.key IS NOT NULL OR n.kept > coalesce(known.number, 0) + 1 \
                 OR n.commits < known.number AND known.number < {AFTER_ALL})) AS asked",
        unread_changes(tables, &names, &numbers)
    ))
}

fn parse(rows: &[PgRow], known: &KnownCommits) -> Result<ForeignChanges, PostgresError> {
    let mut found = ForeignChanges::default();
    for row in rows {
        let name: String = row.try_get("name")?;
        let seen = known.numbers.get(&name).copied().unwrap_or_default();
        found.is_awaited |= row.try_get::<bool, _>("is_awaited")?;
        found.keyring_bytes = row.try_get("keyring_bytes")?;
        found.is_restored = row.try_get("is_restored")?;
        let mark: Option<Vec<u8>> = row.try_get("time_mark")?;
        found.time_mark = mark.and_then(|mark| std::str::from_utf8(&mark).ok()?.parse().ok());
        found.database_time = server_clock::time_of(row)?;
        // The row after the known commit must be stored, if there is one.
        found.has_gap |= seen.saturating_add(1) < row.try_get("kept")?;
        let last = number_of(row)?;
        // One row for each change.
        if let Some(until) = row.try_get("expired")?
            && seen != AFTER_ALL
            && !found.known.numbers.contains_key(&name)
        {
            found.expired.push(ExpiredClaim { node: name.clone(), until });
        }
        if let Some(holder) = row.try_get("holder")? {
            found.known.holders.insert(name.clone(), holder);
        }
        found.known.numbers.insert(name, if seen == AFTER_ALL { seen } else { last });
        let spaces: Option<Vec<i16>> = row.try_get("spaces")?;
        let keys: Option<Vec<String>> = row.try_get("keys")?;
        let pairs = spaces.unwrap_or_default().into_iter().zip(keys.unwrap_or_default());
        for (space, key) in pairs {
            match Space::of_number(i64::from(space)) {
                Some(space) => found.addresses.push(Address::new(space, decode(key))),
                // Written by a later release.
                None => found.has_gap = true,
            }
        }
    }
    Ok(found)
}
