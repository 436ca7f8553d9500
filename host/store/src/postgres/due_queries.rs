//! Due work: finds due records by index, without loading other records and without walking over a
//! backlog.
//!
//! This file prevents a cost that grows with the backlog of another lane. Conditions and orders
//! compare whole rows of columns, `(space, lane, due)`, because only the index of these columns
//! serves such an order. With `lane = …` and an order by `due`, the planner may choose the index of
//! due times, and walk over the rows of all other lanes.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_record::due::{DueRecord, LANES, LaneHead};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Space};
use bulkhead_record::rows::column;

use super::connections::PostgresDatabase;
use super::postgres_error::PostgresError;
use super::statement_draft::StatementDraft;
use super::stored_text::{decode, encode, number};

/// The bounds of a due time, as the planner accepts them for the index.
const LEAST: &str = "'-9223372036854775808'::bigint";
const GREATEST: &str = "'9223372036854775807'::bigint";

/// Returns the query that steps from lane to lane in byte order, and finds the head of each lane.
fn lane_walk(record: &str) -> String {
    format!(
        "WITH RECURSIVE walked (lane, steps) AS ( \
         (SELECT r.lane, 1 FROM {record} AS r \
             WHERE r.space = $1 AND r.lane >= $2 AND r.lane < $3 AND r.due IS NOT NULL \
             ORDER BY r.space, r.lane LIMIT 1) \
         UNION ALL \
         SELECT following.lane, walked.steps + 1 FROM walked CROSS JOIN LATERAL ( \
             SELECT r.lane FROM {record} AS r \
             WHERE r.space = $1 AND r.lane > walked.lane AND r.lane < $3 AND r.due IS NOT NULL \
             ORDER BY r.space, r.lane LIMIT 1) AS following \
         WHERE walked.steps < $4) \
         SELECT walked.lane, head.due FROM walked CROSS JOIN LATERAL ( \
             SELECT r.due FROM {record} AS r \
             WHERE (r.space, r.lane, r.due) >= ($1, walked.lane, {LEAST}) \
                 AND (r.space, r.lane, r.due) <= ($1, walked.lane, {GREATEST}) \
                 AND r.due IS NOT NULL \
             ORDER BY r.space, r.lane, r.due LIMIT 1) AS head \
         ORDER BY walked.lane"
    )
}

impl PostgresDatabase {
    /// As [`Database::lane_heads`](crate::database::Database::lane_heads).
    pub(crate) async fn lane_heads(
        &self,
        space: Space,
        (first, end): (&str, &str),
    ) -> Result<Vec<LaneHead>, StoreFault> {
        let query = StatementDraft::of(lane_walk(&self.tables.record)).with(number(space))?;
        let query = query.with(encode(first))?.with(encode(end))?;
        let most = i32::try_from(LANES).unwrap_or(i32::MAX);
        let rows = self.readers.fetch(query.with(most)?).await?;
        let head = |row: &PgRow| {
            Ok(LaneHead { lane: decode(row.try_get("lane")?), due: row.try_get("due")? })
        };
        let heads: Result<_, sqlx::Error> = rows.iter().map(head).collect();
        Ok(heads.map_err(PostgresError::from)?)
    }

    /// As [`Database::due_in_lane`](crate::database::Database::due_in_lane).
    pub(crate) async fn due_in_lane(
        &self,
        (space, lane): (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<DueRecord>, StoreFault> {
        let text = format!(
            "SELECT space, key, due, lane, owner FROM {} WHERE due IS NOT NULL \
             AND (space, lane, due) >= ($1, $2, {LEAST}) AND (space, lane, due) <= ($1, $2, $3) \
             ORDER BY space, lane, due, number LIMIT $4",
            self.tables.record
        );
        let query = StatementDraft::of(text).with(number(space))?.with(encode(lane))?;
        let query = query.with(column(until))?.with(i64::from(limit))?;
        let rows = self.readers.fetch(query).await?;
        let parsed: Result<_, sqlx::Error> =
            rows.iter().filter_map(|row| parse_due(row).transpose()).collect();
        Ok(parsed.map_err(PostgresError::from)?)
    }

    /// As [`Database::count_in_lane`](crate::database::Database::count_in_lane).
    pub(crate) async fn count_in_lane(
        &self,
        (space, lane): (Space, &str),
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        let text = format!(
            "SELECT 1 FROM {} WHERE due IS NOT NULL \
             AND (space, lane) >= ($1, $2) AND (space, lane) <= ($1, $2) \
             ORDER BY space, lane, due LIMIT $3",
            self.tables.record
        );
        let query = StatementDraft::of(text).with(number(space))?.with(encode(lane))?;
        self.count_of(query.with(i64::from(at_most))?).await
    }

    /// As [`Database::next_due`](crate::database::Database::next_due).
    pub(crate) async fn next_due(&self, moment: Option<u64>) -> Result<Option<u64>, StoreFault> {
        let text =
            format!("SELECT due FROM {} WHERE due > $1 ORDER BY due LIMIT 1", self.tables.record);
        let rows = self.readers.fetch(StatementDraft::of(text).with(moment.map_or(-1, column))?);
        let earliest = rows.await?.first().map(|row| row.try_get::<i64, _>("due")).transpose();
        let earliest = earliest.map_err(PostgresError::from)?;
        Ok(earliest.and_then(|due| u64::try_from(due).ok()))
    }
}

/// Returns `None` for a kind or time that no version of Bulkhead writes: such a row is not due
/// work.
fn parse_due(row: &PgRow) -> Result<Option<DueRecord>, sqlx::Error> {
    let space = Space::of_number(i64::from(row.try_get::<i16, _>("space")?));
    let due = u64::try_from(row.try_get::<i64, _>("due")?).ok();
    let Some((space, due)) = space.zip(due) else {
        return Ok(None);
    };
    let address = Address { space, key: decode(row.try_get("key")?) };
    Ok(Some(DueRecord {
        address,
        due,
        lane: decode(row.try_get("lane")?),
        owner: decode(row.try_get("owner")?),
    }))
}
