//! Disabling a mount, with all requests, leases and rows.
//!
//! This file prevents a credential that can never be revoked because the lease was deleted with the
//! mount. Rows are deleted only after all leases have ended; if a lease cannot be ended, the mount
//! serves again. Each step is stored before the step is taken, so that another process can go on
//! after a crash.
//!
//! This file also prevents a component that does not end from keeping its mount: see
//! [`super::ending`].

use super::ending::{claim_stopped, end_leases, end_requests, end_unavailable, in_background};
use super::erase::erase;
use crate::core::Core;
use crate::mounts::{MountPhase, MountRecord, put_phase};
use bulkhead_access::log::cause;
use bulkhead_access::sealing::sealed_failure;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::sync;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum time that a caller waits for the removal of a mount.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(90);

/// The step of a removal that takes time.
#[derive(Clone, Copy)]
enum RemovalStep {
    /// Another change of the mount is under way.
    Change,
    Requests,
    Leases,
    Data,
}

impl RemovalStep {
    /// Returns what the removal waits for.
    fn words(self) -> &'static str {
        match self {
            Self::Change => {
                "a change of the plugin's version has begun a change at a target and has not ended"
            }
            Self::Requests => "requests with changes at a target have not all ended",
            Self::Leases => "leases of the mount have not all ended",
            Self::Data => {
                "timers of the mount have not all ended, or the mount's data are still being \
                 deleted"
            }
        }
    }
}

/// The step at which a removal is, for a caller who stops waiting.
struct RemovalProgress {
    step: Mutex<RemovalStep>,
    /// No caller asks for the removal: an earlier process began it.
    is_resumed: bool,
}

impl RemovalProgress {
    fn new(is_resumed: bool) -> Arc<Self> {
        Arc::new(Self { step: Mutex::new(RemovalStep::Change), is_resumed })
    }

    fn begin_step(&self, step: RemovalStep) {
        *sync::lock(&self.step) = step;
    }
}

/// Disables the mount at `path` and waits for the end. Does nothing if nothing is mounted.
///
/// # Errors
/// 400 with the reason and the remedy if a lease cannot be ended; the mount then serves again. 502
/// with the step that is not done in time. 400 while the mount is being moved. 503 if due work is
/// suspended; nothing was begun. 503 if the store fails; the removal then goes on at the next call
/// and at the next unsealing.
pub async fn disable(core: &Arc<Core>, path: &MountPath) -> Result<(), Failure> {
    let Some(record) = core.mounts.record_at(path) else {
        // Reports a record that cannot be opened, because its data would stay forever.
        return MountRecord::read(&mut core.store.begin(), path).await.map(drop);
    };
    // Checked before waiting for the claim: a move may take long and ends at another path.
    check_stays(&record)?;
    // In a separate task, so that the removal goes on if the client disconnects.
    let progress = RemovalProgress::new(false);
    let done = in_background(core, remove(Arc::clone(core), record, Arc::clone(&progress)))?;
    let Ok(done) = tokio::time::timeout(REMOVAL_TIMEOUT, done).await else {
        let (step, waited) = (*sync::lock(&progress.step), REMOVAL_TIMEOUT.as_secs());
        return Err(Failure::new(
            FailureKind::TimedOut,
            format!(
                "{path} is being removed, and after {waited} s {}; the removal goes on in the \
                 background: sys/mounts lists the mount until the end",
                step.words()
            ),
        ));
    };
    let done = done.unwrap_or_else(|_| Err(Failure::internal("disabling the mount ended early")));
    done.map_err(awaiting_decision)
}

/// Returns the failure as the caller sees the failure: a target that does not answer is 400,
/// because a repetition of the request does not help, and a decision of the caller does.
fn awaiting_decision(failure: Failure) -> Failure {
    let kind = match failure.kind {
        FailureKind::Unreachable | FailureKind::TimedOut => FailureKind::InvalidRequest,
        kind => kind,
    };
    Failure { kind, ..failure }
}

/// Resumes the removal of a mount, and logs a failure.
pub(super) async fn resume_removal(core: Arc<Core>, record: MountRecord) {
    let path = record.path.to_string();
    if let Err(failure) = remove(Arc::clone(&core), record, RemovalProgress::new(true)).await {
        core.log.line(LogLevel::Error, "mount-not-removed", &[("mount", path), cause(&failure)]);
    }
}

