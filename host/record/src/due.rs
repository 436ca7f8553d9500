//! Due work, as queries find it: lanes with due records, and due records.
//!
//! This file prevents the cost of finding due work from growing with the backlog. Due records are
//! queried lane by lane; the oldest record of a lane is the first index entry of the lane, however
//! many records follow.
//!
//! The caller tracks claims: a query returns the same record again until the caller knows that the
//! record is busy.

use crate::record::Address;
use crate::rows::column;

/// Maximum number of lanes per query.
pub const LANES: u32 = 256;

/// The first record of a lane.
pub struct LaneHead {
    /// Name of the lane.
    pub lane: String,
    /// Store time in milliseconds, as stored.
    pub due: i64,
}

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

impl DueLanes {
    /// Returns the lanes that were due at `until` (store time, milliseconds). `heads` are the first
    /// records of at most [`LANES`] lanes, in the order of the names.
    pub fn of_heads(heads: Vec<LaneHead>, until: u64) -> DueLanes {
        let is_over = u32::try_from(heads.len()).is_ok_and(|found| found < LANES);
        let last = heads.last().filter(|_| !is_over);
        // Nothing lies between a text and the same text followed by a zero byte.
        let next = last.map(|head| format!("{}\0", head.lane));
        let is_due = |head: &LaneHead| head.due <= column(until);
        let lanes = heads.into_iter().filter(is_due).map(|head| head.lane).collect();
        DueLanes { lanes, next }
    }
}
