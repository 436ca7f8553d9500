//! The numbers of leases, tokens, entities and groups, for monitoring.
//!
//! The store has no running counts, and a count reads an index. Many rows are therefore counted
//! from time to time alone, and a count ends at [`MAX_COUNTED`].

use crate::costly_reading::CostlyReading;
use crate::identity;
use bulkhead_store::{Space, Store};
use bulkhead_wire::failure::Failure;

/// Maximum number of rows of each kind that are counted.
const MAX_COUNTED: u32 = 1_000_000;
/// Number of rows of all kinds up to which each reader counts.
const CHEAP_COUNT: u64 = 10_000;

/// Numbers of rows, each at most 1,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Leases of secrets, also leases left for an operator.
    pub leases: u64,
    /// Stored tokens.
    pub tokens: u64,
    /// Service tokens with an end, because each such token is a lease. Batch tokens are not stored,
    /// and a root token without an end is not a lease.
    pub leased_tokens: u64,
    /// Entities of the identity store.
    pub entities: u64,
    /// Groups of the identity store.
    pub groups: u64,
}

impl RowCounts {
    async fn read(store: &Store) -> Result<Self, Failure> {
        Ok(Self {
            leases: store.count(Space::Lease, "", MAX_COUNTED).await?.into(),
            tokens: store.count(Space::Token, "", MAX_COUNTED).await?.into(),
            leased_tokens: store.count_in_lane((Space::Token, ""), MAX_COUNTED).await?.into(),
            entities: identity::count_entities(store, MAX_COUNTED).await?.into(),
            groups: identity::count_groups(store, MAX_COUNTED).await?.into(),
        })
    }

    /// Returns the number of all leases, of secrets and of tokens.
    #[must_use]
    pub fn all_leases(self) -> u64 {
        self.leases.saturating_add(self.leased_tokens)
    }

    fn is_costly(self) -> bool {
        let Self { leases, tokens, leased_tokens, entities, groups } = self;
        leases + tokens + leased_tokens + entities + groups > CHEAP_COUNT
    }
}

/// The last counts of an open store.
#[derive(Default)]
pub struct RowCounter {
    last: CostlyReading<RowCounts>,
}

impl RowCounter {
    /// Returns the numbers of rows. Numbers above 10,000 may be as old as twenty times the duration
    /// of a count.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub async fn read(&self, store: &Store) -> Result<RowCounts, Failure> {
        self.last.read(RowCounts::read(store), |counts| counts.is_costly()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TemporaryStore;
    use bulkhead_store::{Address, IndexColumns};

    #[tokio::test]
    async fn tokens_with_an_end_count_as_leases() {
        let temporary = TemporaryStore::new("row-counts").await;
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
        let counts = RowCounter::default().read(store).await.unwrap();
        let expected = RowCounts { leases: 2, tokens: 2, leased_tokens: 1, ..RowCounts::default() };
        assert_eq!((counts, counts.all_leases()), (expected, 3));
        temporary.end().await;
    }

    #[test]
    fn counts_of_many_rows_are_costly() {
        let few = RowCounts { tokens: CHEAP_COUNT, ..RowCounts::default() };
        assert!(!few.is_costly() && RowCounts { groups: 1, ..few }.is_costly());
    }
}
