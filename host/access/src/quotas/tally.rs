//! Running count of a quota's leases, so that not every request counts rows.
//!
//! A count is exact at its moment. Afterwards, calls that were let in are added and calls that
//! stored nothing are subtracted; ended leases are not subtracted. The number may be too high,
//! never too low. When the number reaches the quota, the leases are counted again, but rarely: a
//! client in a loop costs a tenth of a database reader's time.

use bulkhead_store::StoreFault;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// Length of the pause after a count, as a multiple of the count's duration.
const COUNT_PAUSE_FACTOR: u32 = 10;

/// The running count of a quota.
#[derive(Default)]
pub(super) struct LeaseTally {
    /// Number of calls that were let in and have not ended; their leases may not be stored yet.
    under_way: Arc<AtomicU64>,
    known: Arc<Mutex<TallyState>>,
    /// Lock of the call that checks the quota; other calls wait while this call counts.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct TallyState {
    /// Upper bound of stored leases and calls that may create a lease; `None` before the first
    /// count.
    taken: Option<u64>,
    /// Number of places returned since the latest count began.
    given_back: u64,
    /// Time before which no new count may begin.
    rests_until: Option<Instant>,
}

/// The place of a call that may create a lease. The lease counts from now on, even if the call is
/// interrupted; only a call that certainly stored nothing [gives its place back](Self::give_back).
#[must_use]
pub struct LeaseSlot {
    under_way: Arc<AtomicU64>,
    known: Arc<Mutex<TallyState>>,
}

impl LeaseSlot {
    /// Gives back the place of a call that stored neither a lease nor a reservation.
    pub fn give_back(self) {
        // Together with the end of the call, so that a new count sees both changes or neither.
        let state = Arc::clone(&self.known);
        let mut state = sync::lock(&state);
        state.taken = state.taken.map(|taken| taken.saturating_sub(1));
        state.given_back += 1;
        drop(self);
    }
}

impl Drop for LeaseSlot {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LeaseTally {
    /// Returns a tally with the same running calls and without a count.
    pub(super) fn without_count(&self) -> Self {
        Self { under_way: Arc::clone(&self.under_way), ..Self::default() }
    }

    /// Lets a call in if there are fewer than `most` leases; `count` counts the stored leases.
    ///
    /// # Errors
    /// The error of `count`.
    pub(super) async fn admit(
        &self,
        most: u64,
        count: impl AsyncFnOnce() -> Result<u64, StoreFault>,
    ) -> Result<Option<LeaseSlot>, StoreFault> {
        let _alone = self.asking.lock().await;
        if let Some(under_way) = self.begin_count(most) {
            let began = Instant::now();
            let stored = count().await?;
            let ended = Instant::now();
            let pause = ended.duration_since(began).saturating_mul(COUNT_PAUSE_FACTOR);
            let mut state = sync::lock(&self.known);
            let taken = stored.saturating_add(under_way).saturating_sub(state.given_back);
            state.taken = Some(taken);
            state.rests_until = ended.checked_add(pause);
        }
        let mut state = sync::lock(&self.known);
        if !state.has_room(most) {
            return Ok(None);
        }
        state.taken = state.taken.map(|taken| taken + 1);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let (under_way, state) = (Arc::clone(&self.under_way), Arc::clone(&self.known));
        Ok(Some(LeaseSlot { under_way, known: state }))
    }

