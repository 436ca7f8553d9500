//! The reads of an open database.

use std::collections::BTreeMap;

use crate::activity::ConnectionUsage;
use bulkhead_record::due::{DueRecord, LaneHead};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space};
use bulkhead_record::rows::SealedRow;

use super::{Database, DatabaseReader};

/// Reads. Each sees the newest committed state, and fails with [`StoreFault::Unavailable`] if the
/// database cannot be read. Reads of rows fail with [`StoreFault::Damaged`] for a row with a shape
/// that was never written.
impl Database {
    /// Returns the row at `address`.
    ///
    /// # Errors
    /// As all reads of rows.
    pub(crate) async fn find_row(
        &self,
        address: &Address,
    ) -> Result<Option<SealedRow>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.find_row(address).await,
            Self::Postgres(database) => database.find_row(address).await,
        }
    }

    /// Returns the first `limit` keys of `range`, in the order of their bytes.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn list_keys(
        &self,
        range: &KeyRange,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.list_keys(range, limit).await,
            Self::Postgres(database) => database.list_keys(range, limit).await,
        }
    }

    /// Passes the first `limit` rows of `range`, in the order of their keys and of one state, to
    /// `take`, until `take` returns `false`. The rows after that are not fetched.
    ///
    /// # Errors
    /// As all reads of rows.
    pub(crate) async fn visit_rows(
        &self,
        range: &KeyRange,
        limit: u32,
        take: impl FnMut(SealedRow) -> bool,
    ) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(database) => database.visit_rows(range, limit, take).await,
            Self::Postgres(database) => database.visit_rows(range, limit, take).await,
        }
    }

    /// Returns the first `limit` rows of a kind that belong to an owner and have a number above
    /// `after`, with their keys, in the order of their numbers. Numbers start at 1 and grow with
    /// the first write of a row; a row that is deleted and written again has a new number.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn list_owned(
        &self,
        owner: (Space, &str),
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, String)>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.list_owned(owner, after, limit).await,
            Self::Postgres(database) => database.list_owned(owner, after, limit).await,
        }
    }

    /// Counts the records of `range`; counting stops at `at_most`.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn count(&self, range: &KeyRange, at_most: u32) -> Result<u32, StoreFault> {
        match self {
            Self::Sqlite(database) => database.count(range, at_most).await,
            Self::Postgres(database) => database.count(range, at_most).await,
        }
    }

    /// Counts the records whose owners are in `owners`; counting stops at `at_most`. Records
    /// without an owner are not counted.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn count_owned(
        &self,
        owners: &KeyRange,
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        match self {
            Self::Sqlite(database) => database.count_owned(owners, at_most).await,
            Self::Postgres(database) => database.count_owned(owners, at_most).await,
        }
    }

    /// Returns the record that is due first in each of the first
    /// [`LANES`](bulkhead_record::due::LANES) lanes of `space`, from the name `first` up to but not
    /// including the name `end`, in the order of the names. The cost does not depend on the number
    /// of records in a lane.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn lane_heads(
        &self,
        space: Space,
        bounds: (&str, &str),
    ) -> Result<Vec<LaneHead>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.lane_heads(space, bounds).await,
            Self::Postgres(database) => database.lane_heads(space, bounds).await,
        }
    }

    /// Returns the first `limit` records of a lane that were due at `until` (store time,
    /// milliseconds), oldest first, and among equals by their numbers. Records of a kind that this
    /// version does not know, or due before 1970, are left out.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn due_in_lane(
        &self,
        lane: (Space, &str),
        until: u64,
        limit: u32,
    ) -> Result<Vec<DueRecord>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.due_in_lane(lane, until, limit).await,
            Self::Postgres(database) => database.due_in_lane(lane, until, limit).await,
        }
    }

    /// Counts the records of a lane with a due time; counting stops at `at_most`.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn count_in_lane(
        &self,
        lane: (Space, &str),
        at_most: u32,
    ) -> Result<u32, StoreFault> {
        match self {
            Self::Sqlite(database) => database.count_in_lane(lane, at_most).await,
            Self::Postgres(database) => database.count_in_lane(lane, at_most).await,
        }
    }

    /// Returns the earliest due time later than `moment`, of any kind of record; without a moment,
    /// the earliest since 1970.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn next_due(&self, moment: Option<u64>) -> Result<Option<u64>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.next_due(moment).await,
            Self::Postgres(database) => database.next_due(moment).await,
        }
    }

    /// Returns the stored bytes of each mount with a row.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn stored_by_mount(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        match self {
            Self::Sqlite(database) => database.stored_by_mount().await,
            Self::Postgres(database) => database.stored_by_mount().await,
        }
    }

    /// Begins a long read of one state, on a connection of its own: the readers above and the
    /// writes go on.
    ///
    /// # Errors
    /// As all reads.
    pub(crate) async fn begin_snapshot(&self) -> Result<DatabaseReader, StoreFault> {
        match self {
            Self::Sqlite(database) => database.begin_snapshot().await.map(DatabaseReader::Sqlite),
            Self::Postgres(database) => {
                database.begin_snapshot().await.map(DatabaseReader::Postgres)
            }
        }
    }
}

/// The connections of the reads.
impl Database {
    /// Returns the use of the connections to a server; `None` without a server.
    pub(crate) fn connection_usage(&self) -> Option<ConnectionUsage> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(database) => Some(database.connection_usage()),
        }
    }
}
