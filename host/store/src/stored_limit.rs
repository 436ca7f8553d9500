//! The rule for which records count for a mount, and the limit of a mount's bytes.
//! `schema/0004.sql` counts by the same rule.

use crate::fault::StoreFault;
use crate::record::{Address, Space};

/// Bytes of a row besides the texts and the sealed body.
const ROW_BYTES: usize = 64;

/// The limit of the bytes that a mount stores.
#[derive(Debug)]
pub struct StoredLimit {
    /// The first segment of the mount's keys.
    pub mount: String,
    /// Maximum bytes of the mount's rows: keys, values and index entries.
    pub most: u64,
    /// The mount's path, for the operator.
    pub name: String,
    /// The advice at the end of a refusal.
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

/// Returns the mount for which the record counts, if any.
pub(crate) fn mount_of(address: &Address) -> Option<&str> {
    let is_counted =
        matches!(address.space, Space::Data | Space::Lease | Space::Reservation | Space::Timer);
    let (mount, _) = address.key.split_once('/').filter(|(mount, _)| !mount.is_empty())?;
    is_counted.then_some(mount)
}

/// Returns the bytes for which a record counts; `sealed` is the length of the sealed body.
pub(crate) fn size(address: &Address, lane: &str, owner: &str, sealed: usize) -> u64 {
    let size = 2 * (address.key.len() + lane.len() + owner.len()) + sealed + ROW_BYTES;
    size as u64
}
