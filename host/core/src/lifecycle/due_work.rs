//! Dispatch of due rows by their table.

use super::end_lease::try_end;
use super::end_token::end_token;
use super::wake_timer::wake_timer;
use crate::core::Core;
use bulkhead_access::background::{Claim, DueOutcome, DueWork};
use bulkhead_store::{Address, Space};
use bulkhead_trace::scope::in_due_work;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

impl DueWork for Core {
    async fn do_due_work(self: Arc<Self>, claim: Arc<Claim>) -> Result<DueOutcome, Failure> {
        let Address { space, key } = claim.address();
        let Ok(_inside) = self.mounts.enter_work(key).await else {
            return Ok(DueOutcome::Moot);
        };
        let traces = self.process.settings.traces.as_ref();
        let begin = |kind| traces.and_then(|traces| traces.begin_due_work(kind));
        match space {
            Space::Lease | Space::Reservation => {
                in_due_work(begin("revocation"), end_due_lease(&self, &claim)).await
            }
            Space::Token => in_due_work(begin("token-end"), end_token(&self, key)).await,
            Space::Core => {
                let rotated = self.oidc.rotate_when_due(&claim);
                in_due_work(begin("key-rotation"), rotated).await
            }
            _ => in_due_work(begin("timer"), wake_timer(&self, &claim)).await,
        }
    }
}

/// Ends a lease if the lease is still due: a renewal may have come before the claim.
async fn end_due_lease(core: &Arc<Core>, claim: &Claim) -> Result<DueOutcome, Failure> {
    if !is_still_due(core, claim.address()).await? {
        return Ok(DueOutcome::Moot);
    }
    match try_end(core, claim, None).await {
        Ok(()) => Ok(DueOutcome::Done),
        // The failure and the next attempt are stored in the lease. Only a row that is still due
        // needs the pause that an error causes.
        Err(unfinished) if !is_still_due(core, claim.address()).await? => Ok(unfinished.outcome()),
        Err(unfinished) => Err(unfinished.failure),
    }
}

async fn is_still_due(core: &Arc<Core>, address: &Address) -> Result<bool, Failure> {
    let record = core.store.begin().get(address).await?;
    Ok(record.is_some_and(|record| record.index.due.is_some_and(|due| due <= core.store.now())))
}
