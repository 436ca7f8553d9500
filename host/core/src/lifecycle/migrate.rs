//! Migration of a mount's stored data to the schema of its current component.

use super::attempts::Attempts;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::log::cause;
use crate::mounts::{Mount, MountRecord, Opened, Phase};
use crate::permit::Permit;
use bulkhead_sandbox::{Maker, Priority};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Migrates the stored data of every mount to the schema of its component. If the component of an
/// uploaded plugin fails, its mount becomes unavailable.
///
/// # Errors
/// The failure of a component of this binary, or of the store.
pub(super) async fn migrate_all(core: &Arc<Core>) -> Result<(), Failure> {
    for mount in core.mounts.all() {
        store_version(core, &mount).await?;
        let mount = core.mounts.by_uuid(&mount.record.uuid).unwrap_or(mount);
        match migrate(core, &mount).await {
            Err(failure) if mount.plugin.engine.identity().maker == Maker::Uploaded => {
                let pairs = [("mount", mount.record.path.to_string()), cause(&failure)];
                core.log.line("error", "mount-without-plugin", &pairs);
                core.mounts.set_unavailable(mount.record.clone(), failure.message);
            }
            migrated => migrated?,
        }
    }
    Ok(())
}

/// Runs the component's `migrate` if the mount's data has an older schema, and stores the new
/// schema in the same commit.
///
/// # Errors
/// The component's failure, or data written by a newer component.
pub(super) async fn migrate(core: &Arc<Core>, mount: &Arc<Mount>) -> Result<(), Failure> {
    let description = mount.plugin.engine.description();
    let (wanted, stored) = (description.schema, mount.record.schema);
    let is_read = (wanted..=mount.plugin.newest_schema()).contains(&stored);
    if is_read || mount.record.phase == Phase::Erasing {
        return Ok(());
    }
    let path = &mount.record.path;
    if stored > wanted {
        return Err(Failure::internal(format!(
            "mount {path} was written by a newer version of {} (schema {stored}, this one knows \
             {wanted}); start that version",
            mount.record.kind
        ))
        .recordable());
    }
    let claim = core.claims.claim_in_turn(&mount.record.address()).await;
    let permit = Permit::for_due_work(&claim);
    let opened = core.mounts.open(mount, &permit);
    let work = BackgroundServices::for_caller(core, mount);
    let mut attempts = Attempts::for_caller(core, work.deadline());
    let migrated = loop {
        let unit = attempts.begin(mount.begin(&core.store));
        let migrated = attempt(&work, &opened, unit, (&mount.record, wanted)).await;
        if !attempts.continue_after(&migrated).await {
            break migrated;
        }
    };
    work.release_guards().await;
    core.mounts.update(migrated?, &core.catalog)
}

/// Runs the component's `migrate` and stores the new schema. Returns the stored record.
async fn attempt(
    work: &BackgroundServices,
    opened: &Opened<'_>,
    unit: Unit,
    (before, wanted): (&MountRecord, u32),
) -> Result<MountRecord, Failure> {
    let mut unit = call(work, opened, unit, before.schema).await?;
    let mut record = MountRecord { schema: wanted, ..before.clone() };
    record.put(&mut unit)?;
    unit.commit().await?;
    Ok(record)
}

/// Calls the component's `migrate` for data of the schema `from`. Returns the unit of work with the
/// migrated data.
///
/// # Errors
/// The component's failure.
pub(super) async fn call(
    work: &BackgroundServices,
    opened: &Opened<'_>,
    unit: Unit,
    from: u32,
) -> Result<Unit, Failure> {
    let admitted = work.enter(Priority::Background).await?;
    let (scope, context) = (work.scope(opened), work.context(None));
    let done = opened.plugin.engine.migrate(scope, unit, &context, from).await;
    work.note_end(admitted, done.ended);
    done.result?;
    Ok(done.unit)
}

/// Stores the version of the uploaded plugin that serves the mount in the record of the mount.
/// Earlier releases had a single version of each plugin, and stored none.
async fn store_version(core: &Core, mount: &Mount) -> Result<(), Failure> {
    let version = mount.plugin.recorded_version();
    if mount.record.version == version {
        return Ok(());
    }
    let mut record = MountRecord { version, ..mount.record.clone() };
    let mut unit = core.store.begin();
    record.put(&mut unit)?;
    unit.commit().await?;
    core.mounts.update(record, &core.catalog)
}
