//! Migration of a mount's stored data to the schema of its current component.

use super::claim_mount::claim_mount_in_turn;
use super::put_version::{PutVersion, store_version};
use super::swap::check_schema;
use crate::core::Core;
use crate::mounts::{Mount, MountPhase, MountRecord, UnfinishedMigration, VersionSwap};
use bulkhead_access::log::cause;
use bulkhead_sandbox::Publisher;
use bulkhead_store::StoreFault;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Migrates the stored data of every mount to the schema of its component. If the component of an
/// uploaded plugin fails, its mount becomes unavailable. A migration of an uploaded plugin, and a
/// change of the API's version, that stopped between two steps goes on after the start, so that the
/// start does not wait for it.
///
/// # Errors
/// The failure of a component of this binary, or of the store.
pub(super) async fn migrate_all(core: &Arc<Core>) -> Result<(), Failure> {
    for mount in core.mounts.all() {
        record_version(core, &mount).await?;
        let mount = core.mounts.by_uuid(&mount.record.uuid).unwrap_or(mount);
        let is_uploaded = mount.plugin.identity().maker == Publisher::Uploaded;
        let goes_on =
            |unfinished: &&UnfinishedMigration| is_uploaded || unfinished.api_version.is_some();
        if let Some(unfinished) = mount.record.migration.as_ref().filter(goes_on) {
            let why = format!("the mount's data are being migrated to {}", unfinished.target());
            core.mounts.set_unavailable(mount.record.clone(), why);
            continue;
        }
        match migrate(core, &mount).await {
            Err(failure) if is_uploaded => {
                let pairs = [("mount", mount.record.path.to_string()), cause(&failure)];
                core.log.line(LogLevel::Error, "mount-without-plugin", &pairs);
                core.mounts.set_unavailable_now(&mount.record, failure.message);
            }
            migrated => migrated?,
        }
    }
    Ok(())
}

/// Runs the component's `migrate` if the mount's data has an older schema, and stores the new
/// schema with the last step.
///
/// # Errors
/// The component's failure, or data written by a newer component.
pub(super) async fn migrate(core: &Arc<Core>, mount: &Arc<Mount>) -> Result<(), Failure> {
    let description = mount.plugin.description();
    let (wanted, stored) = (description.schema, mount.record.schema);
    let is_read = (wanted..=mount.plugin.newest_schema()).contains(&stored);
    let is_whole = mount.record.migration.is_none();
    if is_read && is_whole || mount.record.phase == MountPhase::Erasing {
        return Ok(());
    }
    if !is_whole {
        check_schema(&mount.record, &mount.plugin)?;
    }
    let path = &mount.record.path;
    if stored > wanted {
        let why = format!(
            "mount {path} was written by a newer version of {} (schema {stored}, this one knows \
             {wanted}); start that version",
            mount.record.kind
        );
        return Err(Failure::new(FailureKind::OtherVersion, why).recordable());
    }
    let claim = claim_mount_in_turn(core, &mount.record).await?;
    match core.mounts.by_uuid(&mount.record.uuid) {
        Some(now) if now.record.revision == mount.record.revision => {}
        // Another node changed the mount before the claim, for example by this migration.
        Some(now) => {
            drop(claim);
            return Box::pin(migrate(core, &now)).await;
        }
        None => return Ok(()),
    }
    let MountRecord { version, settings, .. } = &mount.record;
    let selection = settings.selection.clone();
    let swap = VersionSwap { version: version.clone(), selection, rollback: None };
    let way_back = mount.record.before_swap.clone();
    let put = PutVersion { swap: &swap, way_back, may_be: |_| true, may_checkpoint: true };
    let migrated = store_version(core, &claim, mount, &put).await;
    core.mounts.update(migrated.map_err(|stopped| stopped.leave(core))?, &core.catalog)
}

/// Stores the version of the uploaded plugin that serves the mount in the record of the mount.
/// Earlier releases had a single version of each plugin, and stored none.
async fn record_version(core: &Core, mount: &Mount) -> Result<(), Failure> {
    let version = mount.plugin.recorded_version();
    if mount.record.version == version {
        return Ok(());
    }
    let mut record = MountRecord { version, ..mount.record.clone() };
    let mut unit = core.store.begin();
    record.put(&mut unit)?;
    match unit.commit().await {
        // Another node stored the version, or changed the mount.
        Err(StoreFault::Conflict) => Ok(()),
        committed => {
            committed?;
            core.mounts.update(record, &core.catalog)
        }
    }
}
