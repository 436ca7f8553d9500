//! The number of all leases, for monitoring: leases of secrets and of tokens.
//!
//! The store has no running count, and a count reads an index. This file prevents monitoring from
//! keeping a reader of the database busy: a count of many leases is used again for twenty times as
//! long as the count took, and a count ends at [`MAX_COUNTED`].

use bulkhead_store::{Space, Store, StoreFault};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Maximum number of leases of each kind that are counted.
const MAX_COUNTED: u32 = 1_000_000;
/// Number of leases up to which each reader counts.
const CHEAP_COUNT: u64 = 10_000;
/// Life of a count of more leases, as a multiple of the count's duration.
const LIFE_FACTOR: u32 = 20;

/// Numbers of leases that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Leases of secrets, also leases left for an operator; at most 1,000,000.
    pub secrets: u64,
    /// Service tokens with an end, because each such token is a lease; at most 1,000,000. Batch
    /// tokens are not stored, and a root token without an end is not a lease.
    pub tokens: u64,
}

impl LeaseCounts {
    /// Returns the number of all leases.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.secrets.saturating_add(self.tokens)
    }
}

/// The last count.
#[derive(Default)]
pub struct LeaseCounter {
    /// The counts, and the time until which they are used. The lock makes other callers wait for a
    /// count instead of counting.
    last: Mutex<Option<(LeaseCounts, Instant)>>,
}

impl LeaseCounter {
    /// Returns the numbers of leases. Numbers above 10,000 may be as old as twenty times the
    /// duration of a count.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn read(&self, store: &Store) -> Result<LeaseCounts, StoreFault> {
        let mut last = self.last.lock().await;
        let began = Instant::now();
        if let Some((counts, _)) = last.filter(|(_, until)| began < *until) {
            return Ok(counts);
        }
        let secrets = store.count(Space::Lease, "", MAX_COUNTED).await?.into();
        let tokens = store.count_in_lane((Space::Token, ""), MAX_COUNTED).await?.into();
        let counts = LeaseCounts { secrets, tokens };
        let life: Duration = began.elapsed().saturating_mul(LIFE_FACTOR);
        *last = (counts.sum() > CHEAP_COUNT).then(|| (counts, Instant::now() + life));
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TemporaryStore;
    use bulkhead_store::{Address, IndexColumns};

    #[tokio::test]
    async fn tokens_with_an_end_count_as_leases() {
        let temporary = TemporaryStore::new("lease-counter").await;
        let store = &temporary.store;
        let mut unit = store.begin();
        let due = || IndexColumns { due: Some(9_000), ..IndexColumns::default() };
        for (space, key, index) in [
            (Space::Lease, "a", due()),
            (Space::Lease, "irrevocable", IndexColumns::default()),
            (Space::Reservation, "b", due()),
            (Space::Token, "service", due()),
            (Space::Token, "root", IndexColumns::default()),
        ] {
            unit.put(Address::new(space, key), b"x".to_vec(), index);
        }
        unit.commit().await.unwrap();
        let counter = LeaseCounter::default();
        let counts = counter.read(store).await.unwrap();
        assert_eq!(counts, LeaseCounts { secrets: 2, tokens: 1 });
        assert_eq!(*counter.last.lock().await, None, "few leases are counted again");
        assert_eq!(counts.sum(), 3);
        temporary.end().await;
    }

    #[tokio::test]
    async fn counts_are_used_again_for_a_while() {
        let temporary = TemporaryStore::new("lease-counts-again").await;
        let counter = LeaseCounter::default();
        let old =
            (LeaseCounts { secrets: 7, tokens: 8 }, Instant::now() + Duration::from_secs(600));
        *counter.last.lock().await = Some(old);
        assert_eq!(counter.read(&temporary.store).await.unwrap(), old.0);
        *counter.last.lock().await = Some((old.0, Instant::now()));
        assert_eq!(counter.read(&temporary.store).await.unwrap(), LeaseCounts::default());
        temporary.end().await;
    }
}
