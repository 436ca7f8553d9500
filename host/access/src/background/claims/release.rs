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

    /// Releases the address, at once or after the removal of the record in a task. Without a
    /// runtime the process ends, and its epoch with it.
    pub(super) fn begin(self) {
        match Handle::try_current() {
            Ok(runtime) if self.record != ClaimRecord::Absent => {
                self.claims.lock().begin_release(&self.address);
                runtime.spawn(self.remove_record());
            }
            _ => self.end(),
        }
    }

    async fn remove_record(self) {
        if let Some(records) = &self.claims.records {
            records.remove(&self.address, self.record == ClaimRecord::InDoubt).await;
        }
        self.end();
    }

    fn end(self) {
        let makes_room = self.claims.lock().remove(&self.address, self.lane);
        match makes_room {
            true => self.claims.notify_of_room(),
            false => self.claims.freed.notify_waiters(),
        }
    }
}
