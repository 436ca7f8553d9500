//! Leases whose answer did not leave.

use super::record::{End, LeaseRecord, put, read};
use super::table::Leases;
use bulkhead_wire::failure::Failure;

impl Leases {
    /// Makes a confirmed lease due now; due work ends it. One that is gone, or ends already, is
    /// left as it is.
    ///
    /// # Errors
    /// That of the commit; 503 when the lease is changed at the same time.
    pub(crate) async fn end_unanswered(&self, id: &str) -> Result<(), Failure> {
        let Some(address) = self.locate(id) else { return Ok(()) };
        let mut unit = self.store.begin();
        let Some(lease) = read(&mut unit, &address).await?.filter(|lease| lease.reason.is_none())
        else {
            return Ok(());
        };
        put(
            &mut unit,
            &address,
            &LeaseRecord { reason: Some(End::Undo), ..lease },
            self.store.now(),
        )?;
        unit.commit().await?;
        Ok(())
    }
}
