//! Migration: a mount's stored data is brought to the schema of the component that now serves it.

use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::log::cause;
use crate::mounts::{Mount, MountRecord, Phase};
use crate::permit::Permit;
use bulkhead_sandbox::{Maker, Priority};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Brings the stored data of every mount to the schema of its component. A mount of an uploaded one
/// that fails in it is left out.
///
/// # Errors
/// The failure of a component of this binary.
pub(super) async fn migrate_all(core: &Arc<Core>) -> Result<(), Failure> {
    for mount in core.mounts.all() {
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

/// Runs the component's `migrate` where the mount's data is older, and stores the new schema with
/// it.
///
/// # Errors
/// The component's failure, or data written by a newer component.
pub(super) async fn migrate(core: &Arc<Core>, mount: &Arc<Mount>) -> Result<(), Failure> {
    let wanted = mount.plugin.engine.description().schema;
    let stored = mount.record.schema;
    if stored == wanted || mount.record.phase == Phase::Erasing {
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
    let admitted = work.enter(Priority::Background).await?;
    let (scope, unit) = (work.scope(&opened), mount.begin(&core.store));
    let done = opened.plugin.engine.migrate(scope, unit, &work.context(None), stored).await;
    work.note_end(admitted, done.ended);
    let mut record = MountRecord { schema: wanted, ..mount.record.clone() };
    let stored = match done.result {
        Ok(()) => store(&mut record, done.unit).await,
        Err(failure) => Err(failure),
    };
    work.release_guards().await;
    stored?;
    core.mounts.update(record, &core.catalog)
}

/// Stores what the component migrated, and that it did.
async fn store(record: &mut MountRecord, mut unit: Unit) -> Result<(), Failure> {
    record.put(&mut unit)?;
    unit.commit().await?;
    Ok(())
}
