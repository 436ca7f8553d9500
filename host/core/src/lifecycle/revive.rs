//! Reviving unavailable mounts: their plugin was registered again, or the operator chose another
//! version.
//!
//! This file prevents a request that reads data of an older schema: the data are migrated before
//! the mount is served. A mount that cannot be revived stays unavailable, with the new reason.

use super::ending::outside_of_request;
use super::put_version::{PutVersion, store_version};
use super::resume::resume_mount;
use super::swap;
use crate::catalog::PluginType;
use crate::core::Core;
use crate::mounts::{MountClass, MountPhase, MountRecord, Mounts, UnavailableMount, VersionSwap};
use bulkhead_access::log::cause;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Serves the unavailable mounts of a plugin, each in its own version. A mount whose version is not
/// there stays unavailable.
pub(super) async fn revive_all(core: &Arc<Core>, kind: PluginType, name: &str) {
    for UnavailableMount { record, .. } in core.mounts.unavailable_of(kind, name) {
        let path = record.path.to_string();
        let swap = match version_of(core, &record) {
            Ok(version) => {
                let selection = record.settings.selection.clone();
                VersionSwap { version, selection, rollback: None }
            }
            Err(failure) => {
                core.mounts.set_reason(&record.uuid, failure.message);
                continue;
            }
        };
        if let Err(failure) = revive(core, &record.uuid, &swap).await {
            let pairs = [("mount", path), cause(&failure)];
            core.log.line(LogLevel::Error, "mount-without-plugin", &pairs);
            core.mounts.set_reason(&record.uuid, failure.message);
        }
    }
}

/// Resumes the migrations that stopped between two steps.
pub(super) fn resume_migrations(core: &Arc<Core>) {
    for UnavailableMount { record, .. } in core.mounts.list_unavailable() {
        if record.phase == MountPhase::Serving && record.migration.is_some() {
            // If the service is sealed again at once, the next unsealing goes on.
            drop(outside_of_request(core, finish_migration(Arc::clone(core), record)));
        }
    }
}

/// Goes on with a migration that an earlier process left between two steps.
async fn finish_migration(core: Arc<Core>, record: MountRecord) {
    let selection = record.settings.selection.clone();
    let swap = VersionSwap { version: record.version.clone(), selection, rollback: None };
    if let Err(failure) = revive(&core, &record.uuid, &swap).await {
        let pairs = [("mount", record.path.to_string()), cause(&failure)];
        core.log.line(LogLevel::Error, "mount-without-plugin", &pairs);
        core.mounts.set_reason(&record.uuid, failure.message);
    }
}

/// Returns the version that a mount waits for. A mount of an earlier release waits for any version.
///
/// # Errors
/// As [`Catalog::select`](crate::catalog::Catalog::select).
fn version_of(core: &Core, record: &MountRecord) -> Result<String, Failure> {
    let kind = MountClass::of(&record.path).plugin_type();
    Ok(core.catalog.select(kind, &record.kind, &record.version)?.recorded_version())
}

/// Lets a version serve the unavailable mount `uuid`.
///
/// # Errors
/// The reason for which the mount stays unavailable: 400 for a version that is not in the catalog
/// or cannot read the stored data, the failure of the migration, 503 for a change under way.
pub(super) async fn revive(
    core: &Arc<Core>,
    uuid: &str,
    swap: &VersionSwap,
) -> Result<(), Failure> {
    let find_mount = || core.mounts.unavailable_by_uuid(uuid).ok_or_else(swap::gone_failure);
    let claim = swap::claim(core, &find_mount()?.record).await?;
    let current_record = find_mount()?.record;
    let record = MountRecord { version: swap.version.clone(), ..current_record };
    let after = Mounts::prepare(record, &core.catalog)?;
    swap::check_schema(&after.record, &after.plugin)?;
    let put = PutVersion { swap, way_back: None, may_be: |_| true, may_checkpoint: false };
    let stored = store_version(core, &claim, &after, &put).await;
    let stored = stored.map_err(|stopped| stopped.leave(core))?;
    core.mounts.serve(stored.clone(), &core.catalog)?;
    drop(claim);
    core.log.line(LogLevel::Info, "mount-plugin-restored", &[("mount", stored.path.to_string())]);
    resume_mount(core, stored);
    Ok(())
}
