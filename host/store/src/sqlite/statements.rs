//! The statements of a commit: many rows per statement, in few enough forms that each stays
//! prepared.
//!
//! A statement has placeholders for a power of two of rows. Unused placeholders are NULL. No
//! address contains a NULL, so an unused place finds, writes and deletes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use bulkhead_record::committed_state::AddressState;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;
use bulkhead_record::rows::SealedRow;

use super::row_queries::{self, RowFault};
use super::script::{BatchRows, StatementBatch};

/// Maximum rows per statement. With 9 values per row, far below SQLite's limit of 32,766 values.
const MOST_ROWS: usize = 128;

/// A query about addresses, as part of a script.
pub(super) struct AddressQuery<'a> {
    addresses: Vec<&'a Address>,
    /// The index of the first answer.
    first: usize,
}

impl<'a> AddressQuery<'a> {
    /// Asks for the stamp at each of `addresses`.
    ///
    /// # Errors
    /// As [`StatementBatch::bind`].
    pub(super) fn stamps(
        script: &mut StatementBatch,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<Self, sqlx::Error> {
        AddressQuery::columns(script, addresses, "place, stamp")
    }

    /// Asks for the rows at `addresses`.
    ///
    /// # Errors
    /// As [`StatementBatch::bind`].
    pub(super) fn rows(
        script: &mut StatementBatch,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<Self, sqlx::Error> {
        let columns = "place, stamp, due, lane, owner, created, modified, sealed";
        AddressQuery::columns(script, addresses, columns)
    }

    /// Asks for the bytes for which the rows at `addresses` count
    /// (`bulkhead_record::stored_limit`).
    ///
    /// # Errors
    /// As [`StatementBatch::bind`].
    pub(super) fn sizes(
        script: &mut StatementBatch,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<Self, sqlx::Error> {
        let columns = "place, 2 * octet_length(record.key) + 2 * octet_length(lane) \
                       + 2 * octet_length(owner) + length(sealed) + 64 AS number";
        AddressQuery::columns(script, addresses, columns)
    }

    /// Asks for these columns; `place` is the index of the address within the statement.
    fn columns(
        script: &mut StatementBatch,
        addresses: impl IntoIterator<Item = &'a Address>,
        columns: &str,
    ) -> Result<Self, sqlx::Error> {
        let first = script.len();
        let mut addresses: Vec<&Address> = addresses.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        for chunk in addresses.chunks(MOST_ROWS) {
            script.add(&address_join(chunk.len(), columns));
            bind_addresses(script, chunk)?;
        }
        Ok(AddressQuery { addresses, first })
    }

    /// Returns the state of each present address, without absent addresses.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) fn present(
        &self,
        answers: &BatchRows,
    ) -> Result<BTreeMap<&'a Address, AddressState>, sqlx::Error> {
        let present = |(address, row): (_, &SqliteRow)| {
            let stamp = row_queries::parse_stamp(row, "stamp")?;
            Ok((address, stamp.map_or(AddressState::Unreadable, AddressState::Stamped)))
        };
        self.found(answers)?.into_iter().map(present).collect()
    }

    /// Returns the rows found; a row with a shape that was never written is
    /// [`StoreFault::Damaged`].
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) fn sealed(
        &self,
        answers: &BatchRows,
    ) -> Result<BTreeMap<&'a Address, Result<SealedRow, StoreFault>>, sqlx::Error> {
        let sealed =
            |(address, row): (&'a Address, &SqliteRow)| match row_queries::parse(address, row) {
                Ok(row) => Ok((address, Ok(row))),
                Err(RowFault::Damaged(address_of)) => {
                    Ok((address, Err(StoreFault::Damaged(address_of))))
                }
                Err(RowFault::Sql(error)) => Err(error),
            };
        self.found(answers)?.into_iter().map(sealed).collect()
    }

    /// Returns the numbers that [`AddressQuery::sizes`] asked for, without absent addresses.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) fn numbers(
        &self,
        answers: &BatchRows,
    ) -> Result<BTreeMap<&'a Address, u64>, sqlx::Error> {
        let number = |(address, row): (_, &SqliteRow)| {
            let number: i64 = row.try_get("number")?;
            Ok((address, u64::try_from(number).unwrap_or_default()))
        };
        self.found(answers)?.into_iter().map(number).collect()
    }

    /// Returns each row found, with the address.
    fn found<'r>(
        &self,
        answers: &'r BatchRows,
    ) -> Result<Vec<(&'a Address, &'r SqliteRow)>, sqlx::Error> {
        let mut found = Vec::new();
        for (chunk, rows) in self.addresses.chunks(MOST_ROWS).zip(answers.iter().skip(self.first)) {
            for row in rows {
                let place = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
                found.extend(chunk.get(place).map(|address| (*address, row)));
            }
        }
        Ok(found)
    }
}

/// Binds the addresses, and NULL in the unused places.
fn bind_addresses(script: &mut StatementBatch, addresses: &[&Address]) -> Result<(), sqlx::Error> {
    for address in addresses {
        script.bind(address.space.number())?;
        script.bind(&address.key)?;
    }
    bind_nulls(script, 2 * unused_places(addresses.len()))
}

/// Binds NULL in the next `places` placeholders.
fn bind_nulls(script: &mut StatementBatch, places: usize) -> Result<(), sqlx::Error> {
    (0..places).try_for_each(|_| script.bind(None::<i64>))
}

/// Returns the number of unused row places in a statement for `rows` rows.
fn unused_places(rows: usize) -> usize {
    rows.next_power_of_two() - rows
}

/// Inserts the rows, replacing existing rows.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn put(script: &mut StatementBatch, rows: &[&SealedRow]) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(MOST_ROWS) {
        script.add(&put_text(rows.len()));
        for row in rows {
            script.bind(row.address.space.number())?;
            script.bind(&row.address.key)?;
            script.bind(row.stamp.0.as_slice())?;
            script.bind(row.due)?;
            script.bind(&row.lane)?;
            script.bind(&row.owner)?;
            script.bind(row.created)?;
            script.bind(row.modified)?;
            script.bind(row.sealed.as_slice())?;
        }
        bind_nulls(script, 9 * unused_places(rows.len()))?;
    }
    Ok(())
}

/// Deletes the rows at `addresses`.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn delete(
    script: &mut StatementBatch,
    addresses: &[&Address],
) -> Result<(), sqlx::Error> {
    for addresses in addresses.chunks(MOST_ROWS) {
        script.add(&delete_text(addresses.len()));
        bind_addresses(script, addresses)?;
    }
    Ok(())
}

/// Returns a join that begins with the asked keys: `(space, key) IN (VALUES …)` would scan the
/// whole table.
fn address_join(rows: usize, columns: &str) -> String {
    let mut text = String::from("WITH asked (place, space, key) AS (VALUES ");
    for place in 0..rows + unused_places(rows) {
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
    for place in 0..rows + unused_places(rows) {
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
    format!("DELETE FROM record WHERE rowid IN ({})", address_join(rows, "record.rowid"))
}

fn separator(place: usize) -> &'static str {
    if place == 0 { "" } else { ", " }
}

#[cfg(test)]
mod tests;
