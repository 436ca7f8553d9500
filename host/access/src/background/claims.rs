//! Claims: the exclusive right to work on a lease, token, timer or mount.
//!
//! This file prevents a lease from expiring during its renewal, which would drop the user while the
//! caller holds a renewed lease. Renewal, revocation and expiry all hold the claim.
//!
//! With an embedded store, a single process owns the data, so claims live in memory and end with
//! the process; no other process could wait for a claim to expire. If several nodes shared a store,
//! a claim would be a row that expires. The fence ([`Claim::fence`]) is valid in both cases, so
//! work is written for both.
//!
//! Example. A lease of `GET /v1/database/creds/app` ends at 12:00:00, and
//! `POST /v1/sys/leases/renew` arrives a second earlier. The renewal takes the claim on the address
//! of the lease ([`Claims::claim_in_turn`]) and calls the component, which needs two seconds. At
//! 12:00:00 the worker finds the row due, but `Claims::claim_due` returns `None` and notes the
//! address. The renewal reads the lease again with [`Claim::fence`], as part of the commit that
//! stores the later end. The dropped claim wakes the worker, and the row is not due any more. If
//! the worker is first, the renewal waits, finds the lease gone or ending, and answers 400. If
//! another commit changes the lease after the fence, the commit of the renewal conflicts, and the
//! host checks the lease again. If the process dies, the claims die with the process, and the next
//! process finds the row due.

use super::lane_order::mount_of;
use super::lanes::Lanes;
use bulkhead_store::{Address, Record, Space, StoreFault, Unit};
use bulkhead_wire::sync;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// Maximum number of concurrent claims in lanes. A mount gets another claim only while
/// [`SHARE_FACTOR`] times its claims are fewer than the free claims: the first mount gets a third.
/// If its targets hang, and targets of some other mounts too, the next mount still gets a claim.
const IN_LANES: usize = 64;
/// Factor of the share of a mount; see [`IN_LANES`].
const SHARE_FACTOR: usize = 2;
/// Maximum number of concurrent claims without a lane. These are tokens, which reach no target that
/// could hang, and must not wait for work that does.
const WITHOUT_LANE: usize = 16;

#[derive(Default)]
struct ClaimedAddresses {
    addresses: BTreeSet<Address>,
    /// Claimed addresses that due work skipped and has to revisit.
    passed_over: BTreeSet<Address>,
    lanes: BTreeMap<(Space, String), usize>,
}

impl ClaimedAddresses {
    /// Returns the number of free claims, in lanes or outside of lanes.
    fn count_free(&self, in_lanes: bool) -> usize {
        let counted = self.lanes.iter().filter(|(lane, _)| has_lane(lane) == in_lanes);
        let most = if in_lanes { IN_LANES } else { WITHOUT_LANE };
        most.saturating_sub(counted.map(|(_, count)| count).sum())
    }

    /// Returns the number of claims in the lane.
    fn in_lane(&self, lane: &(Space, String)) -> usize {
        self.lanes.get(lane).copied().unwrap_or_default()
    }

    /// Returns the number of further claims that the lane may take, out of `places`.
    fn room(&self, lane: &(Space, String), places: usize) -> usize {
        let free = self.count_free(has_lane(lane));
        if !has_lane(lane) {
            return free;
        }
        let mount_claims = self.of_mount(mount_of(&lane.1));
        let in_share =
            |more: &usize| (mount_claims + more) * SHARE_FACTOR < free.saturating_sub(*more);
        (self.in_lane(lane)..places).enumerate().take_while(|(more, _)| in_share(more)).count()
    }

    /// Returns the number of claims in all lanes of the mount.
    fn of_mount(&self, mount: &str) -> usize {
        let of_mount = self.lanes.iter().filter(|((_, lane), _)| mount_of(lane) == mount);
        of_mount.map(|(_, count)| count).sum()
    }

    fn leave(&mut self, lane: Option<(Space, String)>) {
        if let Some(lane) = lane
            && let Some(count) = self.lanes.get_mut(&lane)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.lanes.remove(&lane);
            }
        }
    }
}

fn has_lane(lane: &(Space, String)) -> bool {
    !lane.1.is_empty()
}

/// All claims of the process.
#[derive(Default)]
pub struct Claims {
    held: Mutex<ClaimedAddresses>,
    freed: Notify,
    /// Wakes only the worker on due rows. Otherwise the worker would search all lanes in vain after
    /// each request that held a claim.
    room: Notify,
    lanes: Lanes,
}

/// The exclusive right to work on an address. Dropping it releases the address.
pub struct Claim {
    claims: Arc<Claims>,
    address: Address,
    lane: Option<(Space, String)>,
}

impl Claims {
    /// Claims `address`. Returns `None` if the address is already claimed.
    pub fn claim(self: &Arc<Self>, address: &Address) -> Option<Claim> {
        let taken = self.lock().addresses.insert(address.clone());
        taken.then(|| Claim { claims: Arc::clone(self), address: address.clone(), lane: None })
    }

