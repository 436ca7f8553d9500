//! The claims of this process: addresses, and the places of claims in lanes.
//!
//! This file prevents a mount with hanging targets from using all places of due work.

use super::lane_order::mount_of;
use bulkhead_store::{Address, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of concurrent claims in lanes. A mount gets another claim only while
/// [`SHARE_FACTOR`] times its claims are fewer than the free claims: the first mount gets a third.
/// If its targets hang, and targets of some other mounts too, the next mount still gets a claim.
pub(super) const IN_LANES: usize = 64;
/// Factor of the share of a mount; see [`IN_LANES`].
const SHARE_FACTOR: usize = 2;
/// Maximum number of concurrent claims without a lane. These are tokens, which reach no target that
/// could hang, and must not wait for work that does.
pub(super) const WITHOUT_LANE: usize = 16;

/// The lane of a claim: the kind of its record, and the name of the lane.
pub(super) type ClaimLane = (Space, String);

/// The claimed addresses of a process.
#[derive(Default)]
pub(super) struct ClaimedAddresses {
    addresses: BTreeSet<Address>,
    /// Claimed addresses with finished work, until the records of their claims are removed.
    in_release: BTreeSet<Address>,
    /// Claimed addresses that due work skipped and has to revisit.
    passed_over: BTreeSet<Address>,
    lanes: BTreeMap<ClaimLane, usize>,
}

impl ClaimedAddresses {
    /// Claims `address`. Returns `false` if the address is claimed already.
    pub(super) fn insert(&mut self, address: &Address) -> bool {
        self.addresses.insert(address.clone())
    }

    /// Claims `address` for due work in the lane, which has room. Returns `false`, and notes the
    /// address, if the address is claimed already.
    pub(super) fn insert_due(&mut self, address: &Address, lane: &ClaimLane) -> bool {
        let is_free = self.insert(address);
        if is_free {
            *self.lanes.entry(lane.clone()).or_default() += 1;
        } else {
            self.passed_over.insert(address.clone());
        }
        is_free
    }

    /// Ends the claim of `address`. Returns `true` if due work may start because of the end.
    pub(super) fn remove(&mut self, address: &Address, lane: Option<ClaimLane>) -> bool {
        self.addresses.remove(address);
        self.in_release.remove(address);
        let makes_room = self.passed_over.remove(address) || lane.is_some();
        self.leave(lane);
        makes_room
    }

    /// Records that the work on `address` is finished, and the record of the claim remains.
    pub(super) fn begin_release(&mut self, address: &Address) {
        self.in_release.insert(address.clone());
    }

    /// Returns whether the work on the claimed address is finished.
    pub(super) fn is_in_release(&self, address: &Address) -> bool {
        self.in_release.contains(address)
    }

    /// Gives the place in the lane back.
    pub(super) fn leave(&mut self, lane: Option<ClaimLane>) {
        if let Some(lane) = lane
            && let Some(count) = self.lanes.get_mut(&lane)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Returns the number of free claims, in lanes or outside of lanes.
    pub(super) fn count_free(&self, in_lanes: bool) -> usize {
        let counted = self.lanes.iter().filter(|(lane, _)| has_lane(lane) == in_lanes);
        let most = if in_lanes { IN_LANES } else { WITHOUT_LANE };
        most.saturating_sub(counted.map(|(_, count)| count).sum())
    }

    /// Returns an upper bound of the number of the lane's records that are claimed, in the lane or
    /// outside of all lanes.
    pub(super) fn count_claimed(&self, lane: &ClaimLane) -> usize {
        let elsewhere: usize = self.lanes.values().sum();
        self.in_lane(lane) + self.addresses.len().saturating_sub(elsewhere)
    }

    /// Returns the number of further claims that the lane may take, out of `places`.
    pub(super) fn room(&self, lane: &ClaimLane, places: usize) -> usize {
        let free = self.count_free(has_lane(lane));
        if !has_lane(lane) {
            return free;
        }
        let mount_claims = self.of_mount(mount_of(&lane.1));
        let in_share =
            |more: &usize| (mount_claims + more) * SHARE_FACTOR < free.saturating_sub(*more);
        (self.in_lane(lane)..places).enumerate().take_while(|(more, _)| in_share(more)).count()
    }

    /// Returns whether the mount's share allows another claim.
    pub(super) fn has_share(&self, mount: &str) -> bool {
        self.of_mount(mount) * SHARE_FACTOR < self.count_free(true)
    }

    /// Returns the number of claims in the lane.
    fn in_lane(&self, lane: &ClaimLane) -> usize {
        self.lanes.get(lane).copied().unwrap_or_default()
    }

    /// Returns the number of claims in all lanes of the mount.
    fn of_mount(&self, mount: &str) -> usize {
        let of_mount = self.lanes.iter().filter(|((_, lane), _)| mount_of(lane) == mount);
        of_mount.map(|(_, count)| count).sum()
    }
}

fn has_lane(lane: &ClaimLane) -> bool {
    !lane.1.is_empty()
}
