//! The statements of a commit: many rows in one, in few enough forms that each stays prepared.
//!
//! A statement has room for a power of two of rows; the room that is not used stays unbound, which
//! SQLite reads as NULL: no address has a NULL in it, so such a place finds, writes and deletes
//! nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::fault::StoreFault;
use crate::record::{Address, Stamp};
use crate::rows::{self, SealedRow, Unread};

/// With nine values a row, far below SQLite's 32,766 values a statement.
const MOST_ROWS: usize = 128;

/// What is at an address, as far as comparing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// A row with this stamp.
    Stamped(Stamp),
    /// A row whose stamp has a shape that was never written.
    Unreadable,
}

/// What is present at each of `asked`; absent addresses are left out.
///
/// # Errors
/// As SQLite reports them.
pub(crate) async fn stamps<'a>(
    connection: &mut SqliteConnection,
    asked: &[&'a Address],
) -> Result<BTreeMap<&'a Address, Present>, sqlx::Error> {
    let mut present = BTreeMap::new();
    for asked in asked.chunks(MOST_ROWS) {
        for row in fetch(connection, asked, "place, stamp").await? {
            let place = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
            let found =
                rows::parse_stamp(&row, "stamp")?.map_or(Present::Unreadable, Present::Stamped);
            present.extend(asked.get(place).map(|address| (*address, found)));
        }
    }
    Ok(present)
}

/// The rows at `asked`, in order of their addresses; absent ones are left out, and a row of a shape
/// that was never written is [`StoreFault::Damaged`].
///
/// # Errors
/// As SQLite reports them.
pub(crate) async fn rows<'a>(
    connection: &mut SqliteConnection,
    asked: &[&'a Address],
) -> Result<BTreeMap<&'a Address, Result<SealedRow, StoreFault>>, sqlx::Error> {
    let mut present = BTreeMap::new();
    for asked in asked.chunks(MOST_ROWS) {
        for row in
            fetch(connection, asked, "place, stamp, due, lane, owner, created, modified, sealed")
                .await?
        {
            let place = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
            let Some(address) = asked.get(place).copied() else { continue };
            match rows::parse(address, &row) {
                Ok(row) => present.insert(address, Ok(row)),
                Err(Unread::Damaged(address_of)) => {
                    present.insert(address, Err(StoreFault::Damaged(address_of)))
                }
                Err(Unread::Sql(error)) => return Err(error),
            };
        }
    }
    Ok(present)
}

/// These columns of the rows at `asked`; `place` is that of their address among those asked for.
async fn fetch(
    connection: &mut SqliteConnection,
    asked: &[&Address],
    columns: &str,
) -> Result<Vec<SqliteRow>, sqlx::Error> {
    let mut query = sqlx::query(AssertSqlSafe(asked_text(asked.len(), columns)));
    for address in asked {
        query = query.bind(address.space.number()).bind(&address.key);
    }
    query.fetch_all(connection).await
}

/// Writes the rows, over those that are there.
///
/// # Errors
/// As SQLite reports them.
pub(crate) async fn put(
    connection: &mut SqliteConnection,
    rows: &[&SealedRow],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(MOST_ROWS) {
        let mut query = sqlx::query(AssertSqlSafe(put_text(rows.len())));
        for row in rows {
            query = query
                .bind(row.address.space.number())
                .bind(&row.address.key)
                .bind(row.stamp.0.as_slice());
            query = query.bind(row.due).bind(&row.lane).bind(&row.owner);
            query = query.bind(row.created).bind(row.modified).bind(row.sealed.as_slice());
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Deletes what is at `addresses`.
///
/// # Errors
/// As SQLite reports them.
pub(crate) async fn delete(
    connection: &mut SqliteConnection,
    addresses: &[&Address],
) -> Result<(), sqlx::Error> {
    for addresses in addresses.chunks(MOST_ROWS) {
        let mut query = sqlx::query(AssertSqlSafe(delete_text(addresses.len())));
        for address in addresses {
            query = query.bind(address.space.number()).bind(&address.key);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// A join that begins with the asked keys: `(space, key) IN (VALUES …)` would walk the whole table.
fn asked_text(rows: usize, columns: &str) -> String {
    let mut text = String::from("WITH asked (place, space, key) AS (VALUES ");
    for place in 0..rows.next_power_of_two() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}({place}, ?, ?)", separator(place));
    }
    text + ") SELECT "
        + columns
        + " FROM asked \
            CROSS JOIN record ON record.space = asked.space AND record.key = asked.key"
}

fn put_text(rows: usize) -> String {
    let mut text = String::from(
        "WITH given (space, key, stamp, due, lane, owner, created, modified, sealed) AS (VALUES ",
    );
    for place in 0..rows.next_power_of_two() {
        text.push_str(separator(place));
        text.push_str("(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    }
    text + ") INSERT INTO record (space, key, stamp, due, lane, owner, created, modified, sealed) \
            SELECT * FROM given WHERE space IS NOT NULL \
            ON CONFLICT (space, key) DO UPDATE SET stamp = excluded.stamp, due = excluded.due, \
            lane = excluded.lane, owner = excluded.owner, created = excluded.created, \
            modified = excluded.modified, sealed = excluded.sealed"
}

fn delete_text(rows: usize) -> String {
    format!("DELETE FROM record WHERE rowid IN ({})", asked_text(rows, "record.rowid"))
}

fn separator(place: usize) -> &'static str {
    if place == 0 { "" } else { ", " }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{Scratch, plan};

    #[tokio::test]
    async fn checking_and_deleting_never_walk_the_table() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for text in [asked_text(3, "stamp"), delete_text(3)] {
            let plan = plan(&store, &text).await;
            assert!(plan.contains("(space=? AND key=?)"), "{plan}");
            assert!(!plan.contains("SCAN record"), "{plan}");
        }
        let plan = plan(&store, &put_text(3)).await;
        assert!(!plan.contains("SCAN record") && !plan.contains("TEMP"), "{plan}");
    }

    #[test]
    fn any_number_of_rows_needs_few_forms() {
        for text in
            [(|rows| asked_text(rows, "stamp")) as fn(usize) -> String, put_text, delete_text]
        {
            let forms: BTreeSet<String> = (1..=MOST_ROWS).map(text).collect();
            assert_eq!(forms.len(), 8);
        }
    }
}
