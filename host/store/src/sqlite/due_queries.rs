//! Due work: finds due records by index, without loading other records and without walking over a
//! backlog.

#[cfg(test)]
mod tests;

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use bulkhead_record::due::{DueRecord, LANES, LaneHead};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Space};
use bulkhead_record::rows::column;

use super::connections::SqliteDatabase;
use super::transaction_error::fault_of;

/// Query that steps from lane to lane in byte order. Nothing lies between a text and the same text
/// followed by a zero byte.
const NEXT_LANES: &str = "WITH RECURSIVE walked (lane) AS ( \
     SELECT (SELECT lane FROM record INDEXED BY record_by_lane_due \
         WHERE space = ?1 AND lane >= ?2 AND lane < ?4 AND due IS NOT NULL ORDER BY lane LIMIT 1) \
     UNION ALL \
     SELECT (SELECT lane FROM record INDEXED BY record_by_lane_due \
         WHERE space = ?1 AND lane > walked.lane AND lane < ?4 AND due IS NOT NULL \
         ORDER BY lane LIMIT 1) \
     FROM walked WHERE walked.lane IS NOT NULL LIMIT ?3) \
     SELECT walked.lane AS lane, (SELECT due FROM record INDEXED BY record_by_lane_due \
         WHERE space = ?1 AND lane = walked.lane AND due IS NOT NULL ORDER BY due LIMIT 1) AS due \
     FROM walked WHERE walked.lane IS NOT NULL";

const IN_LANE: &str = "SELECT space, key, due, lane, owner FROM record \
     INDEXED BY record_by_lane_due \
     WHERE space = ? AND lane = ? AND due <= ? ORDER BY due, rowid LIMIT ?";

const IN_LANE_COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM record \
     INDEXED BY record_by_lane_due \
     WHERE space = ? AND lane = ? AND due IS NOT NULL LIMIT ?)";

const NEXT_DUE: &str = "SELECT min(due) FROM record WHERE due > ?";

impl SqliteDatabase {
    /// As [`Database::lane_heads`](crate::database::Database::lane_heads).
    pub(crate) async fn lane_heads(
        &self,
        space: Space,
        (first, end): (&str, &str),
    ) -> Result<Vec<LaneHead>, StoreFault> {
        let walk = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_as(NEXT_LANES).bind(space.number());
            query.bind(first).bind(LANES).bind(end).fetch_all(connection).await
        };
        let walked: Result<Vec<(String, i64)>, sqlx::Error> = self.readers.read(walk).await;
        Ok(walked
            .map_err(fault_of)?
            .into_iter()
            .map(|(lane, due)| LaneHead { lane, due })
            .collect())
    }

    /// As [`Database::due_in_lane`](crate::database::Database::due_in_lane).
    pub(crate) async fn due_in_lane(
        &self,
        (space, lane): (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<DueRecord>, StoreFault> {
        let find = async |connection: &mut SqliteConnection| {
            let query = sqlx::query(IN_LANE).bind(space.number()).bind(lane);
            query.bind(column(until)).bind(limit).fetch_all(connection).await
        };
        let found: Result<Vec<SqliteRow>, sqlx::Error> = self.readers.read(find).await;
        let parsed: Result<_, sqlx::Error> =
            found.map_err(fault_of)?.iter().filter_map(|row| parse_due(row).transpose()).collect();
        parsed.map_err(fault_of)
    }

    /// As [`Database::count_in_lane`](crate::database::Database::count_in_lane).
    pub(crate) async fn count_in_lane(
        &self,
        (space, lane): (Space, &str),
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        let count = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_scalar(IN_LANE_COUNT).bind(space.number()).bind(lane);
            query.bind(at_most).fetch_one(connection).await
        };
        let counted: Result<u32, sqlx::Error> = self.readers.read(count).await;
        counted.map_err(fault_of)
    }

    /// As [`Database::next_due`](crate::database::Database::next_due).
    pub(crate) async fn next_due(&self, moment: Option<u64>) -> Result<Option<u64>, StoreFault> {
        let find = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_scalar(NEXT_DUE).bind(moment.map_or(-1, column));
            query.fetch_one(connection).await
        };
        let earliest: Result<Option<i64>, sqlx::Error> = self.readers.read(find).await;
        Ok(earliest.map_err(fault_of)?.and_then(|due| u64::try_from(due).ok()))
    }
}

/// Returns `None` for a kind or time that no version of Bulkhead writes: such a row is not due
/// work.
fn parse_due(row: &SqliteRow) -> Result<Option<DueRecord>, sqlx::Error> {
    let space = Space::of_number(row.try_get("space")?);
    let due = u64::try_from(row.try_get::<i64, _>("due")?).ok();
    let Some((space, due)) = space.zip(due) else {
        return Ok(None);
    };
    let address = Address { space, key: row.try_get("key")? };
    Ok(Some(DueRecord { address, due, lane: row.try_get("lane")?, owner: row.try_get("owner")? }))
}
