//! Rows of the record table: how a record becomes a sealed row and opens again, and how rows are read.
//!
//! The attack this file stops: an edited database. Every column of a row is in the label that its seal covers, so a
//! row opens only with the address, stamp and index columns that it was written with.

use std::ops::Bound;

use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Executor, QueryBuilder, Row as _};

use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Index, Record, Space};
use crate::seal::{self, Label, Seal};

/// Names one write of one record: 128 random bits, so a record that was deleted and written again, or restored, is
/// never taken for the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) [u8; 16]);

/// One row, sealed.
pub(crate) struct SealedRow {
    pub(crate) address: Address,
    pub(crate) stamp: Stamp,
    /// Store time in milliseconds, never negative.
    pub(crate) due: Option<i64>,
    pub(crate) lane: String,
    pub(crate) owner: String,
    pub(crate) sealed: Vec<u8>,
}

impl SealedRow {
    /// Seals a record under a new stamp.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness or the body is too long to be sealed.
    pub(crate) fn of(seal: &Seal, address: &Address, record: &Record) -> Result<SealedRow, StoreFault> {
        let mut row = SealedRow {
            address: address.clone(),
            stamp: Stamp(seal::random()?),
            due: record.index.due.map(|due| i64::try_from(due).unwrap_or(i64::MAX)),
            lane: record.index.lane.clone(),
            owner: record.index.owner.clone(),
            sealed: Vec::new(),
        };
        row.sealed = seal.seal(&row.label(seal), &record.body)?;
        Ok(row)
    }

    /// Opens the row.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] when any of its columns is not what was written.
    pub(crate) fn open(self, seal: &Seal) -> Result<Record, StoreFault> {
        let Some(body) = seal.open(&self.label(seal), &self.sealed) else {
            return Err(StoreFault::Damaged(self.address));
        };
        let due = self.due.and_then(|due| u64::try_from(due).ok());
        Ok(Record { body, index: Index { due, lane: self.lane, owner: self.owner } })
    }

    /// Everything that the seal covers besides the body. The order is part of the stored format.
    fn label(&self, seal: &Seal) -> Label {
        let label = seal.label("record").text(self.address.space.name()).text(&self.address.key).field(&self.stamp.0);
        let label = match self.due {
            Some(due) => label.field(&due.to_be_bytes()),
            None => label.field(&[]),
        };
        label.text(&self.lane).text(&self.owner)
    }
}

/// Why a row could not be read: the database failed, or the row has a shape that was never written.
pub(crate) enum Unread {
    Sql(sqlx::Error),
    Damaged(Address),
}

impl From<sqlx::Error> for Unread {
    fn from(error: sqlx::Error) -> Unread {
        Unread::Sql(error)
    }
}

/// The newest committed row at `address`.
pub(crate) async fn find<'e, E>(executor: E, address: &Address) -> Result<Option<SealedRow>, Unread>
where
    E: Executor<'e, Database = Sqlite>,
{
    let found = sqlx::query("SELECT stamp, due, lane, owner, sealed FROM record WHERE space = ? AND key = ?")
        .bind(address.space.number())
        .bind(&address.key)
        .fetch_optional(executor)
        .await?;
    let Some(row) = found else { return Ok(None) };
    let Some(stamp) = stamp(&row, "stamp")? else {
        return Err(Unread::Damaged(address.clone()));
    };
    Ok(Some(SealedRow {
        address: address.clone(),
        stamp,
        due: row.try_get("due")?,
        lane: row.try_get("lane")?,
        owner: row.try_get("owner")?,
        sealed: row.try_get("sealed")?,
    }))
}

/// The stamp in a column; `None` when it is not 16 bytes.
pub(crate) fn stamp(row: &SqliteRow, column: &str) -> Result<Option<Stamp>, sqlx::Error> {
    Ok(row.try_get::<&[u8], _>(column)?.try_into().ok().map(Stamp))
}

/// The first `limit` committed keys of `range`, in order.
pub(crate) async fn list<'e, E>(executor: E, range: &KeyRange, limit: u32) -> Result<Vec<String>, sqlx::Error>
where
    E: Executor<'e, Database = Sqlite>,
{
    let mut query = QueryBuilder::new("SELECT key FROM record WHERE ");
    within(&mut query, range);
    query.push(" ORDER BY key LIMIT ").push_bind(i64::from(limit));
    query.build_query_scalar().fetch_all(executor).await
}

