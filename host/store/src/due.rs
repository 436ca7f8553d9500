//! Due work: finds due records by index, without loading other records and without walking over a
//! backlog.
//!
//! This file prevents the cost of finding due work from growing with the backlog. Due records are
//! queried lane by lane; the oldest record of a lane is the first index entry of the lane, however
//! many records follow.
//!
//! The caller tracks claims: a query returns the same record again until the caller knows that the
//! record is busy.

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::record::{Address, Space};
use crate::sqlite::Database;

/// Maximum number of lanes per query.
const LANES: u32 = 256;

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

/// Some of the lanes of a kind of record, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueLanes {
    /// The lanes with due records; the empty name stands for records without a lane.
    pub lanes: Vec<String>,
    /// The first name of the next query; `None` after the last lane.
    pub next: Option<String>,
}

/// A due record as listed in the index. A unit of work opens the record itself, which also proves
/// that these columns were not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRecord {
    /// The address of the record.
    pub address: Address,
    /// The due time, as store time in milliseconds.
    pub due: u64,
    /// The lane; empty: none.
    pub lane: String,
    /// The owner; empty: none.
    pub owner: String,
}

impl Database {
    /// Returns some of the lanes of `space`, from `first` up to but not including `end`, in which a
    /// record was due at `until`.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) async fn due_lanes(
        &self,
        space: Space,
        (first, end): (&str, &str),
        until: u64,
    ) -> Result<DueLanes, sqlx::Error> {
        let walk = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_as(NEXT_LANES).bind(space.number());
            query.bind(first).bind(LANES).bind(end).fetch_all(connection).await
        };
        let walked: Vec<(String, i64)> = self.readers().read(walk).await?;
        let is_over = u32::try_from(walked.len()).is_ok_and(|found| found < LANES);
        let last = walked.last().filter(|_| !is_over);
        let next = last.map(|(lane, _)| format!("{lane}\0"));
        let is_due = |(_, due): &(String, i64)| *due <= as_column(until);
        let lanes = walked.into_iter().filter(is_due).map(|(lane, _)| lane).collect();
        Ok(DueLanes { lanes, next })
    }

    /// Returns the first `limit` records of a lane of `space` that were due at `until`, oldest
    /// first.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) async fn due_in_lane(
        &self,
        (space, lane): (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<DueRecord>, sqlx::Error> {
        let find = async |connection: &mut SqliteConnection| {
            let query = sqlx::query(IN_LANE).bind(space.number()).bind(lane);
            query.bind(as_column(until)).bind(limit).fetch_all(connection).await
        };
        let found = self.readers().read(find).await?;
        found.iter().filter_map(|row| parse_due(row).transpose()).collect()
    }

    /// Counts the records of a lane of `space` with a due time; counting stops at `at_most`.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) async fn count_in_lane(
        &self,
        (space, lane): (Space, &str),
        at_most: u32,
    ) -> Result<u32, sqlx::Error> {
        let count = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_scalar(IN_LANE_COUNT).bind(space.number()).bind(lane);
            query.bind(at_most).fetch_one(connection).await
        };
        self.readers().read(count).await
    }

    /// Returns the earliest due time later than `moment`, of any kind of record; without a moment,
    /// the earliest of all.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) async fn next_due(&self, moment: Option<u64>) -> Result<Option<u64>, sqlx::Error> {
        let find = async |connection: &mut SqliteConnection| {
            let query = sqlx::query_scalar(NEXT_DUE).bind(moment.map_or(-1, as_column));
            query.fetch_one(connection).await
        };
        let earliest: Option<i64> = self.readers().read(find).await?;
        Ok(earliest.and_then(|due| u64::try_from(due).ok()))
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