    /// Returns the number of running calls if there is no room and the leases must be counted.
    /// Running calls are read before the rows: a call that ends in between is counted twice instead
    /// of not at all.
    fn begin_count(&self, most: u64) -> Option<u64> {
        let mut state = sync::lock(&self.known);
        if state.has_room(most) || state.rests_until.is_some_and(|end| Instant::now() < end) {
            return None;
        }
        state.given_back = 0;
        Some(self.under_way.load(Ordering::SeqCst))
    }
}

impl TallyState {
    fn has_room(&self, most: u64) -> bool {
        self.taken.is_some_and(|taken| taken < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// The leases of a store, and the number of counts.
    #[derive(Default)]
    struct CountedStore {
        leases: AtomicU64,
        counts: AtomicU32,
        /// Duration of a count, in milliseconds.
        takes: u64,
    }

    impl CountedStore {
        async fn ask(&self, tally: &LeaseTally, most: u64) -> Option<LeaseSlot> {
            let count = async || {
                if self.takes > 0 {
                    tokio::time::sleep(Duration::from_millis(self.takes)).await;
                }
                self.counts.fetch_add(1, Ordering::SeqCst);
                Ok(self.leases.load(Ordering::SeqCst))
            };
            tally.admit(most, count).await.unwrap()
        }

        /// As [`Self::ask`], after the pause between counts.
        async fn ask_later(&self, tally: &LeaseTally, most: u64) -> Option<LeaseSlot> {
            rest(tally).await;
            self.ask(tally, most).await
        }

        /// Runs a call that creates a lease and ends; returns `false` if the call was not let in.
        async fn lease(&self, tally: &LeaseTally, most: u64) -> bool {
            let Some(_place) = self.ask(tally, most).await else { return false };
            self.leases.fetch_add(1, Ordering::SeqCst);
            true
        }
    }

    /// Waits for the end of the pause between counts.
    async fn rest(tally: &LeaseTally) {
        let end = sync::lock(&tally.known).rests_until;
        if let Some(end) = end {
            tokio::time::sleep_until(end).await;
        }
    }

    #[tokio::test]
    async fn lease_tally_stops_at_maximum_after_two_counts() {
        let (tally, stored) = (LeaseTally::default(), CountedStore::default());
        for _ in 0..100 {
            assert!(stored.lease(&tally, 100).await);
        }
        assert_eq!(stored.counts.load(Ordering::SeqCst), 1);
        assert!(stored.ask_later(&tally, 100).await.is_none());
        assert_eq!(stored.counts.load(Ordering::SeqCst), 2);
        assert!(stored.ask(&tally, 101).await.is_some(), "a quota that was raised");
    }

    #[tokio::test]
    async fn calls_in_flight_hold_quota_places_until_end() {
        let (tally, stored) = (LeaseTally::default(), CountedStore::default());
        let first = stored.ask(&tally, 2).await.unwrap();
        let second = stored.ask(&tally, 2).await.unwrap();
        assert!(stored.ask(&tally, 2).await.is_none());
        stored.leases.fetch_add(1, Ordering::SeqCst);
        drop(first);
        let none = stored.ask_later(&tally, 2).await.is_none();
        assert!(none, "a lease, and a call that may get one");
        drop(second);
        assert!(stored.ask_later(&tally, 2).await.is_some(), "the second call got none");
    }

    #[tokio::test]
    async fn call_without_lease_returns_quota_place_at_once() {
        let (tally, stored) =
            (LeaseTally::default(), CountedStore { takes: 20, ..CountedStore::default() });
        for _ in 0..100 {
            stored.ask(&tally, 5).await.unwrap().give_back();
        }
        for _ in 0..5 {
            assert!(stored.lease(&tally, 5).await);
        }
        assert!(stored.ask(&tally, 5).await.is_none());
        assert_eq!(stored.counts.load(Ordering::SeqCst), 1, "nothing had to be counted again");
        assert_eq!(tally.under_way.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn quota_place_returned_during_count_is_free() {
        let (tally, stored) = (LeaseTally::default(), CountedStore::default());
        let failing = stored.ask(&tally, 1).await.unwrap();
        rest(&tally).await;
        let count = async || {
            failing.give_back();
            Ok(0)
        };
        assert!(tally.admit(1, count).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn looping_client_causes_lease_counts_at_bounded_rate() {
        let (tally, stored) =
            (LeaseTally::default(), CountedStore { takes: 20, ..CountedStore::default() });
        stored.leases.store(5, Ordering::SeqCst);
        let began = Instant::now();
        while stored.counts.load(Ordering::SeqCst) < 3 {
            assert!(stored.ask(&tally, 5).await.is_none());
            tokio::task::yield_now().await;
        }
        let least = 2 * stored.takes * (1 + u64::from(COUNT_PAUSE_FACTOR));
        assert!(began.elapsed() >= Duration::from_millis(least), "counted too often");
        stored.leases.store(4, Ordering::SeqCst);
        while stored.ask(&tally, 5).await.is_none() {
            assert!(began.elapsed() < Duration::from_secs(20), "a lease that ended makes no room");
            tokio::task::yield_now().await;
        }
    }
}
