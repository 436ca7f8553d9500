//! The writes of a group as statements: puts, counters and identity in one statement, deletions in
//! a second.
//!
//! This file prevents counters of stored bytes that drift from the rows: the statement that writes
//! rows also changes the counters, by the sizes of the new rows less the sizes of the rows before
//! the statement. All parts of a statement see the state before the statement.

use std::collections::BTreeSet;

use bulkhead_record::committed_state::GroupWrites;
use bulkhead_record::meta_rows::{MetaChange, TIME};
use bulkhead_record::record::Address;
use bulkhead_record::rows::{SealedRow, column};
use bulkhead_record::stored_limit::{counters_of, size};

use super::change_rows;
use super::held_claim::{self, HeldClaim};
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;
use super::stored_counts;
use super::stored_text::{encode, number};

/// Name of the part of a statement that counts the commit.
const COMMIT_PART: &str = "own_commit";

/// The bytes for which a row counts (`bulkhead_record::stored_limit`).
pub(super) const ROW_SIZE: &str = "2 * octet_length(key) + 2 * octet_length(lane) \
     + 2 * octet_length(owner) + octet_length(sealed) + 64";

/// Returns the statements, which must run in one transaction and in their order. With a claim, the
/// first statement also checks and renews the claim.
///
/// # Errors
/// The error for a row with a text that PostgreSQL does not store.
pub(super) fn statements_of(
    tables: &TableNames,
    writes: &GroupWrites<'_>,
    claim: Option<&HeldClaim>,
) -> Result<Vec<StatementDraft>, PostgresError> {
    let mut statement = StatementDraft::default();
    let mut parts = Vec::new();
    let node = claim.map(|claim| stored_counts::counting_node(&claim.node)).unwrap_or_default();
    parts.extend(count(&mut statement, (tables, &node), writes)?);
    parts.extend(put(&mut statement, tables, &writes.puts)?);
    parts.extend(set_names(&mut statement, tables, &writes.identity)?);
    parts.extend(remove_names(&mut statement, tables, &writes.identity)?);
    let sharing = claim.filter(|claim| claim.shares());
    let changed = match sharing {
        Some(_) => change_rows::insertion(&mut statement, (tables, COMMIT_PART), writes)?,
        None => None,
    };
    match (sharing, changed) {
        (Some(claim), Some(changed)) => {
            let counting = claim.counting(&mut statement, tables)?;
            parts.extend([format!("{COMMIT_PART} AS ({counting})"), changed]);
            statement.add(&format!("WITH {} SELECT commits FROM {COMMIT_PART}", parts.join(", ")));
            statement.mark_as_count();
        }
        _ => {
            if !parts.is_empty() {
                statement.add(&format!("WITH {} ", parts.join(", ")));
            }
            held_claim::add_count(&mut statement, tables, claim)?;
        }
    }
    let mut statements = vec![statement];
    statements.extend(delete((tables, &node), &writes.deletes)?);
    Ok(statements)
}

/// Returns the counter of which the table has a row; the counters of all callers are sums.
pub(super) fn counter_of(address: &Address) -> Option<&str> {
    counters_of(address).next()
}

/// Returns the bytes for which the row counts, with its texts as stored.
pub(super) fn stored_size(address: &Address, (lane, owner): (&str, &str), sealed: usize) -> i64 {
    let more = |text: &str| encode(text).len() - text.len();
    let more = more(&address.key) + more(lane) + more(owner);
    column(size(address, lane, owner, sealed + 2 * more))
}

/// Adds the sizes of the puts, and takes away the sizes of the rows that are replaced or deleted,
/// in the counters of `node`.
fn count(
    statement: &mut StatementDraft,
    (tables, node): (&TableNames, &str),
    writes: &GroupWrites<'_>,
) -> Result<Option<String>, PostgresError> {
    let changed = writes.puts.iter().map(|row| {
        let bytes = stored_size(&row.address, (&row.lane, &row.owner), row.sealed.len());
        (&row.address, bytes)
    });
    let deleted = writes.deletes.iter().map(|address| (*address, 0));
    let (mut counters, mut spaces, mut keys, mut sizes) = (vec![], vec![], vec![], vec![]);
    for (address, bytes) in changed.chain(deleted) {
        if let Some(counter) = counter_of(address) {
            counters.push(encode(counter));
            spaces.push(number(address.space));
            keys.push(encode(&address.key));
            sizes.push(bytes);
        }
    }
    if counters.is_empty() {
        return Ok(None);
    }
    let (counters, spaces) = (statement.bind(counters)?, statement.bind(spaces)?);
    let (keys, sizes) = (statement.bind(keys)?, statement.bind(sizes)?);
    let node = statement.bind(node)?;
    let (TableNames { record, stored, .. }, of_mount) =
        (tables, stored_counts::is_of_mount("given.counter"));
    Ok(Some(format!(
        "counted AS (INSERT INTO {stored} AS total (mount, node, bytes) \
         SELECT given.counter, CASE WHEN {of_mount} THEN {node}::text ELSE '' END, \
             sum(given.size - coalesce(earlier.size, 0))::bigint \
         FROM unnest({counters}::text[], {spaces}::smallint[], {keys}::text[], \
             {sizes}::bigint[]) AS given (counter, space, key, size) \
         LEFT JOIN LATERAL (SELECT {ROW_SIZE} AS size FROM {record} AS r \
             WHERE r.space = given.space AND r.key = given.key LIMIT 1) AS earlier ON true \
         GROUP BY given.counter HAVING sum(given.size - coalesce(earlier.size, 0)) <> 0 \
         ORDER BY given.counter \
         ON CONFLICT (mount, node) DO UPDATE SET bytes = total.bytes + excluded.bytes)"
    )))
}

