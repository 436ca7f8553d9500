//! Ending what a mount handed out, in tasks that outlive the request which asked for it.

use crate::core::Core;
use crate::leases::{Below, OnFailure};
use crate::log::cause;
use crate::mounts::Mount;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two attempts to store what has to be stored.
const PAUSE: Duration = Duration::from_secs(5);

/// Keeps requests out, waits for those inside, and ends all tokens of logins, leases and
/// reservations. Each lease is tried, also after one that fails.
///
/// # Errors
/// Of the first that could not be ended; never 500, because the remedy is the caller's.
pub(super) async fn end_all(core: &Arc<Core>, mount: &Mount) -> Result<(), Failure> {
    mount.close_requests().await;
    core.parking.release(&mount.record.uuid, &mount.gone());
    core.tokens.end_logins_of(&mount.record.uuid).await?;
    let all = [Below { mount: &mount.record.uuid, below: "" }];
    core.leases.end_below(&all, OnFailure::Stays).await.map_err(|failure| match failure.kind {
        Kind::Internal => Failure { kind: Kind::InvalidRequest, ..failure },
        _ => failure,
    })
}

/// Runs `work` in a task of its own, which goes on when its caller is gone, and which a seal
/// waits for.
///
/// # Errors
/// 503 when the service is being sealed.
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

/// Tells of a failure and waits for another attempt. `false` when there is to be none, because the
/// service is sealed.
pub(super) async fn pause(core: &Core, mount: &Mount, event: &str, why: Failure) -> bool {
    core.log.line("warn", event, &[("mount", mount.record.path.to_string()), cause(&why)]);
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => true,
        () = core.sealing.begun() => false,
    }
}
