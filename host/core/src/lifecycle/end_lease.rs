//! Ending a lease through its plugin's `revoke`, for every cause.
//!
//! If the target does not answer, the revocation is retried forever with a growing back-off. After
//! six refusals the lease is irrevocable: listed as such and retried once a day (decision P13). An
//! attempt that ends in a conflict of our own store says nothing about the target, and counts as
//! neither.

use super::attempts::{CallAttempts, UnfinishedWork, lost_a_race};
use super::lane_answers;
use crate::core::Core;
use crate::host_services::{AdmittedWork, BackgroundServices};
use crate::leases::{EndReason, LeaseRecord, put};
use crate::mounts::OpenedMount;
use crate::permit::Permit;
use bulkhead_access::background::{Claim, backoff};
use bulkhead_access::lifecycle_metrics::{EndCause, LifecycleCounts};
use bulkhead_sandbox::CallPriority;
use bulkhead_store::{Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;

/// Ends the claimed lease or reservation. Succeeds if the lease no longer exists.
///
/// # Errors
/// The failure of the plugin or of the commit. The lease stays, with its next attempt scheduled.
pub async fn end_lease(
    core: &Arc<Core>,
    claim: &Claim,
    requested_reason: Option<EndReason>,
) -> Result<(), Failure> {
    try_end(core, claim, requested_reason).await.map_err(|unfinished| unfinished.failure)
}

/// As [`end_lease`], with the difference between a failed attempt and a wait.
pub(super) async fn try_end(
    core: &Arc<Core>,
    claim: &Claim,
    requested_reason: Option<EndReason>,
) -> Result<(), UnfinishedWork> {
    let record = claim.fence(&mut core.store.begin()).await.map_err(Failure::from)?;
    let Some(record) = record else { return Ok(()) };
    let lease = LeaseRecord::parse(&record)?;
    let reason = requested_reason.or(lease.reason).unwrap_or(match claim.address().space {
        Space::Reservation => EndReason::Undo,
        _ => EndReason::Expired,
    });
    // If a caller waits, the call must not take slots that are reserved for due work.
    let priority = if requested_reason.is_some() {
        CallPriority::Foreground
    } else {
        CallPriority::Background
    };
    let done = revoke(core, claim, &lease, LeaseEnding { reason, priority }).await;
    if !lease.forced {
        let answer = done.as_ref().map_err(|unfinished| &unfinished.failure).copied();
        lane_answers::note_result(core, &lease.full_lane(), answer);
    }
    match done {
        Ok(()) => {
            count_end(core, claim, &lease, reason.cause());
            note_delay(core, lease.first_due.or(record.index.due));
            core.leases.log_lease(LogLevel::Info, "lease-ended", &lease, &reason.word());
            Ok(())
        }
        Err(unfinished) => {
            if let Some(counts) = counts_of(core, &lease) {
                counts.note_overdue(&claim.address().key);
                if unfinished.has_failed() {
                    counts.note_failed_end();
                }
            }
            postpone(core, claim, reason, &unfinished.failure).await?;
            Err(unfinished)
        }
    }
}

/// Returns the counts of the lease's mount, unless the mount is gone.
fn counts_of(core: &Core, lease: &LeaseRecord) -> Option<Arc<LifecycleCounts>> {
    core.mounts.by_uuid(&lease.mount).map(|mount| Arc::clone(&mount.lease_counts))
}

/// Counts the end of a lease. A reservation was never counted as created.
fn count_end(core: &Core, claim: &Claim, lease: &LeaseRecord, cause: EndCause) {
    let Some(counts) = counts_of(core, lease) else { return };
    counts.note_gone(&claim.address().key);
    if claim.address().space == Space::Lease {
        counts.note_end(cause);
    }
}

/// Counts the time from `due`, in milliseconds of store time, until now. A lease that ended before
/// its time has no delay.
fn note_delay(core: &Core, due: Option<u64>) {
    if let Some(delay) = due.and_then(|due| core.store.now().checked_sub(due)) {
        core.leases.end_delays.observe(Duration::from_millis(delay));
    }
}

/// The reason and the priority of an end.
struct LeaseEnding {
    reason: EndReason,
    /// The queue in which the call waits for its slots.
    priority: CallPriority,
}

async fn revoke(
    core: &Arc<Core>,
    claim: &Claim,
    lease: &LeaseRecord,
    ending: LeaseEnding,
) -> Result<(), UnfinishedWork> {
    let mount = core.mounts.by_uuid(&lease.mount);
    let missing = || core.mounts.missing_failure(&lease.mount);
    let mount = mount.ok_or_else(|| UnfinishedWork::before_call(missing()))?;
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let work = BackgroundServices::for_due_work(core, &mount);
    let mut attempts = CallAttempts::of_due_work(core, work.deadline());
    let ended = loop {
        let mut unit = attempts.begin(mount.begin_end(&core.store));
        if let Err(waits) = mount.fence_data(&core.store, &mut unit).await {
            break Err(UnfinishedWork::before_call(waits));
        }
        let admitted = match work.enter(ending.priority).await {
            Ok(admitted) => admitted,
            Err(waits) => break Err(UnfinishedWork::before_call(waits)),
        };
        let call = (admitted, unit);
        let ended = ending.attempt((claim, lease), &work, &opened, call).await;
        if !attempts.continue_after(&ended).await {
            break ended.map_err(UnfinishedWork::from);
        }
    };
    work.release_guards().await;
    ended
}

impl LeaseEnding {
    /// Asks the plugin to revoke the credential of the lease, and removes the lease.
    async fn attempt(
        &self,
        (claim, lease): (&Claim, &LeaseRecord),
        work: &BackgroundServices,
        opened: &OpenedMount<'_>,
        (admitted, unit): (AdmittedWork<'_>, Unit),
    ) -> Result<(), Failure> {
        let (scope, context, word) = (work.scope(opened), work.context(None), self.reason.word());
        let engine = opened.engine;
        let done = engine.revoke(scope, unit, &context, &lease.for_plugin(), word).await;
        work.note_end(admitted, done.ended);
        done.result?;
        remove(claim, done.unit, lease).await
    }
}

/// Removes the lease in the commit of the plugin's changes. A missing lease was ended by other
/// work, which stored the outcome.
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

/// Schedules the next attempt, or drops the lease after its last attempt. Changes that others made
/// to the lease meanwhile stay, and a removed lease stays removed.
async fn postpone(
    core: &Arc<Core>,
    claim: &Claim,
    reason: EndReason,
    failure: &Failure,
) -> Result<(), Failure> {
    let mut finish = core.store.begin().finish();
    loop {
        let unit = finish.restart_host_part();
        let Some(record) = claim.fence(unit).await? else { return Ok(()) };
        let lease = LeaseRecord::parse(&record)?;
        let due = record.index.due.map(|due| due.min(core.store.now()));
        let (lease, next) = if lost_a_race(failure) {
            let lease = lease.after_lost_race(reason, due, failure);
            (lease, FailedEndOutcome::Delayed(LogLevel::Info, backoff::FIRST_PAUSE))
        } else {
            let lease = lease.after_failure(reason, due, failure);
            let next = FailedEndOutcome::of(&lease, failure);
            (lease, next)
        };
        match next {
            FailedEndOutcome::Forgotten => unit.delete(claim.address().clone()),
            FailedEndOutcome::Irrevocable(pause) | FailedEndOutcome::Delayed(_, pause) => {
                put(unit, claim.address(), &lease, core.store.now().saturating_add(pause))?;
            }
        }
        if finish.try_commit().await? {
            if matches!(next, FailedEndOutcome::Forgotten) {
                count_end(core, claim, &lease, EndCause::GivenUp);
            }
            let (level, event) = next.log_event();
            core.leases.log_lease(level, event, &lease, failure);
            return Ok(());
        }
    }
}

/// The state of a lease after an attempt that did not end it. Pauses are in milliseconds.
enum FailedEndOutcome {
    /// The last attempt was made.
    Forgotten,
    Irrevocable(u64),
    /// With the log level.
    Delayed(LogLevel, u64),
}

impl FailedEndOutcome {
    /// Returns the next state after a failure of the plugin or of the target.
    fn of(lease: &LeaseRecord, failure: &Failure) -> Self {
        let pause = lease.pause_after(failure);
        match (lease.forced, lease.is_irrevocable()) {
            (true, _) => Self::Forgotten,
            (false, true) => Self::Irrevocable(pause),
            (false, false) => Self::Delayed(LogLevel::Warn, pause),
        }
    }

    /// Returns the level and the event of the log line.
    fn log_event(&self) -> (LogLevel, &'static str) {
        match self {
            Self::Forgotten => (LogLevel::Warn, "lease-forgotten"),
            Self::Irrevocable(_) => (LogLevel::Warn, "lease-irrevocable"),
            Self::Delayed(level, _) => (*level, "lease-end-delayed"),
        }
    }
}
