//! The records that count for a mount, the bytes that they count for, and the most that a mount may
//! store. `schema/0004.sql` counts by the same rule.

use crate::fault::StoreFault;
use crate::record::{Address, Space};

/// What a row counts for besides its texts.
const ROW_BYTES: usize = 64;

/// The most bytes that a mount may store.
#[derive(Debug)]
pub struct StoredLimit {
    /// The first segment of the mount's keys.
    pub mount: String,
    /// Bytes of its rows: keys, values, and their places.
    pub most: u64,
    /// The mount as its operator knows it.
    pub name: String,
    /// How to allow more, or what else to do.
    pub remedy: String,
}

impl StoredLimit {
    pub(crate) fn refusal(&self, stored: u64, more: u64) -> StoreFault {
        let Self { name, most, remedy, .. } = self;
        StoreFault::OverLimit(format!(
            "mount {name} stores {stored} bytes and may store {most}, so that {more} more were not \
             stored; {remedy}"
        ))
    }
}

/// The mount that a record counts for.
pub(crate) fn mount_of(address: &Address) -> Option<&str> {
    let is_counted =
        matches!(address.space, Space::Data | Space::Lease | Space::Reservation | Space::Timer);
    let (mount, _) = address.key.split_once('/').filter(|(mount, _)| !mount.is_empty())?;
    is_counted.then_some(mount)
}

/// The bytes that a record counts for, of which so many are sealed.
pub(crate) fn size(address: &Address, lane: &str, owner: &str, sealed: usize) -> u64 {
    let size = 2 * (address.key.len() + lane.len() + owner.len()) + sealed + ROW_BYTES;
    size as u64
}
