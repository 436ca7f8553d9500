//! Reads and counts of the record table.

#[cfg(test)]
mod tests;

use std::ops::Bound;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _};

use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space, Stamp};
use bulkhead_record::rows::SealedRow;

use super::connections::SqliteDatabase;
use super::script::StatementBatch;
use super::transaction_error::fault_of;

impl SqliteDatabase {
    /// As [`Database::find_row`](crate::database::Database::find_row).
    pub(crate) async fn find_row(
        &self,
        address: &Address,
    ) -> Result<Option<SealedRow>, StoreFault> {
        let find = async |connection: &mut SqliteConnection| find(connection, address).await;
        self.readers.read(find).await.map_err(StoreFault::from)
    }

    /// As [`Database::list_keys`](crate::database::Database::list_keys).
    pub(crate) async fn list_keys(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        let list = async |connection: &mut SqliteConnection| list(connection, range, limit).await;
        self.readers.read(list).await.map_err(fault_of)
    }

    /// As [`Database::visit_rows`](crate::database::Database::visit_rows).
    pub(crate) async fn visit_rows(
        &self,
        range: &KeyRange,
        limit: u32,
        take: impl FnMut(SealedRow) -> bool,
    ) -> Result<(), StoreFault> {
        let visit =
            async |connection: &mut SqliteConnection| visit(connection, range, limit, take).await;
        self.readers.read(visit).await.map_err(StoreFault::from)
    }

    /// As [`Database::list_owned`](crate::database::Database::list_owned).
    pub(crate) async fn list_owned(
        &self,
        owner: (Space, &str),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        let list = async |connection: &mut SqliteConnection| {
            list_owned(connection, owner, after, limit).await
        };
        self.readers.read(list).await.map_err(fault_of)
    }

    /// As [`Database::count`](crate::database::Database::count).
    pub(crate) async fn count(&self, range: &KeyRange, at_most: u32) -> Result<u32, StoreFault> {
        let count =
            async |connection: &mut SqliteConnection| count(connection, range, at_most).await;
        self.readers.read(count).await.map_err(fault_of)
    }

    /// As [`Database::count_owned`](crate::database::Database::count_owned).
    pub(crate) async fn count_owned(
        &self,
        owners: &KeyRange,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        let count = async |connection: &mut SqliteConnection| {
            count_owned(connection, owners, at_most).await
        };
        self.readers.read(count).await.map_err(fault_of)
    }
}

/// The reason why a row could not be read: the database failed, or the row has a shape that was
/// never written.
pub(super) enum RowFault {
    Sql(sqlx::Error),
    Damaged(Address),
}

impl From<RowFault> for StoreFault {
    fn from(unread: RowFault) -> StoreFault {
        match unread {
            RowFault::Sql(error) => fault_of(error),
            RowFault::Damaged(address) => StoreFault::Damaged(address),
        }
    }
}

impl From<sqlx::Error> for RowFault {
    fn from(error: sqlx::Error) -> RowFault {
        RowFault::Sql(error)
    }
}

