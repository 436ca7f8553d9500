//! Reloading mounts and connections: each gets the version that pins and its settings choose now.
//!
//! This file prevents one bad version from stopping the reload of others: a mount or connection
//! whose version cannot be exchanged is served as before, and the reload goes on with the next.

use super::ending::in_background;
use super::swap;
use crate::catalog::{self, ReloadRecord};
use crate::core::Core;
use crate::mounts::{Mount, MountClass, MountPhase, VersionSwap};
use bulkhead_access::random;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// The mounts and connections of a reload.
#[derive(Default)]
pub struct ReloadTargets {
    /// Mounts to reload one after another; the reload skips mounts that do not serve.
    pub mounts: Vec<Arc<Mount>>,
    /// Own name of the database plugin whose connections are reloaded before the mounts; empty for
    /// none.
    pub database: String,
}

/// Reloads connections and mounts, in a task that goes on when the client is gone. Mounts that are
/// being disabled or moved are left alone.
///
/// # Errors
/// 503 when the service is being sealed.
pub async fn reload(core: &Arc<Core>, reloading: ReloadTargets) -> Result<ReloadRecord, Failure> {
    let id = random::uuid()?;
    let work = reload_each(Arc::clone(core), id, reloading);
    let ended_early = |_| Failure::internal("the reload ended early");
    in_background(core, work)?.await.map_err(ended_early)
}

async fn reload_each(core: Arc<Core>, id: String, reloading: ReloadTargets) -> ReloadRecord {
    let ReloadTargets { mounts, database } = reloading;
    let mut failed = Vec::new();
    if let Err(failure) = reload_connections(&core, &database, &mut failed).await {
        failed.push((format!("connections of {database}"), failure));
    }
    for mount in mounts.iter().filter(|mount| mount.record.phase == MountPhase::Serving) {
        if let Err(failure) = reload_one(&core, mount).await {
            failed.push((mount.record.path.to_string(), failure));
        }
    }
    let reload = ReloadRecord { id, time: core.store.now(), failed };
    core.reloads.add_reload(reload.clone());
    reload
}

/// Swaps the mount to the version that is chosen for the mount now. A mount that keeps its version
/// gets new sessions, an empty cache and a closed breaker.
async fn reload_one(core: &Arc<Core>, mount: &Mount) -> Result<(), Failure> {
    let record = &mount.record;
    let selection = record.settings.selection.clone();
    let kind = MountClass::of(&record.path).plugin_type();
    let chosen = core.catalog.choose(kind, &record.kind, selection.choice())?;
    let version = chosen.recorded_version();
    let is_same = version == record.version;
    swap::swap(core, &record.uuid, &VersionSwap { version, selection, rollback: None }).await?;
    if is_same {
        core.sandbox.close_mount(&record.uuid);
        mount.close_breaker();
        core.log.line(LogLevel::Info, "mount-reloaded", &[("mount", record.path.to_string())]);
    }
    Ok(())
}

/// Chooses the version of every connection of the database plugin again. The reload of the mounts,
/// which follows, closes the sessions of the versions before.
async fn reload_connections(
    core: &Core,
    plugin: &str,
    failed: &mut Vec<(String, Failure)>,
) -> Result<(), Failure> {
    let connections = catalog::connections_of(&core.store, &mut core.store.begin(), plugin).await?;
    for (connection, _) in connections {
        let Some(mount) = core.mounts.record_of(&connection.mount) else { continue };
        if let Err(failure) = core.catalog.choose_again(&core.store, &connection).await {
            failed.push((format!("connection {} of {}", connection.name, mount.path), failure));
        }
    }
    Ok(())
}