/// The first `limit` keys of `space` after `after` that belong to `owner`, in order.
pub(crate) async fn owned<'e, E>(
    executor: E,
    (space, owner): (Space, &str),
    after: &str,
    limit: u32,
) -> Result<Vec<String>, sqlx::Error>
where
    E: Executor<'e, Database = Sqlite>,
{
    // `owner <> ''` lets SQLite use the index that leaves out rows of nobody.
    let text = "SELECT key FROM record WHERE space = ? AND owner = ? AND owner <> '' AND key > ? ORDER BY key LIMIT ?";
    sqlx::query_scalar(text).bind(space.number()).bind(owner).bind(after).bind(limit).fetch_all(executor).await
}

/// How many records of `range` there are, in one lane or in all; counting stops at `at_most`.
pub(crate) async fn count<'e, E>(
    executor: E,
    range: &KeyRange,
    lane: Option<&str>,
    at_most: u32,
) -> Result<u32, sqlx::Error>
where
    E: Executor<'e, Database = Sqlite>,
{
    let mut query = QueryBuilder::new("SELECT count(*) FROM (SELECT 1 FROM record WHERE ");
    within(&mut query, range);
    if let Some(lane) = lane {
        query.push(" AND lane = ").push_bind(lane);
        if !lane.is_empty() {
            query.push(" AND lane <> ''");
        }
    }
    query.push(" LIMIT ").push_bind(i64::from(at_most)).push(")");
    query.build_query_scalar().fetch_one(executor).await
}

fn within(query: &mut QueryBuilder<Sqlite>, range: &KeyRange) {
    query.push("space = ").push_bind(range.space.number());
    match &range.start {
        Bound::Included(first) => query.push(" AND key >= ").push_bind(first),
        Bound::Excluded(after) => query.push(" AND key > ").push_bind(after),
        Bound::Unbounded => query,
    };
    if let Some(end) = &range.end {
        query.push(" AND key < ").push_bind(end);
    }
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
    use crate::testing::{Scratch, data, edit, put_indexed};

    async fn after_edit(statement: &'static str) -> Result<Option<Record>, StoreFault> {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let index = Index { due: Some(1_000), lane: "orders".into(), owner: "mount".into() };
        put_indexed(&store, data("a"), "first", index.clone()).await;
        put_indexed(&store, data("b"), "second", index).await;
        edit(&store, statement).await;
        store.begin().get(&data("a")).await
    }

    #[tokio::test]
    async fn a_row_that_was_edited_moved_or_exchanged_does_not_open() {
        for statement in [
            "UPDATE record SET sealed = (SELECT sealed FROM record WHERE key = 'b') WHERE key = 'a'",
            "UPDATE record SET (stamp, sealed) = (SELECT stamp, sealed FROM record WHERE key = 'b') WHERE key = 'a'",
            "DELETE FROM record WHERE key = 'a'; UPDATE record SET key = 'a'",
            "DELETE FROM record WHERE key = 'a'; UPDATE record SET key = 'a', space = 3; UPDATE record SET space = 2",
            "UPDATE record SET due = 9000000",
            "UPDATE record SET due = -1",
            "UPDATE record SET due = NULL",
            "UPDATE record SET lane = ''",
            "UPDATE record SET owner = 'mounT'",
            "UPDATE record SET owner = 'smount', lane = 'order'",
            "UPDATE record SET stamp = randomblob(16)",
            "UPDATE record SET stamp = x'00'",
            "UPDATE record SET sealed = x''",
            "UPDATE record SET sealed = zeroblob(4096)",
        ] {
            assert_eq!(after_edit(statement).await.err(), Some(StoreFault::Damaged(data("a"))), "{statement}");
        }
    }

    #[tokio::test]
    async fn a_row_in_another_space_does_not_open_there() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put_indexed(&store, data("a"), "x", Index::default()).await;
        edit(&store, "UPDATE record SET space = 3").await;
        let moved = Address::new(Space::Token, "a");
        assert_eq!(store.begin().get(&moved).await.err(), Some(StoreFault::Damaged(moved)));
    }

    #[tokio::test]
    async fn an_earlier_write_that_is_put_back_with_its_stamp_is_a_change_to_whoever_read_the_later_one() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put_indexed(&store, data("a"), "old", Index::default()).await;
        edit(&store, "CREATE TABLE kept AS SELECT * FROM record").await;
        put_indexed(&store, data("a"), "new", Index::default()).await;
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        edit(&store, "DELETE FROM record; INSERT INTO record SELECT * FROM kept").await;
        unit.put(data("b"), b"x".to_vec(), Index::default());
        assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
    }

    #[tokio::test]
    async fn a_refusal_names_the_address_and_never_the_body() {
        let fault = after_edit("UPDATE record SET due = 1").await.err().unwrap();
        let text = fault.to_string();
        assert!(text.contains("data:a") && !text.contains("first"), "{text}");
    }
}
