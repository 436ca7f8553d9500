//! The commit of one unit of work: what it read is checked, what it buffered is written, all or nothing.
//!
//! The faults this file stops: an overwritten change that nobody saw (lost update), two requests that each keep a rule
//! and break it together (write skew), and a record that appears in a list somebody relied on (phantom).

use std::collections::BTreeMap;

use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{QueryBuilder, Row as _};

use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Space};
use crate::rows::{self, SealedRow, Stamp};
use crate::sqlite::{self, Attempt, Database};

/// With seven values a row, far below SQLite's 32,766 values a statement, and few enough that statements repeat and
/// stay prepared.
const ROWS_PER_STATEMENT: usize = 100;

/// What a unit of work read since its last checkpoint.
#[derive(Default)]
pub(crate) struct Reads {
    keys: BTreeMap<Address, Option<Stamp>>,
    ranges: Vec<Listing>,
}

/// A listed range: reading it again must give the same keys.
struct Listing {
    range: KeyRange,
    limit: u32,
    keys: Vec<String>,
}

impl Reads {
    /// Remembers that the record had this stamp, or was absent.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when it was read before and has changed since: such a unit can never commit.
    pub(crate) fn remember(&mut self, address: &Address, stamp: Option<Stamp>) -> Result<(), StoreFault> {
        let before = self.keys.insert(address.clone(), stamp);
        if before.is_some_and(|before| before != stamp) { Err(StoreFault::Conflict) } else { Ok(()) }
    }

    /// Remembers that the first `limit` keys of `range` were these.
    pub(crate) fn remember_range(&mut self, range: KeyRange, limit: u32, keys: Vec<String>) {
        self.ranges.push(Listing { range, limit, keys });
    }

