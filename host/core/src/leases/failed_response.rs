//! Ending of leases after a response that could not be sent.

use super::record::{EndReason, LeaseRecord, put, read};
use super::table::Leases;
use bulkhead_wire::failure::Failure;

impl Leases {
    /// Makes a confirmed lease due now; due work ends the lease. Does nothing if the lease is gone
    /// or already ending.
    ///
    /// # Errors
    /// The failure of the commit; 503 if the lease is changed at the same time.
    pub async fn end_unanswered(&self, id: &str) -> Result<(), Failure> {
        let Some(address) = self.locate(id) else { return Ok(()) };
        let mut unit = self.store.begin();
        let Some(lease) = read(&mut unit, &address).await?.filter(|lease| lease.reason.is_none())
        else {
            return Ok(());
        };
        put(
            &mut unit,
            &address,
            &LeaseRecord { reason: Some(EndReason::Undo), ..lease },
            self.store.now(),
        )?;
        unit.commit().await?;
        Ok(())
    }
}