/// Inserts a row that does not exist yet, in the transaction open on `connection`.
///
/// # Errors
/// The error of SQLite, including a row that exists at the address.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    row: &SealedRow,
) -> Result<(), sqlx::Error> {
    let text = "INSERT INTO record (space, key, stamp, due, lane, owner, sealed) \
                VALUES (?, ?, ?, ?, ?, ?, ?)";
    sqlx::query(text)
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

/// Returns the newest committed row at `address`.
async fn find(
    connection: &mut SqliteConnection,
    address: &Address,
) -> Result<Option<SealedRow>, RowFault> {
    let text = "SELECT stamp, due, lane, owner, created, modified, sealed FROM record \
                WHERE space = ? AND key = ?";
    let found = sqlx::query(text)
        .bind(address.space.number())
        .bind(&address.key)
        .fetch_optional(connection)
        .await?;
    found.map(|row| parse(address, &row)).transpose()
}

/// Parses the row found at `address`.
pub(super) fn parse(address: &Address, row: &SqliteRow) -> Result<SealedRow, RowFault> {
    let Some(stamp) = parse_stamp(row, "stamp")? else {
        return Err(RowFault::Damaged(address.clone()));
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

/// Returns the stamp in a column; `None` if the column is not 16 bytes.
pub(super) fn parse_stamp(row: &SqliteRow, column: &str) -> Result<Option<Stamp>, sqlx::Error> {
    Ok(row.try_get::<&[u8], _>(column)?.try_into().ok().map(Stamp))
}

/// Asks for the first `limit` committed keys of `range`. All keys come in a single row: sqlx passes
/// each row of an answer between threads, which takes longer than finding a key.
///
/// # Errors
/// As [`StatementBatch::bind`].
pub(super) fn ask_keys(
    script: &mut StatementBatch,
    range: &KeyRange,
    limit: u32,
) -> Result<(), sqlx::Error> {
    let (within, bounds) = range_condition("key", range);
    script.add(&format!(
        "SELECT json_group_array(key) FROM \
         (SELECT key FROM record WHERE {within} ORDER BY key LIMIT ?)"
    ));
    script.bind(range.space.number())?;
    bounds.into_iter().try_for_each(|bound| script.bind(bound))?;
    script.bind(i64::from(limit))
}

/// Returns the keys from the rows of that statement, in order.
///
/// # Errors
/// The error of SQLite.
pub(super) fn parse_keys(rows: &[SqliteRow]) -> Result<Vec<String>, sqlx::Error> {
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let text: &str = row.try_get(0)?;
    let mut keys: Vec<String> =
        serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))?;
    // The keys are in order already, but SQLite does not guarantee the order of an aggregate.
    keys.sort();
    Ok(keys)
}

/// Returns the first `limit` committed keys of `range`, in order.
async fn list(
    connection: &mut SqliteConnection,
    range: &KeyRange,
    limit: u32,
) -> Result<Vec<String>, sqlx::Error> {
    let mut script = StatementBatch::default();
    ask_keys(&mut script, range, limit)?;
    let answers = script.run(connection).await?;
    parse_keys(answers.first().map(Vec::as_slice).unwrap_or_default())
}

/// Passes the first `limit` committed rows of `range`, in order, to `take`, until `take` returns
/// `false`.
///
/// # Errors
/// The database's error, or the damage of a row with a shape that was never written.
async fn visit(
    connection: &mut SqliteConnection,
    range: &KeyRange,
    limit: u32,
    mut take: impl FnMut(SealedRow) -> bool,
) -> Result<(), RowFault> {
    let (within, bounds) = range_condition("key", range);
    let text = format!(
        "SELECT key, stamp, due, lane, owner, created, modified, sealed FROM record \
         WHERE {within} ORDER BY key LIMIT ?"
    );
    let query = sqlx::query(AssertSqlSafe(text)).bind(range.space.number());
    let query = bounds.into_iter().fold(query, |query, bound| query.bind(bound));
    let mut rows = query.bind(i64::from(limit)).fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let key: String = row.try_get("key")?;
        if !take(parse(&Address::new(range.space, key), &row)?) {
            break;
        }
    }
    Ok(())
}

/// Returns the first `limit` rows of `space` that belong to `owner` and come after the row `after`,
/// with their keys, in the order of their first write. Row numbers start at 1.
async fn list_owned(
    connection: &mut SqliteConnection,
    (space, owner): (Space, &str),
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as(OWNED)
        .bind(space.number())
        .bind(owner)
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
}

/// Query for the rows of an owner. `owner <> ''` lets SQLite use the index that leaves out rows
/// without an owner.
const OWNED: &str = "SELECT rowid, key FROM record \
     WHERE space = ? AND owner = ? AND owner <> '' AND rowid > ? ORDER BY rowid LIMIT ?";

/// Counts the records of `range`; counting stops at `at_most`.
async fn count(
    connection: &mut SqliteConnection,
    range: &KeyRange,
    at_most: u32,
) -> Result<u32, sqlx::Error> {
    let (within, bounds) = range_condition("key", range);
    count_where(connection, range.space, (&within, bounds), at_most).await
}

/// Counts the records whose owners are in `owners`; counting stops at `at_most`.
async fn count_owned(
    connection: &mut SqliteConnection,
    owners: &KeyRange,
    at_most: u32,
) -> Result<u32, sqlx::Error> {
    let (within, bounds) = range_condition("owner", owners);
    // For the same index as [`OWNED`].
    let within = format!("{within} AND owner <> ''");
    count_where(connection, owners.space, (&within, bounds), at_most).await
}

async fn count_where(
    connection: &mut SqliteConnection,
    space: Space,
    (within, bounds): (&str, Vec<&str>),
    at_most: u32,
) -> Result<u32, sqlx::Error> {
    let text = format!("SELECT count(*) FROM (SELECT 1 FROM record WHERE {within} LIMIT ?)");
    let query = sqlx::query_scalar(AssertSqlSafe(text)).bind(space.number());
    let query = bounds.into_iter().fold(query, |query, bound| query.bind(bound));
    query.bind(i64::from(at_most)).fetch_one(connection).await
}

/// Returns the condition that `column` is in `range`, and the bounds to bind after the number of
/// the space.
fn range_condition<'a>(column: &str, range: &'a KeyRange) -> (String, Vec<&'a str>) {
    let (mut text, mut bounds) = ("space = ?".to_owned(), Vec::new());
    match &range.start {
        Bound::Included(first) => {
            text.push_str(&format!(" AND {column} >= ?"));
            bounds.push(first.as_str());
        }
        Bound::Excluded(after) => {
            text.push_str(&format!(" AND {column} > ?"));
            bounds.push(after.as_str());
        }
        Bound::Unbounded => {}
    }
    if let Some(end) = &range.end {
        text.push_str(&format!(" AND {column} < ?"));
        bounds.push(end.as_str());
    }
    (text, bounds)
}