    /// Claims `address`, after waiting for its present holder.
    pub async fn claim_in_turn(self: &Arc<Self>, address: &Address) -> Claim {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registers before the attempt, so that a release between the two still wakes this
            // task.
            freed.as_mut().enable();
            if let Some(claim) = self.claim(address) {
                return claim;
            }
            freed.await;
        }
    }

    /// Claims due work and counts the claim in the lane. Returns `None` if the lane has no room or
    /// the address is already claimed.
    pub(crate) fn claim_due(self: &Arc<Self>, address: &Address, lane: &str) -> Option<Claim> {
        let places = self.lanes.concurrency_limit(lane, Instant::now());
        let lane = (address.space, lane.to_owned());
        let mut state = self.lock();
        if state.room(&lane, places) == 0 {
            return None;
        }
        if !state.addresses.insert(address.clone()) {
            state.passed_over.insert(address.clone());
            return None;
        }
        *state.lanes.entry(lane.clone()).or_default() += 1;
        Some(Claim { claims: Arc::clone(self), address: address.clone(), lane: Some(lane) })
    }

    /// Returns the number of further claims that the lane may take now.
    pub(crate) fn room(&self, space: Space, lane: &str) -> usize {
        let places = self.lanes.concurrency_limit(lane, Instant::now());
        self.lock().room(&(space, lane.to_owned()), places)
    }

    /// Returns an upper bound of the number of the lane's records that are already claimed, in the
    /// lane or outside of all lanes.
    pub(crate) fn count_claimed(&self, space: Space, lane: &str) -> usize {
        let state = self.lock();
        let elsewhere: usize = state.lanes.values().sum();
        let outside = state.addresses.len().saturating_sub(elsewhere);
        state.in_lane(&(space, lane.to_owned())) + outside
    }

    /// Returns whether the mount's share allows another claim.
    pub(crate) fn has_share(&self, mount: &str) -> bool {
        let state = self.lock();
        state.of_mount(mount) * SHARE_FACTOR < state.count_free(true)
    }

    /// Returns whether any claim in lanes is free.
    pub(crate) fn has_room_in_lanes(&self) -> bool {
        self.lock().count_free(true) > 0
    }

    /// Sets the maximum concurrency of the lane, clamped to 1 to 16. The default is 4.
    pub fn set_concurrency(&self, lane: &str, places: usize) {
        self.lanes.set_concurrency(lane, places);
    }

    /// Returns the remaining rest of a lane whose target does not answer; zero while an attempt
    /// probes the target, `None` if the target is not down.
    pub fn remaining_rest(&self, lane: &str) -> Option<Duration> {
        self.lanes.rest(lane, Instant::now())
    }

    /// Ends the lane's rest, because a caller's request must be tried at once.
    pub fn ask_again(&self, lane: &str) {
        if self.lanes.ask_again(lane) {
            self.notify_of_room();
        }
    }

    /// Returns the number of lanes that rest, or probe their targets, after missing answers.
    pub fn count_resting_lanes(&self) -> usize {
        self.lanes.count_down()
    }

    /// Forgets the state of the lanes of a removed mount.
    pub fn forget_lanes(&self, mount: &str) {
        self.lanes.forget(mount);
    }

    /// Returns the time until the first resting lane may probe its target.
    pub(crate) fn next_end_of_rest(&self) -> Option<Duration> {
        self.lanes.next_end(Instant::now())
    }

    /// Notes an answer of the lane's target. Returns `true` if the target was down; waiting work
    /// may then proceed.
    pub fn note_answer(&self, lane: &str) -> bool {
        let was_down = self.lanes.note_answer(lane);
        if was_down {
            self.notify_of_room();
        }
        was_down
    }

    /// Notes a missing answer of the lane's target. Returns the rest that starts now, if any.
    pub fn note_silence(&self, lane: &str) -> Option<Duration> {
        self.lanes.note_silence(lane, Instant::now())
    }

    /// Resolves when a claim is released or a lane's rest ends. Enable the future before checking
    /// the state, or a release in between is missed.
    pub fn release_notice(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Resolves when skipped due work may start: a lane has room, a skipped address was released,
    /// or a lane's rest ended. Enable the future before checking the state, as for
    /// [`Claims::release_notice`].
    pub(crate) fn room_notice(&self) -> Notified<'_> {
        self.room.notified()
    }

    fn notify_of_room(&self) {
        self.freed.notify_waiters();
        self.room.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ClaimedAddresses> {
        sync::lock(&self.held)
    }
}

impl Claim {
    /// Returns the claimed address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Leaves the lane, so that other work can use its place, and keeps the address.
    pub(crate) fn leave_lane(mut self) -> Self {
        self.claims.lock().leave(self.lane.take());
        self.claims.notify_of_room();
        self
    }

