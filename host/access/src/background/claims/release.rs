//! The end of a claim.
//!
//! This file prevents a claim of this process between the removal of the record of an earlier claim
//! and the end of the earlier claim: the address in memory is given back last.

use super::{Claim, ClaimRecord, Claims};
use crate::background::claimed_addresses::ClaimLane;
use bulkhead_store::Address;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A claim that was dropped.
pub(super) struct ClaimRelease {
    claims: Arc<Claims>,
    address: Address,
    lane: Option<ClaimLane>,
    record: ClaimRecord,
}

impl ClaimRelease {
    /// Returns the release of a claim that is being dropped.
    pub(super) fn of(claim: &mut Claim) -> Self {
        Self {
            claims: Arc::clone(&claim.claims),
            address: claim.address.clone(),
            lane: claim.lane.take(),
            record: claim.record,
        }
    }

    /// Releases the address, at once or after the removal of the record. Without a runtime the
    /// process ends, and its epoch with it.
    pub(super) fn begin(self) {
        let Ok(runtime) = Handle::try_current() else { return self.end() };
        match self.record {
            ClaimRecord::Absent => self.end(),
            ClaimRecord::Stored => {
                self.claims.lock().begin_release(&self.address);
                runtime.spawn(self.remove_record());
            }
            ClaimRecord::InDoubt => self.leave_record(&runtime),
        }
    }

    async fn remove_record(self) {
        if let Some(records) = &self.claims.records
            && records.remove_stored(&self.address).await.is_err()
        {
            return self.leave_record(&Handle::current());
        }
        self.end();
    }

    /// Gives the place in the lane back, and leaves the record to the task that removes records in
    /// doubt.
    fn leave_record(self, runtime: &Handle) {
        let Self { claims, address, lane, .. } = self;
        let frees_place = lane.is_some();
        claims.lock().leave(lane);
        claims.leave_record(&address, runtime);
        if frees_place {
            claims.notify_of_room();
        }
    }

    fn end(self) {
        let makes_room = self.claims.lock().remove(&self.address, self.lane);
        match makes_room {
            true => self.claims.notify_of_room(),
            false => self.claims.freed.notify_waiters(),
        }
    }
}
