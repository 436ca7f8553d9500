//! Counters of stored bytes, as queries ask for them.

use super::Store;
use bulkhead_record::committed_state::StateQuestions;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::stored_limit::StoredLimit;
use std::collections::BTreeMap;

impl Store {
    /// Checks that something can still be stored within `limit`. Without a query if memory knows
    /// that there is room.
    ///
    /// # Errors
    /// [`StoreFault::OverLimit`] if the limit is reached, [`StoreFault::Unavailable`] if the
    /// database cannot be read.
    pub async fn assert_room(&self, limit: &StoredLimit) -> Result<(), StoreFault> {
        if self.data.stored.has_room(&limit.counter, 1, limit.most) {
            return Ok(());
        }
        let mut questions = StateQuestions::default();
        questions.counters.insert(&limit.counter);
        let committed = self.database().read_state(questions).await?;
        let stored = committed.counters.values().sum();
        if stored >= limit.most { Err(limit.full(stored)) } else { Ok(()) }
    }

    /// Returns the bytes that each mount stores, by the first segment of the mount's keys: rows of
    /// data, leases, reservations and timers. Mounts without a row are left out.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn stored_bytes(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        self.database().stored_by_mount().await
    }
}
