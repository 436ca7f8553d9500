//! Rows of the record table: how a record becomes a sealed row and opens again, and how rows are
//! read.
//!
//! The attack this file stops: an edited database. Every column of a row is in the label that its
//! seal covers, so a row opens only with the address, stamp and index columns that it was written
//! with.

use std::ops::Bound;

use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{Executor, QueryBuilder, Row as _};

use crate::cipher::{self, Label};
use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Index, Record, Space};
use crate::seal::Seal;

/// Names one write of one record: 128 random bits, so a record that was deleted and written again,
/// or restored, is never taken for the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) [u8; 16]);

/// One row, sealed.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SealedRow {
    pub(crate) address: Address,
    pub(crate) stamp: Stamp,
    /// Store time in milliseconds, never negative.
    pub(crate) due: Option<i64>,
    pub(crate) lane: String,
    pub(crate) owner: String,
    /// The indexes of the mount at which the record was made and last changed; `None` where there
    /// is no index.
    pub(crate) created: Option<i64>,
    pub(crate) modified: Option<i64>,
    pub(crate) sealed: Vec<u8>,
}

impl SealedRow {
    /// Seals a record under a new stamp.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness or the body is too long to be
    /// sealed.
    pub(crate) fn of(
        seal: &Seal,
        address: &Address,
        record: &Record,
    ) -> Result<SealedRow, StoreFault> {
        let mut row = SealedRow {
            address: address.clone(),
            stamp: Stamp(cipher::random()?),
            due: record.index.due.map(column),
            lane: record.index.lane.clone(),
            owner: record.index.owner.clone(),
            created: (record.created > 0).then(|| column(record.created)),
            modified: (record.modified > 0).then(|| column(record.modified)),
            sealed: Vec::new(),
        };
        row.sealed = seal.seal(row.label(seal), &record.body)?;
        Ok(row)
    }

    /// Opens the row.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] when any of its columns is not what was written.
    pub(crate) fn open(self, seal: &Seal) -> Result<Record, StoreFault> {
        let Some(body) = seal.open(self.label(seal), &self.sealed) else {
            return Err(StoreFault::Damaged(self.address));
        };
        let number = |column: Option<i64>| column.and_then(|number| u64::try_from(number).ok());
        let index = Index { due: number(self.due), lane: self.lane, owner: self.owner };
        let created = number(self.created).unwrap_or_default();
        Ok(Record {
            body: body.into(),
            index,
            created,
            modified: number(self.modified).unwrap_or_default(),
        })
    }

    /// Everything that the seal covers besides the body. The order is part of the stored format.
    fn label(&self, seal: &Seal) -> Label {
        let label = seal
            .label("record")
            .text(self.address.space.name())
            .text(&self.address.key)
            .field(&self.stamp.0);
        let number = |label: Label, column: Option<i64>| match column {
            Some(number) => label.field(&number.to_be_bytes()),
            None => label.field(&[]),
        };
        let label = number(label, self.due).text(&self.lane).text(&self.owner);
        number(number(label, self.created), self.modified)
    }
}

/// A number in a column of SQLite, which knows no larger ones.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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

/// Writes a row that is not there yet, in the transaction open on `connection`.
///
/// # Errors
/// As SQLite reports them; for one when there is a row at its address.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    row: &SealedRow,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO record (space, key, stamp, due, lane, owner, sealed) VALUES (?, ?, ?, ?, ?, ?, ?)")
        .bind(row.address.space.number())
        .bind(&row.address.key)
        .bind(row.stamp.0.as_slice())
        .bind(row.due)
        .bind(&row.lane)
        .bind(&row.owner)
        .bind(row.sealed.as_slice())
        .execute(connection)
        .await?;
    Ok(())
}

/// The newest committed row at `address`.
pub(crate) async fn find<'e, E>(executor: E, address: &Address) -> Result<Option<SealedRow>, Unread>
where
    E: Executor<'e, Database = Sqlite>,
{
    let text = "SELECT stamp, due, lane, owner, created, modified, sealed FROM record WHERE space = ? AND key = ?";
    let found = sqlx::query(text)
        .bind(address.space.number())
        .bind(&address.key)
        .fetch_optional(executor)
        .await?;
    found.map(|row| sealed(address, &row)).transpose()
}

/// The row that was found at `address`.
pub(crate) fn sealed(address: &Address, row: &SqliteRow) -> Result<SealedRow, Unread> {
    let Some(stamp) = stamp(row, "stamp")? else {
        return Err(Unread::Damaged(address.clone()));
    };
    Ok(SealedRow {
        address: address.clone(),
        stamp,
        due: row.try_get("due")?,
        lane: row.try_get("lane")?,
        owner: row.try_get("owner")?,
        created: row.try_get("created")?,
        modified: row.try_get("modified")?,
        sealed: row.try_get("sealed")?,
    })
}

/// The stamp in a column; `None` when it is not 16 bytes.
pub(crate) fn stamp(row: &SqliteRow, column: &str) -> Result<Option<Stamp>, sqlx::Error> {
    Ok(row.try_get::<&[u8], _>(column)?.try_into().ok().map(Stamp))
}

