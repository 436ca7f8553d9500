//! The backlog: rows that are due and not done.
//!
//! This file prevents a count that takes longer with a longer backlog: the rows of a lane, the rows
//! of all lanes and the lanes are counted up to a maximum.

use super::lane_order::{BEHIND_ALL, IN_LANES, mount_of};
use bulkhead_store::{Space, Store, StoreFault};
use std::collections::BTreeMap;

/// Maximum number of rows counted in a lane.
const MAX_LANE_ROWS: u32 = 1_000;
/// Maximum number of rows counted in all lanes. Each further lane counts as one row.
const MAX_ROWS: u32 = 5_000;
/// Maximum number of lanes whose rows are counted. Each further lane counts as one row.
const MAX_COUNTED_LANES: u32 = 256;
/// Maximum number of queries for the lanes of a kind of row, each for 256 lanes. Rows of further
/// lanes, and so of their mounts, do not count.
const MAX_LANE_QUERIES: usize = 64;

/// The rows that are due and not done, with the rows whose work is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueBacklog {
    /// Number of leases, reservations and timers, by the uuid of their mount.
    pub mounts: BTreeMap<String, u64>,
    /// Number of tokens.
    pub tokens: u64,
    /// Number of keys to rotate.
    pub keys: u64,
    /// Earliest due time, in milliseconds of store time. An ended token, whose row is being
    /// removed, has no due time.
    pub oldest: Option<u64>,
    /// True if not every row was counted, because a maximum was met.
    pub is_capped: bool,
}

/// A count of due rows, lane by lane.
struct LaneCounter<'a> {
    store: &'a Store,
    /// Store time, in milliseconds.
    now: u64,
    lanes_left: u32,
    rows_left: u32,
    /// True if a lane was not looked for.
    has_more_lanes: bool,
}

impl DueBacklog {
    /// Counts the backlog at the present store time.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreFault> {
        let now = store.now();
        if store.next_due().await?.is_none_or(|due| due > now) {
            return Ok(Self::default());
        }
        let oldest = store.next_due_after(0).await?.filter(|due| *due <= now);
        let (lanes_left, rows_left) = (MAX_COUNTED_LANES, MAX_ROWS);
        let has_more_lanes = false;
        let mut counter = LaneCounter { store, now, lanes_left, rows_left, has_more_lanes };
        let tokens = counter.count((Space::Token, "")).await?;
        let keys = counter.count((Space::Core, "")).await?;
        let mut mounts = BTreeMap::new();
        for space in IN_LANES {
            counter.count_kind(space, &mut mounts).await?;
        }
        let is_capped = counter.is_capped();
        Ok(Self { mounts, tokens, keys, oldest, is_capped })
    }
}

impl LaneCounter<'_> {
    /// Adds the due rows of a kind, by the uuid of their mount.
    async fn count_kind(
        &mut self,
        space: Space,
        mounts: &mut BTreeMap<String, u64>,
    ) -> Result<(), StoreFault> {
        let mut first = String::new();
        for _ in 0..MAX_LANE_QUERIES {
            let found = self.store.due_lanes(space, (&first, BEHIND_ALL), self.now).await?;
            for lane in &found.lanes {
                // A lane that `due_lanes` returns has a due row.
                let count = self.count((space, lane)).await?.max(1);
                *mounts.entry(mount_of(lane).to_owned()).or_default() += count;
            }
            let Some(next) = found.next else { return Ok(()) };
            first = next;
        }
        self.has_more_lanes = true;
        Ok(())
    }

    /// Returns whether a maximum was met.
    fn is_capped(&self) -> bool {
        self.lanes_left == 0 || self.rows_left == 0 || self.has_more_lanes
    }

    /// Counts the due rows of a lane; 0 if the maximum of lanes or rows is reached.
    async fn count(&mut self, lane: (Space, &str)) -> Result<u64, StoreFault> {
        let limit = MAX_LANE_ROWS.min(self.rows_left);
        if self.lanes_left == 0 || limit == 0 {
            return Ok(0);
        }
        self.lanes_left -= 1;
        let rows = self.store.due_in_lane(lane, self.now, limit).await?;
        let count = u32::try_from(rows.len()).unwrap_or(limit);
        self.rows_left = self.rows_left.saturating_sub(count);
        Ok(u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TemporaryStore;
    use bulkhead_store::{Address, IndexColumns};
    use std::sync::Arc;

    async fn put(store: &Arc<Store>, address: Address, due: u64, lane: &str) {
        let mut unit = store.begin();
        let index = IndexColumns { due: Some(due), lane: lane.to_owned(), owner: String::new() };
        unit.put(address, b"{}".to_vec(), index);
        unit.commit().await.unwrap();
    }

    #[tokio::test]
    async fn due_rows_count_by_mount_without_coming_rows() {
        let temporary = TemporaryStore::new("backlog").await;
        let store = &temporary.store;
        let now = store.now();
        assert_eq!(DueBacklog::read(store).await.unwrap(), DueBacklog::default());
        for (space, key, due, lane) in [
            (Space::Lease, "a/1", now - 7_000, "a/orders"),
            (Space::Lease, "a/2", now - 1, "a/given up/orders"),
            (Space::Lease, "a/3", now + 60_000, "a/orders"),
            (Space::Timer, "b/1", now - 1, "b/"),
            (Space::Token, "ended", 0, ""),
            (Space::Core, "key", now - 1, ""),
            (Space::Reservation, "c/1", now + 60_000, "c/"),
        ] {
            put(store, Address::new(space, key), due, lane).await;
        }
        let mounts = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let oldest = Some(now - 7_000);
        let expected = DueBacklog { mounts, tokens: 1, keys: 1, oldest, is_capped: false };
        assert_eq!(DueBacklog::read(store).await.unwrap(), expected);
        temporary.end().await;
    }

    #[tokio::test]
    async fn lanes_and_rows_are_counted_up_to_maximum() {
        let temporary = TemporaryStore::new("backlog-maximum").await;
        let store = &temporary.store;
        let mut unit = store.begin();
        for row in 0..=MAX_LANE_ROWS {
            let index = IndexColumns { due: Some(1), lane: "a/x".into(), owner: String::new() };
            unit.put(Address::new(Space::Lease, format!("a/{row}")), b"{}".to_vec(), index);
        }
        for lane in 0..=MAX_COUNTED_LANES {
            let lane = format!("b/{lane:03}");
            for row in ["1", "2"] {
                let index = IndexColumns { due: Some(2), lane: lane.clone(), owner: String::new() };
                unit.put(Address::new(Space::Timer, format!("{lane}/{row}")), b"{}".into(), index);
            }
        }
        unit.commit().await.unwrap();
        let backlog = DueBacklog::read(store).await.unwrap();
        assert_eq!(backlog.mounts["a"], u64::from(MAX_LANE_ROWS));
        // The first three lanes are those of `a`, of tokens and of keys.
        assert_eq!(backlog.mounts["b"], u64::from(2 * (MAX_COUNTED_LANES - 3) + 4));
        assert_eq!((backlog.oldest, backlog.is_capped), (Some(1), true));
        temporary.end().await;
    }
}