    /// How many separate reads there were. A single one is consistent by itself.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    /// Whether everything still is as it was read, in the transaction open on `connection`.
    async fn hold(&self, connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let addresses: Vec<&Address> = self.keys.keys().collect();
        for asked in addresses.chunks(ROWS_PER_STATEMENT) {
            if !self.stamps_hold(connection, asked).await? {
                return Ok(false);
            }
        }
        for listing in &self.ranges {
            if rows::list(&mut *connection, &listing.range, listing.limit).await? != listing.keys {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn stamps_hold(&self, connection: &mut SqliteConnection, asked: &[&Address]) -> Result<bool, sqlx::Error> {
        let found = stamp_query(asked).build().fetch_all(connection).await?;
        for row in &found {
            let Some(space) = Space::of_number(row.try_get("space")?) else {
                return Ok(false);
            };
            let address = Address::new(space, row.try_get::<String, _>("key")?);
            let stamp = rows::stamp(row, "stamp")?;
            if stamp.is_none() || self.keys.get(&address) != Some(&stamp) {
                return Ok(false);
            }
        }
        let present = asked.iter().filter(|address| self.keys.get(**address).is_some_and(Option::is_some)).count();
        Ok(found.len() == present)
    }
}

/// What a unit of work asks to have written, sealed already.
#[derive(Default)]
pub(crate) struct Writes {
    pub(crate) puts: Vec<SealedRow>,
    pub(crate) deletes: Vec<Address>,
}

impl Writes {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        for rows in self.puts.chunks(ROWS_PER_STATEMENT) {
            put(connection, rows).await?;
        }
        for addresses in self.deletes.chunks(ROWS_PER_STATEMENT) {
            delete(connection, addresses).await?;
        }
        Ok(())
    }
}

impl Database {
    /// Commits one unit: checks `reads`, then applies `writes`, in one transaction.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] and nothing written; [`StoreFault::Unavailable`] and nothing acknowledged.
    pub(crate) async fn commit(&self, reads: &Reads, writes: &Writes) -> Result<(), StoreFault> {
        self.write(async |connection: &mut SqliteConnection| {
            if !reads.hold(connection).await? {
                return Ok(Attempt::Conflict);
            }
            writes.apply(connection).await?;
            Ok(Attempt::Committed)
        })
        .await
    }

    /// Checks that all of `reads` were true at one moment. Takes no write lock.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when they were not; [`StoreFault::Unavailable`] when that cannot be read.
    pub(crate) async fn validate(&self, reads: &Reads) -> Result<(), StoreFault> {
        let mut snapshot = self.snapshot().await.map_err(sqlite::fault)?;
        let held = reads.hold(&mut snapshot).await.map_err(sqlite::fault)?;
        snapshot.rollback().await.map_err(sqlite::fault)?;
        if held { Ok(()) } else { Err(StoreFault::Conflict) }
    }
}

/// A join that begins with the asked keys: `(space, key) IN (VALUES …)` would walk the whole table.
fn stamp_query(asked: &[&Address]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new("WITH asked (space, key) AS (");
    query.push_values(asked, |mut tuple, address| {
        tuple.push_bind(address.space.number()).push_bind(&address.key);
    });
    query.push(
        ") SELECT record.space, record.key, record.stamp FROM asked \
         CROSS JOIN record ON record.space = asked.space AND record.key = asked.key",
    );
    query
}

async fn put(connection: &mut SqliteConnection, rows: &[SealedRow]) -> Result<(), sqlx::Error> {
    let mut query = QueryBuilder::<Sqlite>::new("INSERT INTO record (space, key, stamp, due, lane, owner, sealed) ");
    query.push_values(rows, |mut tuple, row| {
        tuple.push_bind(row.address.space.number()).push_bind(&row.address.key).push_bind(row.stamp.0.as_slice());
        tuple.push_bind(row.due).push_bind(&row.lane).push_bind(&row.owner).push_bind(row.sealed.as_slice());
    });
    query.push(
        " ON CONFLICT (space, key) DO UPDATE SET stamp = excluded.stamp, due = excluded.due, \
         lane = excluded.lane, owner = excluded.owner, sealed = excluded.sealed",
    );
    query.build().execute(connection).await?;
    Ok(())
}

async fn delete(connection: &mut SqliteConnection, addresses: &[Address]) -> Result<(), sqlx::Error> {
    delete_query(addresses).build().execute(connection).await?;
    Ok(())
}

/// One alternative for each run of addresses of one kind, which the primary key serves.
fn delete_query(addresses: &[Address]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new("DELETE FROM record WHERE ");
    let mut runs = query.separated(" OR ");
    for run in addresses.chunk_by(|one, next| one.space == next.space) {
        let Some(first) = run.first() else { continue };
        runs.push("(space = ").push_bind_unseparated(first.space.number()).push_unseparated(" AND key IN (");
        for (position, address) in run.iter().enumerate() {
            runs.push_unseparated(if position == 0 { "" } else { ", " }).push_bind_unseparated(&address.key);
        }
        runs.push_unseparated("))");
    }
    query
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, data, plan};

    #[tokio::test]
    async fn checking_and_deleting_never_walk_the_table() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let addresses = [data("a"), data("b"), Address::new(Space::Token, "c"), Address::new(Space::Token, "d")];
        let asked: Vec<&Address> = addresses.iter().collect();
        for query in [stamp_query(&asked), delete_query(&addresses)] {
            let plan = plan(&store, &query.into_string()).await;
            assert!(plan.contains("USING PRIMARY KEY (space=? AND key=?)"), "{plan}");
            assert!(!plan.contains("SCAN record"), "{plan}");
        }
    }

    #[test]
    fn the_same_read_twice_is_one_read_and_a_different_answer_is_a_conflict() {
        let mut reads = Reads::default();
        assert_eq!(reads.len(), 0);
        reads.remember(&data("a"), None).unwrap();
        reads.remember(&data("a"), None).unwrap();
        assert_eq!(reads.len(), 1);
        assert_eq!(reads.remember(&data("a"), Some(Stamp([1; 16]))), Err(StoreFault::Conflict));
    }
}