/// Inserts the rows, replacing existing rows. A replaced row keeps its number.
fn put(
    statement: &mut StatementDraft,
    tables: &TableNames,
    rows: &[&SealedRow],
) -> Result<Option<String>, PostgresError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let record = &tables.record;
    let source = bind_rows(statement, rows)?;
    Ok(Some(format!(
        "put AS (INSERT INTO {record} ({COLUMNS}) SELECT {COLUMNS} FROM {source} \
         ON CONFLICT (space, key) DO UPDATE SET stamp = excluded.stamp, due = excluded.due, \
         lane = excluded.lane, owner = excluded.owner, created = excluded.created, \
         modified = excluded.modified, sealed = excluded.sealed)"
    )))
}

/// The columns of a row besides its number.
pub(super) const COLUMNS: &str = "space, key, stamp, due, lane, owner, created, modified, sealed";

/// Binds the columns of rows. Returns the table expression.
fn bind_rows(statement: &mut StatementDraft, rows: &[&SealedRow]) -> Result<String, PostgresError> {
    let each = rows.iter();
    let spaces =
        statement.bind(each.clone().map(|row| number(row.address.space)).collect::<Vec<_>>())?;
    let keys = each.clone().map(|row| encode(&row.address.key)).collect::<Vec<_>>();
    let keys = statement.bind(keys)?;
    let stamps = each.clone().map(|row| row.stamp.0.as_slice()).collect::<Vec<_>>();
    let stamps = statement.bind(stamps)?;
    let due = statement.bind(each.clone().map(|row| row.due).collect::<Vec<_>>())?;
    let lanes = statement.bind(each.clone().map(|row| encode(&row.lane)).collect::<Vec<_>>())?;
    let owners = statement.bind(each.clone().map(|row| encode(&row.owner)).collect::<Vec<_>>())?;
    let created = statement.bind(each.clone().map(|row| row.created).collect::<Vec<_>>())?;
    let modified = statement.bind(each.clone().map(|row| row.modified).collect::<Vec<_>>())?;
    let sealed = statement.bind(each.map(|row| row.sealed.as_slice()).collect::<Vec<_>>())?;
    Ok(format!(
        "unnest({spaces}::smallint[], {keys}::text[], {stamps}::bytea[], {due}::bigint[], \
         {lanes}::text[], {owners}::text[], {created}::bigint[], {modified}::bigint[], \
         {sealed}::bytea[]) AS given ({COLUMNS})"
    ))
}

/// Writes the rows of the identity that have a value. The mark of the time that the data have
/// reached is written by each node, and never lowered; its value is a decimal number without
/// leading zeros.
fn set_names(
    statement: &mut StatementDraft,
    tables: &TableNames,
    changes: &[MetaChange],
) -> Result<Option<String>, PostgresError> {
    let set = changes.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let (names, values): (Vec<&str>, Vec<&[u8]>) = set.unzip();
    if names.is_empty() {
        return Ok(None);
    }
    let (names, values) = (statement.bind(names)?, statement.bind(values)?);
    Ok(Some(format!(
        "named AS (INSERT INTO {} AS present (name, value) \
         SELECT given.name, given.value FROM unnest({names}::text[], {values}::bytea[]) \
             AS given (name, value) \
         ON CONFLICT (name) DO UPDATE SET value = CASE WHEN excluded.name = '{TIME}' \
             AND (octet_length(present.value), present.value) \
                 > (octet_length(excluded.value), excluded.value) \
             THEN present.value ELSE excluded.value END)",
        tables.meta
    )))
}

/// Removes the rows of the identity that have no value.
fn remove_names(
    statement: &mut StatementDraft,
    tables: &TableNames,
    changes: &[MetaChange],
) -> Result<Option<String>, PostgresError> {
    let removed = changes.iter().filter(|(_, value)| value.is_none());
    let names: Vec<&str> = removed.map(|(name, _)| *name).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let names = statement.bind(names)?;
    Ok(Some(format!("unnamed AS (DELETE FROM {} WHERE name = ANY({names}::text[]))", tables.meta)))
}

/// Deletes rows, and the counters of `node` and of callers that are empty after the statement
/// before.
fn delete(
    (tables, node): (&TableNames, &str),
    addresses: &[&Address],
) -> Result<Option<StatementDraft>, PostgresError> {
    if addresses.is_empty() {
        return Ok(None);
    }
    let counters: BTreeSet<&str> =
        addresses.iter().filter_map(|address| counter_of(address)).collect();
    let spaces: Vec<i16> = addresses.iter().map(|address| number(address.space)).collect();
    let keys: Vec<_> = addresses.iter().map(|address| encode(&address.key)).collect();
    let TableNames { record, stored, .. } = tables;
    let statement = StatementDraft::of(format!(
        "WITH removed AS (DELETE FROM {record} WHERE (space, key) IN \
             (SELECT earlier.space, earlier.key FROM unnest($1::smallint[], $2::text[]) \
                 AS earlier (space, key))) \
         DELETE FROM {stored} WHERE mount = ANY($3::text[]) AND node IN ('', $4) AND bytes = 0"
    ));
    let counters: Vec<_> = counters.into_iter().map(encode).collect();
    statement.with(spaces)?.with(keys)?.with(counters)?.with(node).map(Some)
}
