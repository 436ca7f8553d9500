//! The tables in memory follow the commits of other nodes that share the database (decision T64).
//!
//! This file prevents a node that serves a mount, plugin, pin, quota or audit device as it was
//! before another node changed it. A change counts as read by this node once the count of foreign
//! changes has risen; from then on, no request is routed before the tables include the change. The
//! other node answers its caller only after that, so that the change is in force on every node at
//! the moment of the answer.

use crate::core::Core;
use crate::mounts::MountSources;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two looks at the counts while no request arrives. Due work uses the tables, too.
const LOOK_PAUSE: Duration = Duration::from_millis(25);
/// Pause after a reading that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Waits until the tables include every commit of another node that was answered before the call.
/// Does nothing on a node that works alone.
///
/// # Errors
/// 503 if the changes of other nodes cannot be read, 500 for a record of a mount that does not
/// parse.
pub async fn catch_up(core: &Core) -> Result<(), Failure> {
    if !core.store.is_shared() {
        return Ok(());
    }
    core.store.await_fresh().await?;
    if core.followed.are_current() {
        return Ok(());
    }
    Box::pin(include_changes(core)).await
}

/// Reads the tables that other nodes changed.
async fn include_changes(core: &Core) -> Result<(), Failure> {
    let followed = &core.followed;
    let _turn = followed.hold().await;
    // Mounts are served by plugins of the catalog.
    if !followed.catalog.is_current() {
        let changes = followed.catalog.changes();
        read_catalog(core).await?;
        followed.catalog.include(changes);
    }
    if !followed.mounts.is_current() {
        let changes = followed.mounts.changes();
        for outdated in core.mounts.reload(sources(core)).await? {
            let uuid = &outdated.record.uuid;
            core.sandbox.close_mount(uuid);
            if core.mounts.record_of(uuid).is_none() {
                core.parking.release(uuid, &outdated.gone_failure());
            }
        }
        followed.mounts.include(changes);
    }
    if !followed.quotas.is_current() {
        let changes = followed.quotas.changes();
        core.quotas.load(&core.store).await?;
        followed.quotas.include(changes);
    }
    if !followed.audit.is_current() {
        let changes = followed.audit.changes();
        core.audit.reload(&core.store).await?;
        followed.audit.include(changes);
    }
    Ok(())
}

/// Takes over a change of the catalog that this node committed, as the catalog is stored by now:
/// another node may have changed the catalog since the commit.
///
/// # Errors
/// 503 if the store cannot be read.
pub(super) async fn reload_catalog(core: &Core) -> Result<(), Failure> {
    let _turn = core.followed.hold().await;
    read_catalog(core).await
}

/// Reads the catalog, and applies the catalog to the mounts. The caller holds the turn.
async fn read_catalog(core: &Core) -> Result<(), Failure> {
    core.catalog.reload(core.loader()).await?;
    core.mounts.renew_outdated(sources(core));
    Ok(())
}

/// Takes over a change of the audit devices like [`reload_catalog`].
///
/// # Errors
/// 503 if the store cannot be read.
pub(super) async fn reload_audit(core: &Core) -> Result<(), Failure> {
    let _turn = core.followed.hold().await;
    core.audit.reload(&core.store).await
}

fn sources(core: &Core) -> MountSources<'_> {
    MountSources { store: &core.store, catalog: &core.catalog, log: &core.log }
}

/// Lets the tables follow while no request arrives, until the service is being sealed. Does nothing
/// on a node that works alone.
pub(super) fn begin(core: &Arc<Core>) {
    if !core.store.is_shared() {
        return;
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        while !core.sealing.has_begun() {
            let is_current = core.followed.are_current() || include_changes(&core).await.is_ok();
            // A failure is in the condition of the store, and requests report it.
            let pause = if is_current { LOOK_PAUSE } else { FAILURE_PAUSE };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = core.sealing.wait_for_seal() => {}
            }
        }
    });
}
