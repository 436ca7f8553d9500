//! Leases whose answer reached nobody.

use super::{End, LeaseRecord, locate, put, read};
use crate::core::Core;
use bulkhead_wire::failure::Failure;

/// Makes a confirmed lease due now; due work ends it. One that is gone, or ends already, is left as
/// it is.
///
/// # Errors
/// That of the commit; 503 when somebody changes the lease at the same time.
pub(crate) async fn end_unanswered(core: &Core, id: &str) -> Result<(), Failure> {
    let Some(address) = locate(&core.store, &core.mounts, id) else { return Ok(()) };
    let mut unit = core.store.begin();
    let Some(lease) = read(&mut unit, &address).await?.filter(|lease| lease.reason.is_none())
    else {
        return Ok(());
    };
    put(
        &mut unit,
        &address,
        &LeaseRecord { reason: Some(End::Undo), ..lease },
        Some(core.store.now()),
    )?;
    unit.commit().await?;
    Ok(())
}
