//! Numbered copies of the tables, and the exchange of the tables in use for other tables.
//!
//! This file prevents data that are half old and half new, at a process that dies at any moment: a
//! copy is made in one transaction, and another transaction renames all tables. No other node holds
//! the claim of the tables meanwhile. The commit is a message of its own, sent after all statements
//! were answered: an act that this process gave up is never completed by the server alone. The
//! replaced tables stay under other names, because their records may be the only trace of changes
//! outside of the store.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::time::sleep;

use bulkhead_place::claim_watch::ClaimingNode;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;

use super::connections::COMMIT;
use super::group_writes::COLUMNS;
use super::meta_table::{self, INDEXES};
use super::node_rows::{self, ClaimVerdict, ClaimWait};
use super::postgres_error::WritePhase;
use super::readers::discard;
use super::server_address::{TABLES, TableNames, name_of};
use super::server_connector::{ServerConnector, connect};
use super::statement_draft::{StatementDraft, run_script, run_script_within};

/// Maximum time of a statement of a copy, at the server. A copy of many records takes longer than a
/// commit.
const COPY_LIMIT: &str = "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '600s'";
/// Maximum time of all statements of a copy, as the client counts.
const COPY_TIME: Duration = Duration::from_secs(1_800);
/// Maximum time for which a renaming of tables waits for a lock of another session, as of a backup.
const RENAMING_LIMIT: &str = "SET LOCAL lock_timeout = '10s'";
/// Maximum time for which an opening waits for abandoned tables that another session reads.
const REMOVAL_LIMIT: &str = "SET LOCAL lock_timeout = '1s'";

/// Copies the tables in use under a number, in one transaction without a claim of another node. A
/// copy with this number is replaced.
///
/// # Errors
/// [`StoreFault::Refused`] if another node works on the tables;
/// [`StoreFault::Unavailable`] if the database failed. Then there is no copy.
pub(crate) async fn copy_tables(
    place: &PostgresPlace,
    node: &ClaimingNode,
    number: u32,
) -> Result<(), StoreFault> {
    let (present, copy) = (TableNames::of(place), TableNames::copy(place, number));
    let mut script = format!("{COPY_LIMIT}; {}; {}; ", removal(&copy), meta_table::creation(&copy));
    script.push_str(&format!("DELETE FROM {}; ", copy.node));
    for (table, columns, order) in [
        ("meta", "name, value", "name"),
        ("record", COLUMNS, "number"),
        ("stored", "mount, node, bytes", "mount, node"),
        ("node", "name, commits", "name"),
    ] {
        let (to, from) = (copy.name_of(table), present.name_of(table));
        script.push_str(&format!(
            "INSERT INTO {to} ({columns}) SELECT {columns} FROM {from} ORDER BY {order}; "
        ));
    }
    let (mut connection, _) = begin_unclaimed(place, node).await?;
    let copied = match run_script_within(COPY_TIME, &mut connection, &script).await {
        Ok(()) => commit(&mut connection).await,
        Err(error) => Err(error.into()),
    };
    discard(connection).await;
    copied
}

/// Commits statements that were answered.
///
/// # Errors
/// [`StoreFault::Unavailable`], in words for an unknown outcome if the answer was lost.
async fn commit(connection: &mut PgConnection) -> Result<(), StoreFault> {
    let committed = run_script(connection, COMMIT).await;
    committed.map_err(|error| error.into_failure(WritePhase::Committing).into())
}

/// Exchanges the tables in use for a copy. Returns `false` if there is no such copy.
///
/// # Errors
/// As [`exchange_tables`].
pub(crate) async fn put_copy_back(
    place: &PostgresPlace,
    node: &ClaimingNode,
    number: u32,
) -> Result<bool, StoreFault> {
    exchange(place, node, &TableNames::copy(place, number)).await
}

/// Drops a copy, if there is one.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed.
pub(crate) async fn drop_copy(place: &PostgresPlace, number: u32) -> Result<(), StoreFault> {
    drop_tables(place, &TableNames::copy(place, number)).await
}

/// Drops the tables that an abandoned restore filled, if there are any. The caller holds the claim:
/// no other process exchanges the tables in use for these tables. Tables that another session
/// reads, as a backup does, stay for the next opening.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed.
pub(crate) async fn remove_abandoned_restore(place: &PostgresPlace) -> Result<(), StoreFault> {
    let mut connection = connect(place).await?;
    let script = format!("{REMOVAL_LIMIT}; {}", removal(&TableNames::restored(place)));
    let removed = run_script(&mut connection, &script).await;
    discard(connection).await;
    match removed {
        Err(error) if error.is_locked() => Ok(()),
        other => Ok(other?),
    }
}

/// Drops the tables in use, if there are any.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database failed.
pub(crate) async fn remove_tables(place: &PostgresPlace) -> Result<(), StoreFault> {
    drop_tables(place, &TableNames::of(place)).await
}

async fn drop_tables(place: &PostgresPlace, tables: &TableNames) -> Result<(), StoreFault> {
    let mut connection = connect(place).await?;
    let removed = run_script(&mut connection, &removal(tables)).await;
    discard(connection).await;
    Ok(removed?)
}

