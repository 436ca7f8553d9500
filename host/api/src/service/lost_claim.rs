//! The task that seals the service after another node took the database, or ended the claim of this
//! node.
//!
//! This file prevents a node that lost its claim from staying open: load balancers see a sealed
//! server, and the keys leave the memory, unless the node opens the shared database again. The
//! store itself refuses reads and writes from the moment of the loss.

use bulkhead_access::log::cause;
use bulkhead_core::seal::{Rejoining, ServiceSeal};
use bulkhead_store::{StoreFault, WriteCondition};
use bulkhead_wire::log_level::LogLevel;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause after an attempt to open the data again.
const REJOIN_PAUSE: Duration = Duration::from_secs(1);

/// Watches each open store until the service is dropped.
pub(super) fn begin(seal: &Arc<ServiceSeal>) {
    // The task keeps neither the service nor an open store: both release the data directory.
    tokio::spawn(watch(Arc::downgrade(seal), seal.changes()));
}

async fn watch(seal: Weak<ServiceSeal>, mut changes: watch::Receiver<()>) {
    loop {
        let Some(present) = seal.upgrade() else { return };
        let found = find_loss(&present).await;
        drop(present);
        let writes = match found {
            StoreState::Lost(attempts) => {
                rejoin(&seal, attempts).await;
                continue;
            }
            StoreState::Open(writes) => Some(writes),
            StoreState::Closed => None,
        };
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = change_of(writes) => {}
        }
    }
}

/// The store of the service.
enum StoreState {
    Closed,
    /// Open, with the changes of its condition.
    Open(watch::Receiver<WriteCondition>),
    /// Closed because of the loss of its claim, and about to open again.
    Lost(Rejoining),
}

/// Closes the service if the open store lost its claim.
async fn find_loss(seal: &ServiceSeal) -> StoreState {
    let Some(core) = seal.core() else { return StoreState::Closed };
    let writes = core.store.write_changes();
    let Some(reason) = core.store.claim_loss() else { return StoreState::Open(writes) };
    let reason = StoreFault::Unavailable(reason.to_owned());
    core.log.line(LogLevel::Error, "database-claim-lost", &[cause(&reason)]);
    seal.leave_lost(&core).await.map_or(StoreState::Closed, StoreState::Lost)
}

/// Opens the data again, in attempts, until an attempt is the last or the service is dropped.
async fn rejoin(seal: &Weak<ServiceSeal>, mut attempts: Rejoining) {
    while let Some(present) = seal.upgrade()
        && present.rejoin(&mut attempts).await
    {
        drop(present);
        sleep(REJOIN_PAUSE).await;
    }
}

async fn change_of(writes: Option<watch::Receiver<WriteCondition>>) {
    let Some(mut writes) = writes else { return pending().await };
    if writes.changed().await.is_err() {
        // The store is closed.
        pending().await
    }
}
