//! The task that seals the service after another node took the database, or ended the claim of this
//! node.
//!
//! This file prevents a node that lost its claim from staying open: load balancers see a sealed
//! server, and the keys leave the memory, unless the node opens the shared database again. The
//! store itself refuses reads and writes from the moment of the loss.

use bulkhead_access::log::cause;
use bulkhead_core::seal::ServiceSeal;
use bulkhead_store::{StoreFault, WriteCondition};
use bulkhead_wire::log_level::LogLevel;
use std::future::pending;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// Watches each open store until the service is dropped.
pub(super) fn begin(seal: &Arc<ServiceSeal>) {
    // The task keeps neither the service nor a store: both release the data directory.
    tokio::spawn(watch(Arc::downgrade(seal), seal.changes()));
}

async fn watch(seal: Weak<ServiceSeal>, mut changes: watch::Receiver<()>) {
    loop {
        let Some(present) = seal.upgrade() else { return };
        let writes = seal_if_lost(&present).await;
        drop(present);
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

/// Seals the service if the open store lost its database. Returns the changes of the open store.
async fn seal_if_lost(seal: &ServiceSeal) -> Option<watch::Receiver<WriteCondition>> {
    let core = seal.core()?;
    let writes = core.store.write_changes();
    if let Some(reason) = core.store.claim_loss() {
        let reason = StoreFault::Unavailable(reason.to_owned());
        core.log.line(LogLevel::Error, "database-claim-lost", &[cause(&reason)]);
        seal.leave_lost(&core).await;
    }
    Some(writes)
}

async fn change_of(writes: Option<watch::Receiver<WriteCondition>>) {
    let Some(mut writes) = writes else { return pending().await };
    if writes.changed().await.is_err() {
        // The store is closed.
        pending().await
    }
}
