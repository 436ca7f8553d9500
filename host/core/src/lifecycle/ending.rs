//! Ending the work, the leases and the logins of a mount, in tasks that outlive the request that
//! asked for the end.
//!
//! This file prevents a component that hangs from keeping its mount: migrations, requests and
//! timers are cut. A change outside that a call has begun is never cut, nor is the end of a lease.

use super::claim_mount::claim_mount_in_turn;
use crate::core::Core;
use crate::leases::{LeasePrefix, OnFailure};
use crate::mounts::{ClosedGate, Mount, MountRecord};
use bulkhead_access::background::Claim;
use bulkhead_access::log::cause;
use bulkhead_sandbox::{CallKind, MountStop};
use bulkhead_trace::scope::of_current_request;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Time for which requests of a mount that is being disabled or moved may go on.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to store a change that must be stored.
const STORE_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Ends the work of a mount that stands between the mount and its removal or move: a migration is
/// cut at once, and the change of its plugin's version that waits for code or for requests. Returns
/// the claim of the mount, and the stop.
///
/// # Errors
/// 503 if the claim could not be stored.
pub(super) async fn claim_stopped(
    core: &Core,
    record: &MountRecord,
) -> Result<(Claim, MountStop), Failure> {
    let stop = core.sandbox.stop_calls(&record.uuid, CallKind::Migration);
    Ok((claim_mount_in_turn(core, record).await?, stop))
}

/// Closes the mount for requests, and waits for requests inside. A request that still runs after
/// [`REQUEST_PATIENCE`] is cut, unless the request is changing something outside. Parked requests
/// are answered at once. Returns the stop of the mount's timers, which must not take the turns of
/// its leases.
pub(super) async fn end_requests(core: &Core, mount: &Mount) -> MountStop {
    let uuid = &mount.record.uuid;
    let timers = core.sandbox.stop_calls(uuid, CallKind::Wake);
    let gone = mount.gone_failure();
    let mut closing = std::pin::pin!(mount.close_requests());
    let began = tokio::time::timeout(Duration::ZERO, &mut closing).await;
    core.parking.release(uuid, &gone);
    if began.is_err() && tokio::time::timeout(REQUEST_PATIENCE, &mut closing).await.is_err() {
        let _stop = core.sandbox.stop_calls(uuid, CallKind::Request);
        closing.await;
    }
    // A request inside may have been parked meanwhile.
    core.parking.release(uuid, &gone);
    timers
}

/// Ends all tokens of logins, leases and reservations of a mount that admits no requests. Each
/// lease is tried, even after another lease failed.
///
/// # Errors
/// The first failure. A lease that cannot be ended never causes 500, because the caller has the
/// remedy.
pub(super) async fn end_leases(core: &Arc<Core>, mount: &Mount) -> Result<(), Failure> {
    core.tokens.end_logins_of(&mount.record.uuid).await?;
    let all = [LeasePrefix { mount: &mount.record.uuid, below: "" }];
    core.leases.end_below(&all, OnFailure::Stays).await.map_err(|failure| match failure.kind {
        FailureKind::Internal => Failure { kind: FailureKind::InvalidRequest, ..failure },
        _ => failure,
    })
}

/// Admits no further due work of the mount, cuts its timers, and waits for the due work inside.
pub(super) async fn end_due_work(core: &Core, mount: &Mount) -> ClosedGate {
    let _stop = core.sandbox.stop_calls(&mount.record.uuid, CallKind::Wake);
    mount.close_work().await
}

/// Ends all tokens of logins of an unavailable mount. Changes nothing if there is a lease or a
/// reservation, because the leases of such a mount cannot be ended.
///
/// # Errors
/// 503 with the reason for which the mount is unavailable, if there is a lease.
pub(super) async fn end_unavailable(core: &Arc<Core>, uuid: &str) -> Result<(), Failure> {
    if core.leases.has_any_below(&LeasePrefix { mount: uuid, below: "" }).await? {
        return Err(core.mounts.missing_failure(uuid));
    }
    core.tokens.end_logins_of(uuid).await
}

/// Runs `work` of the current request in a separate task: its log lines have the id of the
/// request. The task continues without its caller, and sealing waits for the task.
///
/// # Errors
/// 503 if the service is being sealed.
pub(super) fn in_background<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    core.sealing.spawn(of_current_request(work))
}

/// Runs `work` in a separate task as [`in_background`], but outside of the current request: a watch
/// that a request begins must not name the request for months.
///
/// # Errors
/// 503 if the service is being sealed.
pub(super) fn outside_of_request<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    core.sealing.spawn(work)
}

/// Logs a failure and waits for the next attempt. Returns `false` if the service is being sealed,
/// so that there is no next attempt.
pub(super) async fn log_and_pause(
    core: &Core,
    record: &MountRecord,
    event: &str,
    why: Failure,
) -> bool {
    core.log.line(LogLevel::Warn, event, &[("mount", record.path.to_string()), cause(&why)]);
    tokio::select! {
        () = tokio::time::sleep(STORE_RETRY_PAUSE) => true,
        () = core.sealing.wait_for_seal() => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_access::sealing::SealSignal;
    use bulkhead_trace::scope::{current_request, in_request};

    #[tokio::test]
    async fn watches_of_request_lack_its_id() {
        let sealing = SealSignal::new(&Arc::default());
        let id = || async { current_request() };
        let (watch, own) = in_request("5e1c", None, async {
            let watch = sealing.spawn(id()).unwrap();
            let own = sealing.spawn(of_current_request(id())).unwrap();
            (watch.await.unwrap(), own.await.unwrap())
        })
        .await;
        assert_eq!((watch, own.as_deref()), (None, Some("5e1c")));
    }
}