    /// Reads the claimed record for the commit that ends the work. A later change of the record
    /// makes that commit fail with a conflict.
    ///
    /// Call this in the last segment, after the plugin's call, because a checkpoint of the plugin
    /// forgets earlier reads. If the record is gone or replaced, the work must store nothing.
    ///
    /// # Errors
    /// Errors of [`Unit::get`].
    pub async fn fence(&self, unit: &mut Unit) -> Result<Option<Record>, StoreFault> {
        unit.get(&self.address).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.claims.lock();
        state.addresses.remove(&self.address);
        let makes_room = state.passed_over.remove(&self.address) || self.lane.is_some();
        state.leave(self.lane.take());
        drop(state);
        match makes_room {
            true => self.claims.notify_of_room(),
            false => self.claims.freed.notify_waiters(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::DEFAULT_CONCURRENCY;
    use super::*;

    fn lease(key: &str) -> Address {
        Address::new(Space::Lease, key)
    }

    #[test]
    fn claimed_address_is_not_claimed_again_until_released() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim(&lease("a")).unwrap();
        assert!(claims.claim(&lease("a")).is_none());
        drop(first);
        assert!(claims.claim(&lease("a")).is_some());
    }

    #[test]
    fn a_full_lane_stalls_no_other() {
        let claims = Arc::new(Claims::default());
        let lane_claims: Vec<_> = (0..DEFAULT_CONCURRENCY)
            .map(|n| claims.claim_due(&lease(&n.to_string()), "m/slow").unwrap())
            .collect();
        assert!(claims.claim_due(&lease("x"), "m/slow").is_none());
        assert_eq!(claims.room(Space::Lease, "m/slow"), 0);
        assert_eq!(claims.count_claimed(Space::Lease, "m/slow"), DEFAULT_CONCURRENCY);
        assert!(claims.claim_due(&lease("x"), "m/quick").is_some());
        drop(lane_claims);
        assert_eq!(claims.room(Space::Lease, "m/slow"), DEFAULT_CONCURRENCY);
        assert_eq!(claims.count_claimed(Space::Lease, "m/slow"), 0);
    }

    /// Claims as much as `mount` may have, in as many lanes as needed.
    fn crowd(claims: &Arc<Claims>, mount: &str) -> Vec<Claim> {
        let claim = |n: usize| {
            let space = if n.is_multiple_of(2) { Space::Timer } else { Space::Lease };
            let address = Address::new(space, format!("{mount}/{n}"));
            claims.claim_due(&address, &format!("{mount}/lane {n}"))
        };
        (0..99).map_while(claim).collect()
    }

    #[test]
    fn crowded_mount_leaves_places_for_other_mounts() {
        let claims = Arc::new(Claims::default());
        let crowds: Vec<Vec<Claim>> =
            (0..8).map(|mount| crowd(&claims, &format!("mount {mount}"))).collect();
        let shares: Vec<usize> = crowds.iter().map(Vec::len).collect();
        assert_eq!(shares, [22, 14, 10, 6, 4, 3, 2, 1]);
        assert!(claims.claim_due(&lease("healthy"), "healthy/lane").is_some());
        drop(crowds);
        assert_eq!(crowd(&claims, "alone").len(), 22);
    }

    #[test]
    fn full_lanes_leave_room_for_records_without_lane() {
        let claims = Arc::new(Claims::default());
        let mut lane_claims: Vec<Claim> = Vec::new();
        for mount in 0..IN_LANES {
            lane_claims.extend(crowd(&claims, &format!("mount {mount}")));
        }
        assert_eq!((lane_claims.len(), claims.has_room_in_lanes()), (IN_LANES, false));
        assert!(claims.claim_due(&lease("x"), "another/lane").is_none());
        let token = |n: usize| claims.claim_due(&Address::new(Space::Token, n.to_string()), "");
        let tokens: Vec<_> = (0..WITHOUT_LANE).map(|n| token(n).unwrap()).collect();
        assert!(token(WITHOUT_LANE).is_none());
        drop((lane_claims, tokens));
        assert!(claims.has_room_in_lanes());
        assert_eq!(claims.room(Space::Token, ""), WITHOUT_LANE);
    }

    #[test]
    fn freed_place_or_skipped_record_wakes_worker() {
        let claims = Arc::new(Claims::default());
        let wakes = |claim: Claim| {
            let woken = claims.room_notice();
            tokio::pin!(woken);
            woken.as_mut().enable();
            drop(claim);
            woken.as_mut().enable()
        };
        assert!(!wakes(claims.claim(&lease("a")).unwrap()));
        let first = claims.claim(&lease("a")).unwrap();
        assert!(claims.claim_due(&lease("a"), "m/lane").is_none());
        assert!(wakes(first), "the waiter that was passed over is woken");
        assert!(!wakes(claims.claim(&lease("a")).unwrap()));
        assert!(
            wakes(claims.claim_due(&lease("a"), "m/lane").unwrap()),
            "the end of a claim wakes a waiter"
        );
        assert!(!wakes(claims.claim_due(&lease("a"), "m/lane").unwrap().leave_lane()));
    }

    #[tokio::test]
    async fn waiter_is_woken_when_claim_is_released() {
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
