//! Claims: who is working on a lease, token or timer right now.
//!
//! The attack this file stops: a lease that expires while it is being renewed, so that its user is
//! dropped and the caller holds a lease of nothing. Whoever renews, revokes or expires holds the claim.
//! On an embedded store one process owns the data, so claims live in memory and die with it.

use bulkhead_store::{Address, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Claims on one lane at once: a target that hangs holds so many workers and no more.
const PER_LANE: usize = 4;
/// Claims by due work at once.
const DUE_WORK: usize = 64;
/// Rows without a lane that are looked for at once.
const UNLANED: usize = 8;

#[derive(Default)]
struct Held {
    addresses: BTreeSet<Address>,
    lanes: BTreeMap<(Space, String), usize>,
}

/// All claims of the process.
#[derive(Default)]
pub(crate) struct Claims {
    held: Mutex<Held>,
    freed: Notify,
}

/// The right to work on one address; given back when dropped.
pub(crate) struct Claim {
    claims: Arc<Claims>,
    address: Address,
    lane: Option<(Space, String)>,
}

impl Claims {
    /// Claims `address`, or `None` when somebody else has it.
    pub(crate) fn claim(self: &Arc<Self>, address: &Address) -> Option<Claim> {
        let taken = self.lock().addresses.insert(address.clone());
        taken.then(|| Claim { claims: Arc::clone(self), address: address.clone(), lane: None })
    }

    /// Claims `address`, after whoever has it now.
    pub(crate) async fn claim_in_turn(self: &Arc<Self>, address: &Address) -> Claim {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registered before looking, so that a claim freed in between still wakes us.
            freed.as_mut().enable();
            if let Some(claim) = self.claim(address) {
                return claim;
            }
            freed.await;
        }
    }

    /// Claims due work, counted in its lane.
    pub(crate) fn claim_due(self: &Arc<Self>, address: &Address, lane: &str) -> Option<Claim> {
        if lane.is_empty() {
            // Tokens: they reach nothing outside that could hang, and must not wait for what does.
            return self.claim(address);
        }
        let lane = (address.space, lane.to_owned());
        let mut held = self.lock();
        let in_lane = held.lanes.get(&lane).copied().unwrap_or_default();
        let is_full = in_lane >= PER_LANE || held.lanes.values().sum::<usize>() >= DUE_WORK;
        if is_full || !held.addresses.insert(address.clone()) {
            return None;
        }
        held.lanes.insert(lane.clone(), in_lane + 1);
        Some(Claim { claims: Arc::clone(self), address: address.clone(), lane: Some(lane) })
    }

    /// Lanes that take no more, and addresses that are being worked on.
    pub(crate) fn busy(&self) -> (Vec<(Space, String)>, Vec<Address>) {
        let held = self.lock();
        let full = held.lanes.iter().filter(|(_, count)| **count >= PER_LANE);
        (full.map(|(lane, _)| lane.clone()).collect(), held.addresses.iter().cloned().collect())
    }

    /// Rows worth looking for: room in lanes, and a few that need none.
    pub(crate) fn room(&self) -> usize {
        DUE_WORK.saturating_sub(self.lock().lanes.values().sum()) + UNLANED
    }

    /// Resolves when a claim is given back. Enable it before looking, or a claim freed in between is missed.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// What is claimed.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.claims.lock();
        held.addresses.remove(&self.address);
        if let Some(lane) = &self.lane
            && let Some(count) = held.lanes.get_mut(lane)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                held.lanes.remove(lane);
            }
        }
        drop(held);
        self.claims.freed.notify_waiters();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    fn lease(key: &str) -> Address {
        Address::new(Space::Lease, key)
    }

    #[test]
    fn an_address_is_claimed_once_until_it_is_given_back() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(&lease("a")).unwrap();
        assert!(claims.claim(&lease("a")).is_none());
        drop(first);
        assert!(claims.claim(&lease("a")).is_some());
    }

    #[test]
    fn a_full_lane_stalls_no_other() {
        let claims = Arc::new(Claims::default());
        let held: Vec<_> = (0..PER_LANE).map(|n| claims.claim_due(&lease(&n.to_string()), "slow").unwrap()).collect();
        assert!(claims.claim_due(&lease("x"), "slow").is_none());
        assert!(claims.claim_due(&lease("x"), "quick").is_some());
        assert_eq!(claims.busy().0, vec![(Space::Lease, "slow".to_owned())]);
        drop(held);
        assert!(claims.busy().0.is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_in_turn_is_woken_when_the_claim_is_free() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(&lease("a")).unwrap();
        let waiting = tokio::spawn({
            let claims = Arc::clone(&claims);
            async move { claims.claim_in_turn(&lease("a")).await.address().clone() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(waiting.await.unwrap(), lease("a"));
    }
}
