//! Reads and counts of the record table.

#[cfg(test)]
mod tests;

use sqlx::Row as _;

use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space};
use bulkhead_record::rows::SealedRow;

use super::connections::PostgresDatabase;
use super::group_questions::parse_row;
use super::postgres_error::PostgresError;
use super::statement_draft::StatementDraft;
use super::stored_text::{RowBounds, decode, encode, number};

impl PostgresDatabase {
    /// As [`Database::find_row`](crate::database::Database::find_row).
    pub(crate) async fn find_row(
        &self,
        address: &Address,
    ) -> Result<Option<SealedRow>, StoreFault> {
        let text = format!(
            "SELECT stamp, due, lane, owner, created, modified, sealed FROM {} \
             WHERE space = $1 AND key = $2",
            self.tables.record
        );
        let query = StatementDraft::of(text).with(number(address.space))?;
        let found = self.readers.fetch(query.with(encode(&address.key))?).await?;
        found.first().map(|row| parse_row(address, row)?).transpose()
    }

    /// As [`Database::list_keys`](crate::database::Database::list_keys).
    pub(crate) async fn list_keys(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        let query = self.range_query("SELECT key", ("key", range), limit)?;
        let rows = self.readers.fetch(query).await?;
        let keys: Result<_, sqlx::Error> =
            rows.iter().map(|row| row.try_get("key").map(decode)).collect();
        Ok(keys.map_err(PostgresError::from)?)
    }

    /// As [`Database::visit_rows`](crate::database::Database::visit_rows).
    pub(crate) async fn visit_rows(
        &self,
        range: &KeyRange,
        limit: u32,
        mut take: impl FnMut(SealedRow) -> bool,
    ) -> Result<(), StoreFault> {
        let columns = "SELECT key, stamp, due, lane, owner, created, modified, sealed";
        let query = self.range_query(columns, ("key", range), limit)?;
        let take = |row| {
            let row: sqlx::postgres::PgRow = row;
            let key = row.try_get("key").map(decode).map_err(PostgresError::from)?;
            let row = parse_row(&Address::new(range.space, key), &row)?;
            Ok::<bool, StoreFault>(take(row?))
        };
        self.readers.visit(query, take).await
    }

    /// As [`Database::list_owned`](crate::database::Database::list_owned).
    pub(crate) async fn list_owned(
        &self,
        (space, owner): (Space, &str),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        // `owner <> ''` lets the planner use the index without the rows without an owner, and the
        // comparison of rows leaves no other index for the order.
        let text = format!(
            "SELECT number, key FROM {} WHERE (space, owner, number) > ($1, $2, $3) \
             AND (space, owner) <= ($1, $2) AND owner <> '' \
             ORDER BY space, owner, number LIMIT $4",
            self.tables.record
        );
        let query =
            StatementDraft::of(text).with(number(space))?.with(encode(owner))?.with(after)?;
        let rows = self.readers.fetch(query.with(i64::from(limit))?).await?;
        let pair =
            |row: &sqlx::postgres::PgRow| Ok((row.try_get("number")?, decode(row.try_get("key")?)));
        let pairs: Result<_, sqlx::Error> = rows.iter().map(pair).collect();
        Ok(pairs.map_err(PostgresError::from)?)
    }

    /// As [`Database::count`](crate::database::Database::count).
    pub(crate) async fn count(&self, range: &KeyRange, at_most: u32) -> Result<u32, StoreFault> {
        self.count_of(self.range_query("SELECT 1", ("key", range), at_most)?).await
    }

    /// As [`Database::count_owned`](crate::database::Database::count_owned).
    pub(crate) async fn count_owned(
        &self,
        owners: &KeyRange,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        self.count_of(self.range_query("SELECT 1", ("owner", owners), at_most)?).await
    }

    /// Returns the number of rows of a query with a limit.
    pub(super) async fn count_of(&self, query: StatementDraft) -> Result<u32, StoreFault> {
        let query = query.nested_in("SELECT count(*) AS rows FROM (", ") AS found");
        let rows = self.readers.fetch(query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound).map_err(PostgresError::from)?;
        let count: i64 = row.try_get("rows").map_err(PostgresError::from)?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the query for the first `limit` rows of a range over `column`, which is `key` or
    /// `owner`.
    fn range_query(
        &self,
        select: &str,
        (column, range): (&str, &KeyRange),
        limit: u32,
    ) -> Result<StatementDraft, PostgresError> {
        let RowBounds { first, end } = RowBounds::of(range);
        // As for the rows of an owner.
        let has_owner = if column == "owner" { " AND owner <> ''" } else { "" };
        let text = format!(
            "{select} FROM {} WHERE (space, {column}) >= ($1, $2) \
             AND (space, {column}) < ($3, $4){has_owner} ORDER BY space, {column} LIMIT $5",
            self.tables.record
        );
        let query = StatementDraft::of(text).with(first.0)?.with(first.1)?;
        query.with(end.0)?.with(end.1)?.with(i64::from(limit))
    }
}