/// The first `limit` committed keys of `range`, in order.
pub(crate) async fn list<'e, E>(
    executor: E,
    range: &KeyRange,
    limit: u32,
) -> Result<Vec<String>, sqlx::Error>
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
    sqlx::query_scalar(text)
        .bind(space.number())
        .bind(owner)
        .bind(after)
        .bind(limit)
        .fetch_all(executor)
        .await
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Store;
    use crate::sqlite::Attempt;
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
            "UPDATE record SET created = 1",
            "UPDATE record SET modified = 0",
            "UPDATE record SET lane = ''",
            "UPDATE record SET owner = 'mounT'",
            "UPDATE record SET owner = 'smount', lane = 'order'",
            "UPDATE record SET stamp = randomblob(16)",
            "UPDATE record SET stamp = x'00'",
            "UPDATE record SET sealed = x''",
            "UPDATE record SET sealed = zeroblob(4096)",
        ] {
            assert_eq!(
                after_edit(statement).await.err(),
                Some(StoreFault::Damaged(data("a"))),
                "{statement}"
            );
        }
    }

    const LEASE: Space = Space::Lease;

    /// A store with one lease (a kind that is never cached) whose columns are all filled.
    async fn store_with_lease(scratch: &Scratch) -> Arc<Store> {
        let store = scratch.open().await;
        let index = Index { due: Some(1_000), lane: "orders".into(), owner: "mount".into() };
        put_indexed(&store, Address::new(LEASE, "a"), "first", index).await;
        store
    }

    async fn raw(store: &Arc<Store>) -> SealedRow {
        let found = find(store.database().readers(), &Address::new(LEASE, "a")).await;
        found.ok().flatten().unwrap()
    }

    /// Puts these columns in place of all records and reads the one at their address.
    async fn read_as(store: &Arc<Store>, row: SealedRow) -> Result<Option<Record>, StoreFault> {
        let address = row.address.clone();
        let work = async move |connection: &mut SqliteConnection| {
            sqlx::query("DELETE FROM record").execute(&mut *connection).await?;
            insert(connection, &row).await?;
            Ok(Attempt::Committed)
        };
        store.database().write(work).await.unwrap();
        store.begin().get(&address).await
    }

    fn flipped(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        (0..bytes.len()).map(|position| {
            let mut flipped = bytes.to_vec();
            flipped[position] ^= 1;
            flipped
        })
    }

    fn flipped_text(text: &str) -> impl Iterator<Item = String> {
        flipped(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[tokio::test]
    async fn a_row_with_any_flipped_byte_does_not_open() {
        let scratch = Scratch::new();
        let store = store_with_lease(&scratch).await;
        let row = raw(&store).await;
        assert_eq!(read_as(&store, row.clone()).await.unwrap().unwrap().body.as_slice(), b"first");
        let mut edited = Vec::new();
        edited.extend(flipped(&row.sealed).map(|sealed| SealedRow { sealed, ..row.clone() }));
        edited.extend(flipped(&row.stamp.0).map(|stamp| {
            let stamp = Stamp(stamp.try_into().unwrap());
            SealedRow { stamp, ..row.clone() }
        }));
        edited.extend(
            (0..63).map(|bit| SealedRow { due: row.due.map(|due| due ^ 1 << bit), ..row.clone() }),
        );
        edited.extend(flipped_text(&row.lane).map(|lane| SealedRow { lane, ..row.clone() }));
        edited.extend(flipped_text(&row.owner).map(|owner| SealedRow { owner, ..row.clone() }));
        edited.extend(
            flipped_text("a")
                .map(|key| SealedRow { address: Address::new(LEASE, key), ..row.clone() }),
        );
        for row in edited {
            let address = row.address.clone();
            assert_eq!(read_as(&store, row).await.err(), Some(StoreFault::Damaged(address)));
        }
    }

    #[tokio::test]
    async fn a_row_of_another_cluster_does_not_open_although_both_have_the_same_key() {
        let (here, elsewhere) = (Scratch::new(), Scratch::new());
        let (here, elsewhere) = (store_with_lease(&here).await, store_with_lease(&elsewhere).await);
        let foreign = raw(&elsewhere).await;
        let address = foreign.address.clone();
        assert_eq!(read_as(&here, foreign).await.err(), Some(StoreFault::Damaged(address)));
    }

    #[tokio::test]
    async fn a_row_that_names_another_term_does_not_open_whether_there_is_such_a_term_or_not() {
        let scratch = Scratch::new();
        let store = store_with_lease(&scratch).await;
        store.rotate().await.unwrap();
        let row = raw(&store).await;
        assert_eq!(row.sealed[1..5], [0, 0, 0, 1]);
        for term in [0, 2, 3, 255] {
            let mut edited = row.clone();
            edited.sealed[4] = term;
            let address = row.address.clone();
            assert_eq!(
                read_as(&store, edited).await.err(),
                Some(StoreFault::Damaged(address)),
                "term {term}"
            );
        }
        assert_eq!(read_as(&store, row).await.unwrap().unwrap().body.as_slice(), b"first");
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
    async fn an_earlier_write_that_is_put_back_with_its_stamp_is_a_change_to_whoever_read_the_later_one()
     {
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