fn as_column(moment: u64) -> i64 {
    i64::try_from(moment).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::testing::{ScratchDirectory, edit, plan, put_indexed};
    use crate::{IndexColumns, Store};

    /// Puts leases in 3 lanes (no lease of `quiet` is ever due), and a timer and a token without a
    /// lane.
    async fn sample(scratch: &ScratchDirectory) -> Arc<Store> {
        let store = scratch.open().await;
        for (space, key, due, lane) in [
            (Space::Lease, "late", Some(300), "orders"),
            (Space::Lease, "early", Some(100), "orders"),
            (Space::Lease, "other", Some(200), "stock"),
            (Space::Timer, "timer", Some(150), ""),
            (Space::Token, "token", Some(120), ""),
            (Space::Lease, "never", None, "orders"),
            (Space::Lease, "not at all", None, "quiet"),
        ] {
            put_due(&store, Address::new(space, key), due, lane).await;
        }
        store
    }

    async fn put_due(store: &Arc<Store>, address: Address, due: Option<u64>, lane: &str) {
        let index = IndexColumns { due, lane: lane.into(), owner: String::new() };
        put_indexed(store, address, "x", index).await;
    }

    /// A name after all lanes.
    const END: &str = "~";

    async fn lanes(store: &Store, space: Space, until: u64) -> Vec<String> {
        let (mut all, mut next) = (Vec::new(), Some(String::new()));
        while let Some(first) = next {
            let found = store.due_lanes(space, (&first, END), until).await.unwrap();
            all.extend(found.lanes);
            next = found.next;
        }
        all
    }

    async fn keys(store: &Store, lane: (Space, &str), until: u64, limit: u32) -> Vec<String> {
        let found = store.due_in_lane(lane, until, limit).await.unwrap();
        found.into_iter().map(|due| due.address.key).collect()
    }

    #[tokio::test]
    async fn due_lanes_are_found_by_kind_and_time() {
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        assert_eq!(lanes(&store, Space::Lease, u64::MAX).await, ["orders", "stock"]);
        assert_eq!(lanes(&store, Space::Lease, 199).await, ["orders"]);
        assert!(lanes(&store, Space::Lease, 99).await.is_empty());
        assert_eq!(lanes(&store, Space::Timer, 150).await, [""]);
        assert!(lanes(&store, Space::Reservation, u64::MAX).await.is_empty());
        for lane in 0..600 {
            let address = Address::new(Space::Reservation, lane.to_string());
            put_due(&store, address, Some(lane % 2), &format!("lane {lane:03}")).await;
        }
        assert_eq!(lanes(&store, Space::Reservation, 1).await.len(), 600);
        assert_eq!(lanes(&store, Space::Reservation, 0).await.len(), 300);
    }

    #[tokio::test]
    async fn due_records_of_a_lane_come_oldest_first() {
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        let orders = (Space::Lease, "orders");
        assert_eq!(keys(&store, orders, u64::MAX, 9).await, ["early", "late"]);
        assert_eq!(keys(&store, orders, u64::MAX, 1).await, ["early"]);
        assert_eq!(keys(&store, orders, 299, 9).await, ["early"]);
        assert!(keys(&store, orders, 99, 9).await.is_empty());
        assert!(keys(&store, orders, u64::MAX, 0).await.is_empty());
        assert_eq!(keys(&store, (Space::Token, ""), 120, 9).await, ["token"]);
    }

    #[tokio::test]
    async fn lane_records_are_counted_up_to_limit() {
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        let count =
            async |lane, at_most| store.count_in_lane((Space::Lease, lane), at_most).await.unwrap();
        assert_eq!(count("orders", 9).await, 2, "rows without a due time are not counted");
        assert_eq!(count("orders", 1).await, 1);
        assert_eq!(count("orders", 0).await, 0);
        assert_eq!(count("stock", 9).await, 1);
        assert_eq!(count("quiet", 9).await, 0);
        assert_eq!(store.count_in_lane((Space::Timer, ""), 9).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn next_due_time_is_earliest_optionally_after_moment() {
        let scratch = ScratchDirectory::new();
        let store = scratch.open().await;
        assert_eq!(store.next_due().await.unwrap(), None);
        drop(store);
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        assert_eq!(store.next_due().await.unwrap(), Some(100));
        assert_eq!(store.next_due_after(100).await.unwrap(), Some(120));
        assert_eq!(store.next_due_after(300).await.unwrap(), None);
        assert_eq!(store.next_due_after(u64::MAX).await.unwrap(), None);
    }

    #[tokio::test]
    async fn record_due_at_time_zero_is_found() {
        let scratch = ScratchDirectory::new();
        let store = scratch.open().await;
        put_due(&store, Address::new(Space::Timer, "t"), Some(0), "").await;
        assert_eq!(store.next_due().await.unwrap(), Some(0));
        assert_eq!(keys(&store, (Space::Timer, ""), 0, 9).await, ["t"]);
    }

    #[tokio::test]
    async fn rows_due_before_1970_are_ignored() {
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        edit(&store, "UPDATE record SET due = -5 WHERE key = 'early'").await;
        assert_eq!(keys(&store, (Space::Lease, "orders"), u64::MAX, 9).await, ["late"]);
        assert_eq!(store.next_due().await.unwrap(), Some(120));
    }

    #[tokio::test]
    async fn finding_due_work_walks_over_no_backlog() {
        let scratch = ScratchDirectory::new();
        let store = sample(&scratch).await;
        for (statement, seeks) in [
            (NEXT_LANES, "record_by_lane_due (space=? AND lane>? AND lane<?"),
            (NEXT_LANES, "record_by_lane_due (space=? AND lane=?"),
            (IN_LANE, "record_by_lane_due (space=? AND lane=? AND due<?)"),
            (IN_LANE_COUNT, "COVERING INDEX record_by_lane_due (space=? AND lane=?"),
            (NEXT_DUE, "COVERING INDEX record_by_due (due>?)"),
        ] {
            let plan = plan(&store, statement).await;
            assert!(plan.contains(seeks), "{plan}");
            assert!(!plan.contains("SCAN record") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    /// Puts leases of one lane until there are `backlog`.
    async fn fill(store: &Arc<Store>, backlog: u32) {
        let mut written = store.count(Space::Lease, "", backlog).await.unwrap();
        while written < backlog {
            let mut unit = store.begin();
            for _ in 0..1_000 {
                let index = IndexColumns { due: Some(1), lane: "m/l".into(), owner: String::new() };
                let address = Address::new(Space::Lease, format!("{written:06}"));
                unit.put(address, b"x".to_vec(), index);
                written += 1;
            }
            unit.commit().await.unwrap();
        }
    }

    /// Counts the steps of SQLite's virtual machine on the reading connection, which a store with
    /// one reader at a time uses for all reads. A walk over records takes steps for each record.
    async fn count_steps(store: &Arc<Store>) -> Arc<AtomicU64> {
        let steps = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&steps);
        let set = async move |connection: &mut SqliteConnection| {
            let mut handle = connection.lock_handle().await?;
            handle.set_progress_handler(1, move || {
                counter.fetch_add(1, Ordering::Relaxed);
                true
            });
            Ok::<(), sqlx::Error>(())
        };
        store.database().readers().read(set).await.unwrap();
        steps
    }

    async fn look(store: &Store) {
        assert_eq!(lanes(store, Space::Lease, 9).await, ["m/l"]);
        assert_eq!(keys(store, (Space::Lease, "m/l"), 9, 8).await.len(), 8);
        assert_eq!(store.next_due_after(9).await.unwrap(), None);
    }

    #[tokio::test]
    async fn due_work_search_cost_ignores_backlog_length() {
        let scratch = ScratchDirectory::new();
        let store = scratch.open().await;
        let steps = count_steps(&store).await;
        let mut costs = Vec::new();
        for backlog in [1_000, 10_000] {
            fill(&store, backlog).await;
            // The first look prepares the statements.
            look(&store).await;
            let before = steps.load(Ordering::Relaxed);
            look(&store).await;
            costs.push(steps.load(Ordering::Relaxed) - before);
        }
        assert!(costs[0] > 0, "no step was counted");
        assert!(costs[1] < costs[0] * 2, "steps for 1,000 and 10,000 records: {costs:?}");
    }
}