/// Removes the mount `found`, but no mount that was enabled at its path since.
async fn remove(
    core: Arc<Core>,
    found: MountRecord,
    progress: Arc<RemovalProgress>,
) -> Result<(), Failure> {
    let path = found.path.clone();
    // Removals run one after the other: the second finds no mount, or tries again.
    let (claim, _stop) = claim_stopped(&core, &found).await?;
    let record = core.mounts.record_of(&found.uuid).filter(|record| record.path == path);
    let Some(record) = record else { return Ok(()) };
    check_stays(&record)?;
    // Another node, whose removal is resumed here, may have let the mount serve again.
    if progress.is_resumed && record.phase == MountPhase::Serving {
        return Ok(());
    }
    if record.phase == MountPhase::Erasing {
        progress.begin_step(RemovalStep::Data);
        return erase(core, record, claim).await;
    }
    // Checked before the phase is stored, which would otherwise have to be reverted.
    core.leases.assert_ends_work()?;
    match drain_mount(&core, &record, &progress).await {
        Ok(record) => {
            progress.begin_step(RemovalStep::Data);
            core.log.line(LogLevel::Info, "mount-disabled", &[("mount", path.to_string())]);
            erase(core, record, claim).await
        }
        // Interrupted by sealing: the removal goes on after the next unsealing. A lease whose end
        // was interrupted fails with its own message.
        Err(failure) if core.sealing.has_begun() => Err(failure),
        Err(failure) => {
            serve_again(&core, &path).await;
            Err(failure)
        }
    }
}

/// Refuses to remove a mount that is being moved.
fn check_stays(record: &MountRecord) -> Result<(), Failure> {
    let MountRecord { path, phase, .. } = record;
    match phase {
        MountPhase::Moving { to, .. } => Err(Failure::invalid(format!(
            "{path} is being moved to {to}; wait for the end, then disable the mount there"
        ))),
        _ => Ok(()),
    }
}

/// Ends all requests and leases of the mount, and stores the decision to erase it. The leases of an
/// unavailable mount cannot be ended, so such a mount stays if there is a lease.
async fn drain_mount(
    core: &Arc<Core>,
    record: &MountRecord,
    progress: &RemovalProgress,
) -> Result<MountRecord, Failure> {
    let path = &record.path;
    let may = |phase: &MountPhase| matches!(phase, MountPhase::Serving | MountPhase::Ending);
    store_phase(core, path, MountPhase::Ending, may).await?;
    let ended = match core.mounts.by_uuid(&record.uuid) {
        Some(mount) => {
            progress.begin_step(RemovalStep::Requests);
            let _timers = end_requests(core, &mount).await;
            progress.begin_step(RemovalStep::Leases);
            end_leases(core, &mount).await
        }
        None => end_unavailable(core, &record.uuid).await,
    };
    ended.map_err(|failure| {
        if failure == sealed_failure() { failure } else { undrained_failure(path, failure) }
    })?;
    store_phase(core, path, MountPhase::Erasing, |phase| *phase == MountPhase::Ending).await
}

/// Returns the failure to end a lease, with its consequence for the mount and the remedy.
fn undrained_failure(path: &MountPath, failure: Failure) -> Failure {
    let remedy = format!(
        "resolve the cause, or give the leases up with sys/leases/revoke-force/{path}, and disable \
         the mount again"
    );
    Failure { message: format!("{path} stays mounted: {}; {remedy}", failure.message), ..failure }
}

/// Lets the mount serve again. If that cannot be stored, the mount stays closed and is removed at
/// the next call or at the next unsealing.
async fn serve_again(core: &Arc<Core>, path: &MountPath) {
    let was_begun = |phase: &MountPhase| matches!(phase, MountPhase::Ending | MountPhase::Erasing);
    if let Err(failure) = store_phase(core, path, MountPhase::Serving, was_begun).await {
        core.log.line(
            LogLevel::Error,
            "mount-not-reopened",
            &[("mount", path.to_string()), cause(&failure)],
        );
    }
}

async fn store_phase(
    core: &Arc<Core>,
    path: &MountPath,
    next: MountPhase,
    may: impl Fn(&MountPhase) -> bool,
) -> Result<MountRecord, Failure> {
    let record = put_phase(&core.store, path, next, may).await?;
    core.mounts.update(record.clone(), &core.catalog)?;
    Ok(record)
}
