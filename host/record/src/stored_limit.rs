//! The rule for which counter a record counts, and the limit of a counter's bytes.
//! `schema/0004.sql` and `schema/0005.sql` count by the same rule.
//!
//! A counter is a mount (the first segment of the keys of its rows), or a caller with the kind of
//! bytes that the host stores for the caller, such as `cubbyhole/<token>`. The kind with its slash
//! (`cubbyhole/`) names the sum of its callers.

use crate::fault::StoreFault;
use crate::record::{Address, Space};

/// Bytes of a row besides the texts and the sealed body.
const ROW_BYTES: usize = 64;

/// Kinds of bytes that the host itself stores for callers. The next segment of a key names the
/// caller.
const KINDS_OF_CALLERS: [&str; 2] = ["cubbyhole/", "wrapped-content/"];

/// The limit of the bytes of a counter.
#[derive(Debug)]
pub struct StoredLimit {
    /// A mount, a caller with the kind of its bytes, or the kind with its slash for all callers.
    pub counter: String,
    /// Maximum bytes of the rows: keys, values and index entries.
    pub most: u64,
    /// The noun of the refusal, such as `mount kv/`.
    pub name: String,
    /// The advice at the end of a refusal.
    pub remedy: String,
}

impl StoredLimit {
    /// Returns the refusal of `more` bytes beside `stored` bytes.
    pub fn refusal(&self, stored: u64, more: u64) -> StoreFault {
        let Self { name, most, remedy, .. } = self;
        StoreFault::OverLimit(format!(
            "{name} stores {stored} bytes and may store {most}, so {more} more were not stored; \
             {remedy}"
        ))
    }

    /// Returns the refusal of everything that would be stored besides `stored` bytes.
    pub fn full(&self, stored: u64) -> StoreFault {
        let Self { name, most, remedy, .. } = self;
        StoreFault::OverLimit(format!(
            "{name} stores {stored} bytes and may store {most}, so nothing more is stored; {remedy}"
        ))
    }
}

/// Returns the counters for which the record counts: none, a mount, or a caller and all callers.
pub fn counters_of(address: &Address) -> impl Iterator<Item = &str> {
    let (one, all) = match address.space {
        Space::Core => of_caller(&address.key),
        Space::Data | Space::Lease | Space::Reservation | Space::Timer => {
            let mount = address.key.split_once('/').map(|(mount, _)| mount);
            (mount.filter(|mount| !mount.is_empty()), None)
        }
        Space::Token | Space::Blob | Space::Claim => (None, None),
    };
    one.into_iter().chain(all)
}

/// Returns the counters of a caller and of all callers.
fn of_caller(key: &str) -> (Option<&str>, Option<&str>) {
    let kind = KINDS_OF_CALLERS.into_iter().find(|kind| key.starts_with(kind));
    let caller = kind.and_then(|kind| {
        let (caller, _) = key.get(kind.len()..)?.split_once('/')?;
        key.get(..kind.len() + caller.len()).filter(|_| !caller.is_empty())
    });
    (caller, kind.filter(|_| caller.is_some()))
}

/// Returns the bytes for which a record counts; `sealed` is the length of the sealed body.
pub fn size(address: &Address, lane: &str, owner: &str, sealed: usize) -> u64 {
    let size = 2 * (address.key.len() + lane.len() + owner.len()) + sealed + ROW_BYTES;
    size as u64
}
