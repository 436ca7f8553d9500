//! How a lease ends: by its plugin's `revoke`, once, from every cause.
//!
//! A target that does not answer is tried again for ever, with growing pauses; one that refuses six
//! times makes the lease irrevocable: it is listed as such, and tried once a day (decision P13).

use super::attempts::Attempts;
use super::lane_answers;
use crate::background::Claim;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::leases::{End, LeaseRecord, put};
use crate::permit::Permit;
use bulkhead_sandbox::Priority;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Ends the claimed lease or reservation. A lease that is gone is success.
///
/// # Errors
/// The plugin's failure, or that of the commit. The lease stays, with its next attempt scheduled.
pub(crate) async fn end_lease(
    core: &Arc<Core>,
    claim: &Claim,
    asked: Option<End>,
) -> Result<(), Failure> {
    let Some(record) = claim.fence(&mut core.store.begin()).await? else { return Ok(()) };
    let lease = LeaseRecord::parse(&record)?;
    let reason = asked.or(lease.reason).unwrap_or(match claim.address().space {
        Space::Reservation => End::Undo,
        _ => End::Expired,
    });
    // A caller waits for what was asked for: it takes none of the places that are kept for due
    // work.
    let priority = if asked.is_some() { Priority::Foreground } else { Priority::Background };
    let done = revoke(core, claim, &lease, Ending { reason, priority }).await;
    if !lease.forced {
        lane_answers::note(core, &lease.full_lane(), done.as_ref().copied());
    }
    match done {
        Ok(()) => {
            core.leases.tell("info", "lease-ended", &lease, &reason.word());
            Ok(())
        }
        Err(failure) => {
            postpone(core, claim, reason, &failure).await?;
            Err(failure)
        }
    }
}

/// How a lease is ended.
struct Ending {
    reason: End,
    /// Where it waits for its places.
    priority: Priority,
}

async fn revoke(
    core: &Arc<Core>,
    claim: &Claim,
    lease: &LeaseRecord,
    ending: Ending,
) -> Result<(), Failure> {
    let mount = core.mounts.by_uuid(&lease.mount);
    let mount = mount.ok_or_else(|| core.mounts.missing(&lease.mount))?;
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let work = BackgroundServices::for_due_work(core, &mount);
    let mut attempts = Attempts::new(core, work.deadline());
    let ended = loop {
        let admitted = work.enter(ending.priority).await?;
        let done = opened
            .plugin
            .engine
            .revoke(
                work.scope(&opened),
                attempts.begin(mount.begin_end(&core.store)),
                &work.context(None),
                &lease.for_plugin(),
                ending.reason.word(),
            )
            .await;
        work.note_end(admitted, done.ended);
        let ended = match done.result {
            Ok(()) => remove(claim, done.unit, lease).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&ended).await {
            break ended;
        }
    };
    work.release_guards().await;
    ended
}

/// Removes the lease in the commit of what the plugin did to end it. One that is gone was ended by
/// other work, which stored what came of it.
async fn remove(claim: &Claim, unit: Unit, lease: &LeaseRecord) -> Result<(), Failure> {
    let mut finish = unit.finish();
    loop {
        let part = finish.restart_host_part();
        if let Some(record) = claim.fence(part).await?
            && LeaseRecord::parse(&record)?.id == lease.id
        {
            part.delete(claim.address().clone());
        }
        if finish.try_commit().await? {
            return Ok(());
        }
    }
}

/// Schedules the next attempt, or lets the lease go if it was to be the last one. What changed in
/// the lease while the plugin was at work stays changed, and a lease that is gone stays gone.
async fn postpone(
    core: &Arc<Core>,
    claim: &Claim,
    reason: End,
    failure: &Failure,
) -> Result<(), Failure> {
    let mut unit = core.store.begin();
    let Some(record) = claim.fence(&mut unit).await? else { return Ok(()) };
    let lease = LeaseRecord::parse(&record)?.after_failure(reason, failure);
    if lease.forced {
        core.leases.tell("warn", "lease-forgotten", &lease, failure);
        unit.delete(claim.address().clone());
    } else {
        let event = if lease.is_irrevocable() { "lease-irrevocable" } else { "lease-end-delayed" };
        core.leases.tell("warn", event, &lease, failure);
        let due = core.store.now().saturating_add(lease.pause_after(failure));
        put(&mut unit, claim.address(), &lease, due)?;
    }
    unit.commit().await?;
    Ok(())
}
