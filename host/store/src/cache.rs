//! Records that were read lately, opened, so that a token or role that every request needs is not fetched and
//! decrypted every time.
//!
//! The fault this file stops: an old record that stays after a commit. A commit throws out what it wrote before it is
//! acknowledged, and a read that began before a commit leaves nothing behind. One process owns the directory, so
//! nobody else can change a record. A unit of work that used an old record meanwhile is refused at its commit, by the
//! stamp.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::record::{Address, Record, Space};
use crate::rows::Stamp;

/// Bytes of bodies and keys that are kept; beyond it the cache starts anew.
const MOST_BYTES: usize = 64 << 20;

/// A record and the stamp of its row; `None` where there is none.
pub(crate) type Found = Option<(Stamp, Record)>;

#[derive(Default)]
struct Kept {
    records: HashMap<Address, Found>,
    bytes: usize,
    commits: u64,
}

/// What is kept of the committed state.
#[derive(Default)]
pub(crate) struct Cache {
    kept: Mutex<Kept>,
}

impl Cache {
    /// What is known of `address`, or the number of commits so far, to be given to [`Cache::keep`] with what is read.
    pub(crate) fn look(&self, address: &Address) -> Result<Found, u64> {
        let kept = self.lock();
        kept.records.get(address).cloned().ok_or(kept.commits)
    }

    /// Keeps what was read, unless something was committed since `commits` were counted.
    pub(crate) fn keep(&self, commits: u64, address: &Address, found: &Found) {
        let mut kept = self.lock();
        if !is_hot(address.space) || kept.commits != commits {
            return;
        }
        let bytes = size(address, found);
        if kept.bytes + bytes > MOST_BYTES {
            kept.records.clear();
            kept.bytes = 0;
        }
        if kept.records.insert(address.clone(), found.clone()).is_none() {
            kept.bytes += bytes;
        }
    }

    /// Throws out what a commit wrote, or may have written.
    pub(crate) fn forget<'a>(&self, written: impl Iterator<Item = &'a Address>) {
        let mut kept = self.lock();
        kept.commits += 1;
        for address in written {
            if let Some(found) = kept.records.remove(address) {
                kept.bytes = kept.bytes.saturating_sub(size(address, &found));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leases, reservations and timers are many and read once or twice.
fn is_hot(space: Space) -> bool {
    matches!(space, Space::Core | Space::Data | Space::Token)
}

fn size(address: &Address, found: &Found) -> usize {
    address.key.len() + found.as_ref().map_or(0, |(_, record)| record.body.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use crate::Index;
    use zeroize::Zeroizing;

    fn address() -> Address {
        Address::new(Space::Data, "role")
    }

    fn found(body: &[u8]) -> Found {
        Some((Stamp([1; 16]), Record { body: Zeroizing::new(body.to_vec()), index: Index::default() }))
    }

    fn body(cache: &Cache) -> Option<Vec<u8>> {
        let known = cache.look(&address()).ok()?;
        known.map(|(_, record)| record.body.to_vec())
    }

    #[test]
    fn what_was_read_is_known_until_it_is_written() {
        let cache = Cache::default();
        let commits = cache.look(&address()).err().unwrap();
        cache.keep(commits, &address(), &found(b"old"));
        assert_eq!(body(&cache).unwrap(), b"old");
        cache.forget([address()].iter());
        assert_eq!(body(&cache), None);
    }

    #[test]
    fn a_read_that_began_before_a_commit_leaves_nothing_behind() {
        let cache = Cache::default();
        let commits = cache.look(&address()).err().unwrap();
        cache.forget([].iter());
        cache.keep(commits, &address(), &found(b"old"));
        assert_eq!(body(&cache), None);
    }

    #[test]
    fn absence_is_known_too_and_leases_are_not_kept() {
        let cache = Cache::default();
        cache.keep(0, &address(), &None);
        assert!(matches!(cache.look(&address()), Ok(None)));
        let lease = Address::new(Space::Lease, "a");
        cache.keep(0, &lease, &found(b"x"));
        assert!(cache.look(&lease).is_err());
    }

    #[test]
    fn it_starts_anew_when_it_is_full() {
        let cache = Cache::default();
        for number in 0..70 {
            let large = vec![0; 1 << 20];
            cache.keep(0, &Address::new(Space::Data, number.to_string()), &found(&large));
        }
        let kept = cache.lock();
        assert!(kept.bytes <= MOST_BYTES && !kept.records.is_empty(), "{} bytes", kept.bytes);
    }
}