/// Returns whether there is a copy with any number.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub(crate) async fn has_copies(place: &PostgresPlace) -> Result<bool, StoreFault> {
    let beginning = TableNames::of(place).plain_name_of(TableNames::COPY);
    let text = "SELECT table_name::text FROM information_schema.tables \
                WHERE table_schema = $1 AND substring(table_name FROM 1 FOR length($2)) = $2";
    let query = StatementDraft::of(text).with(place.schema.as_str())?.with(beginning)?;
    let mut connection = connect(place).await?;
    let found = query.fetch(&mut connection).await;
    discard(connection).await;
    Ok(!found?.is_empty())
}

/// Exchanges the tables in use for the tables that a restore filled, in a transaction without a
/// claim of another node. The replaced tables stay under other names. Returns `false` if there are
/// no filled tables; then nothing was changed.
///
/// # Errors
/// [`StoreFault::Refused`] if another node works on the tables in use;
/// [`StoreFault::Unavailable`] if the database failed: nothing was changed, unless the text says
/// that the outcome is not known; the next opening then finds the old data or the new data.
pub(crate) async fn exchange_tables(
    place: &PostgresPlace,
    node: &ClaimingNode,
) -> Result<bool, StoreFault> {
    exchange(place, node, &TableNames::restored(place)).await
}

/// Checks that no other node holds the claim of the tables in use, if there are any. Nothing is
/// changed.
///
/// # Errors
/// [`StoreFault::Refused`] if another node works on the tables in use;
/// [`StoreFault::Unavailable`] if the database failed.
pub(crate) async fn check_unclaimed(
    place: &PostgresPlace,
    node: &ClaimingNode,
) -> Result<(), StoreFault> {
    let (connection, _) = begin_unclaimed(place, node).await?;
    discard(connection).await;
    Ok(())
}

/// Returns the name of the tables that an exchange replaced, for messages.
pub(crate) fn replaced_tables(place: &PostgresPlace) -> String {
    format!("the tables {}", TableNames::replaced(place).plain_name_of("*"))
}

async fn exchange(
    place: &PostgresPlace,
    node: &ClaimingNode,
    filled: &TableNames,
) -> Result<bool, StoreFault> {
    let (present, replaced) = (TableNames::of(place), TableNames::replaced(place));
    let (mut connection, has_tables) = begin_unclaimed(place, node).await?;
    let mut script = format!(
        "{RENAMING_LIMIT}; {}; {}{}",
        removal(&replaced),
        renaming(&present, &replaced, "IF EXISTS "),
        renaming(filled, &present, "")
    );
    if has_tables {
        script.push_str(&node_rows::continuation(&present, &replaced));
    }
    // Directly before the exchange: a process that dies in between has no mark.
    let exchanged = match node.mark.remove() {
        Ok(()) => match run_script(&mut connection, &script).await {
            Ok(()) => commit(&mut connection).await.map(|()| true),
            Err(error) if error.is_unknown_table() => Ok(false),
            Err(error) => Err(error.into()),
        },
        Err(fault) => Err(fault),
    };
    discard(connection).await;
    exchanged
}

/// Begins a transaction in which no other node takes the claim of the tables in use, once no other
/// node holds the claim. Returns whether there are tables, too.
///
/// # Errors
/// As [`exchange_tables`].
async fn begin_unclaimed(
    place: &PostgresPlace,
    node: &ClaimingNode,
) -> Result<(PgConnection, bool), StoreFault> {
    let (connector, tables) = (ServerConnector::new(place), TableNames::of(place));
    let mut wait = ClaimWait::default();
    loop {
        let mut connection = connector.connect().await?;
        let has_tables = match node_rows::find(&mut connection, &tables).await {
            Ok(_) => true,
            Err(error) if error.is_unknown_table() => false,
            Err(error) => return Err(error.into()),
        };
        run_script(&mut connection, "BEGIN; SET LOCAL statement_timeout = '30s'").await?;
        if !has_tables {
            return Ok((connection, false));
        }
        node_rows::all_locks(&tables).fetch(&mut connection).await?;
        let Some(rows) = node_rows::find(&mut connection, &tables).await? else {
            return Ok((connection, true));
        };
        if wait.judge(&rows, (&name_of(place), node))? == ClaimVerdict::Free {
            return Ok((connection, true));
        }
        discard(connection).await;
        sleep(node.times.poll).await;
    }
}

/// Returns the statements that rename all tables and their indexes.
fn renaming(from: &TableNames, to: &TableNames, condition: &str) -> String {
    let one = |kind: &str, name: &str| {
        let (from, to) = (from.name_of(name), to.local_name_of(name));
        format!("ALTER {kind} {condition}{from} RENAME TO {to}; ")
    };
    let tables = TABLES.iter().map(|table| one("TABLE", table));
    tables.chain(INDEXES.iter().map(|index| one("INDEX", index))).collect()
}

/// Returns the statement that drops the tables that exist.
pub(super) fn removal(tables: &TableNames) -> String {
    let names = TABLES.map(|table| tables.name_of(table)).join(", ");
    format!("DROP TABLE IF EXISTS {names}")
}
