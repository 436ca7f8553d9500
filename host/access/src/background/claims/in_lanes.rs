//! Claims of due work, counted in lanes.
//!
//! This file prevents due work of a lane from waiting behind the work of other nodes: the worker
//! claims as many rows as its lanes have places in one commit, and learns the rows of other nodes.

use super::{Claim, Claims};
use crate::background::claimed_addresses::ClaimLane;
use bulkhead_store::{Address, Space, StoreFault};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// Claims of due work.
pub(in crate::background) struct DueClaims {
    pub(in crate::background) taken: Vec<Claim>,
    /// Addresses that other nodes hold.
    pub(in crate::background) elsewhere: BTreeSet<Address>,
}

impl Claims {
    /// Claims due work in memory and counts the claims in the lane, as far as the lane has room.
    /// Leaves out addresses that are already claimed. The work must not begin before
    /// [`Claims::record_due`].
    pub(in crate::background) fn hold_due(
        self: &Arc<Self>,
        lane: (Space, &str),
        addresses: &[Address],
    ) -> Vec<Claim> {
        let lane = (lane.0, lane.1.to_owned());
        addresses.iter().filter_map(|address| self.claim_due_here(address, &lane)).collect()
    }

    /// Commits the records of claims of due work, in one commit.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read or written.
    pub(in crate::background) async fn record_due(
        self: &Arc<Self>,
        claims: Vec<Claim>,
    ) -> Result<DueClaims, StoreFault> {
        let (taken, foreign) = self.record(claims).await?;
        if !foreign.is_empty() {
            self.passed_over_node.store(true, Ordering::SeqCst);
        }
        Ok(DueClaims { taken, elsewhere: foreign.iter().map(|it| it.address.clone()).collect() })
    }

    /// Holds and records claims of due work of one lane.
    #[cfg(test)]
    pub(in crate::background) async fn claim_due(
        self: &Arc<Self>,
        lane: (Space, &str),
        addresses: &[Address],
    ) -> Result<DueClaims, StoreFault> {
        self.record_due(self.hold_due(lane, addresses)).await
    }

    /// Gives claims back whose work does not begin, without waking the worker.
    pub(in crate::background) fn give_back(mut claims: Vec<Claim>) {
        claims.iter_mut().for_each(Claim::leave_lane_quietly);
    }

    /// Returns whether claims are records, because several nodes may work on the store.
    pub(in crate::background) fn has_records(&self) -> bool {
        self.records.is_some()
    }

    pub(super) fn claim_due_here(
        self: &Arc<Self>,
        address: &Address,
        lane: &ClaimLane,
    ) -> Option<Claim> {
        let places = self.lanes.concurrency_limit(&lane.1, Instant::now());
        let mut state = self.lock();
        let is_taken = state.room(lane, places) > 0 && state.insert_due(address, lane);
        is_taken.then(|| Claim::new(self, address, Some(lane.clone())))
    }

    /// Returns the number of further claims that the lane may take now.
    pub(crate) fn room(&self, space: Space, lane: &str) -> usize {
        let places = self.lanes.concurrency_limit(lane, Instant::now());
        self.lock().room(&(space, lane.to_owned()), places)
    }

    /// Returns an upper bound of the number of the lane's records that this process has claimed, in
    /// the lane or outside of all lanes.
    pub(crate) fn count_claimed(&self, space: Space, lane: &str) -> usize {
        self.lock().count_claimed(&(space, lane.to_owned()))
    }

    /// Returns whether the mount's share allows another claim.
    pub(crate) fn has_share(&self, mount: &str) -> bool {
        self.lock().has_share(mount)
    }

    /// Returns whether any claim in lanes is free.
    pub(crate) fn has_room_in_lanes(&self) -> bool {
        self.lock().count_free(true) > 0
    }

    /// Returns whether due work passed over an address of another node since the last call. No
    /// notice tells when the other node ends.
    pub(in crate::background) fn take_passed_over_node(&self) -> bool {
        self.passed_over_node.swap(false, Ordering::SeqCst)
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
}
