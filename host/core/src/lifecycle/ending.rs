//! Ending the leases and logins of a mount, in tasks that outlive the request that asked for the
//! end.

use crate::core::Core;
use crate::leases::{LeasePrefix, OnFailure};
use crate::mounts::{Mount, MountRecord};
use bulkhead_access::log::cause;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pause between two attempts to store a change that must be stored.
const STORE_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Closes the mount for requests, waits for requests inside, and ends all tokens of logins, leases
/// and reservations. Each lease is tried, even after another lease failed.
///
/// # Errors
/// The first failure. A lease that cannot be ended never causes 500, because the caller has the
/// remedy.
pub(super) async fn end_all(core: &Arc<Core>, mount: &Mount) -> Result<(), Failure> {
    mount.close_requests().await;
    core.parking.release(&mount.record.uuid, &mount.gone_failure());
    core.tokens.end_logins_of(&mount.record.uuid).await?;
    let all = [LeasePrefix { mount: &mount.record.uuid, below: "" }];
    core.leases.end_below(&all, OnFailure::Stays).await.map_err(|failure| match failure.kind {
        FailureKind::Internal => Failure { kind: FailureKind::InvalidRequest, ..failure },
        _ => failure,
    })
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

/// Runs `work` in a separate task. The task continues without its caller, and sealing waits for
/// the task.
///
/// # Errors
/// 503 if the service is being sealed.
pub(super) fn in_background<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let in_flight = core.sealing.enter()?;
    Ok(tokio::spawn(async move {
        let done = work.await;
        drop(in_flight);
        done
    }))
}

/// Logs a failure and waits for the next attempt. Returns `false` if the service is being sealed,
/// so that there is no next attempt.
pub(super) async fn log_and_pause(
    core: &Core,
    record: &MountRecord,
    event: &str,
    why: Failure,
) -> bool {
    core.log.line("warn", event, &[("mount", record.path.to_string()), cause(&why)]);
    tokio::select! {
        () = tokio::time::sleep(STORE_RETRY_PAUSE) => true,
        () = core.sealing.wait_for_seal() => false,
    }
}
