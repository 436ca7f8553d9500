//! Ending what a mount handed out, and going on with what a process left half-done.

use super::{Mount, Phase, disable, remount};
use crate::core::Core;
use crate::leases::{Below, OnFailure, end_below};
use crate::service::sealed;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two attempts to store what has to be stored.
const PAUSE: Duration = Duration::from_secs(5);

/// Keeps requests out, waits for those inside, and ends all leases and reservations. Each is tried,
/// also after one that fails.
///
/// # Errors
/// Of the first that could not be ended; never 500, because the remedy is the caller's.
pub(super) async fn end_all(core: &Arc<Core>, mount: &Mount) -> Result<(), Failure> {
    drop(mount.requests.close().await);
    let all = [Below { mount: &mount.record.uuid, below: "" }];
    end_below(core, &all, OnFailure::Stays).await.map_err(|failure| match failure.kind {
        Kind::Internal => Failure { kind: Kind::InvalidRequest, ..failure },
        _ => failure,
    })
}

/// Goes on with the mounts that an earlier process left on their way out or elsewhere.
pub(crate) fn resume(core: &Arc<Core>) {
    for mount in core.mounts.all() {
        match mount.record.phase {
            Phase::Serving => {}
            Phase::Moving { .. } => remount::carry_out(core, &mount.record.uuid),
            Phase::Ending | Phase::Erasing => {
                let work = disable::go_on(Arc::clone(core), mount);
                // Sealed again at once, it is for the next unsealing.
                drop(in_background(core, work));
            }
        }
    }
}

/// Runs `work` in a task of its own, which goes on when its caller is gone, and which whoever seals
/// the service waits for.
///
/// # Errors
/// 503 when the service is being sealed.
pub(super) fn in_background<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let in_flight = Arc::clone(&core.process.in_flight).try_read_owned().map_err(|_| sealed())?;
    Ok(tokio::spawn(async move {
        let done = work.await;
        drop(in_flight);
        done
    }))
}

/// Tells of a failure and waits for another attempt. `false` when there is to be none, because the
/// service is sealed.
pub(super) async fn pause(core: &Core, mount: &Mount, event: &str, why: Failure) -> bool {
    core.log.line(
        "warn",
        event,
        &[("mount", mount.record.path.to_string()), ("cause", why.message)],
    );
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => true,
        () = core.stopping() => false,
    }
}
