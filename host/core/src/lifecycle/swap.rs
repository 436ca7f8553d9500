//! Swapping a mount: another version of its plugin serves it, and no request is refused meanwhile.
//!
//! The new version is loaded beside the old version. If both read the same schema, the pointer is
//! exchanged and requests in flight end on the old version. Otherwise requests and due work wait
//! while the new version migrates the stored data in one commit. The old version goes on serving
//! after a failure at any step.
//!
//! Prevents data in two shapes after a migration that failed half-way, and a request of the old
//! version that writes into migrated data.

use super::attempts::Attempts;
use super::migrate;
use crate::background::Claim;
use crate::catalog::EnginePlugin;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::log::cause;
use crate::mounts::{Mount, MountRecord, Mounts, Phase};
use crate::permit::Permit;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Longest wait for requests and due work in flight before a migration.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after a swap in which a breaker that opens brings the version before back.
const PROBATION: Duration = Duration::from_secs(60);

/// Lets `version` of its plugin serve the mount `uuid`, unless that version serves already.
///
/// # Errors
/// The reason for which the version before serves on: 400 for a version that is not in the catalog
/// or reads an older schema, the failure of the migration, 503 for a swap that is under way or for
/// requests in flight that do not end.
pub(super) async fn swap(core: &Arc<Core>, uuid: &str, version: &str) -> Result<(), Failure> {
    let before = exchange(core, uuid, version).await?;
    if let Some(before) = before {
        tokio::spawn(watch_probation(Arc::clone(core), uuid.to_owned(), before));
    }
    Ok(())
}

/// Exchanges the version. Returns the version before, or `None` if nothing changed.
async fn exchange(core: &Arc<Core>, uuid: &str, version: &str) -> Result<Option<String>, Failure> {
    let gone = || Failure::invalid("the mount was disabled or moved meanwhile");
    let address = core.mounts.by_uuid(uuid).ok_or_else(gone)?.record.address();
    let Some(claim) = core.claims.claim(&address) else {
        let message = "another change of the mount is under way; try again";
        return Err(Failure::new(Kind::Unavailable, message));
    };
    let before = core.mounts.by_uuid(uuid).ok_or_else(gone)?;
    let record = &before.record;
    let is_same = record.version == version;
    if is_same && record.settings.plugin_version == version {
        return Ok(None);
    }
    let after = Mounts::with_version(&before, version, &core.catalog)?;
    check_schema(record, &after.plugin)?;
    let is_migrated = record.schema != after.plugin.engine.description().schema;
    let began = Instant::now();
    let paused = if is_migrated { Some(pause(&before).await?) } else { None };
    let stored = store_version(core, &claim, &after).await?;
    core.mounts.update(stored, &core.catalog)?;
    drop(paused);
    if is_same {
        return Ok(None);
    }
    // The sessions and the cache were those of the version before.
    core.sandbox.close_mount(uuid);
    let held_back = if is_migrated { began.elapsed().as_millis() } else { 0 };
    let pairs = [
        ("mount", record.path.to_string()),
        ("from", record.version.clone()),
        ("to", version.to_owned()),
        ("held_back", format!("{held_back}ms")),
    ];
    core.log.line("info", "plugin-swapped", &pairs);
    Ok(Some(record.version.clone()))
}

/// Refuses a version that reads an older schema than the schema of the mount's data.
///
/// # Errors
/// 400 with both schemas.
pub(crate) fn check_schema(record: &MountRecord, plugin: &EnginePlugin) -> Result<(), Failure> {
    let (stored, wanted) = (record.schema, plugin.engine.description().schema);
    if wanted >= stored {
        return Ok(());
    }
    let version = &plugin.engine.identity().version;
    Err(Failure::invalid(format!(
        "the data of {} have schema {stored}, and version {version} of {} reads schemas up to \
         {wanted}: choose a newer version",
        record.path, record.kind
    )))
}

/// Holds requests and due work of the mount back, once those in flight have ended.
async fn pause(mount: &Mount) -> Result<[crate::mounts::Paused; 2], Failure> {
    timeout(PATIENCE, mount.pause()).await.map_err(|_| {
        let message = format!(
            "requests of {} that were in flight did not end within {} s; the version before \
             serves on, try again",
            mount.record.path,
            PATIENCE.as_secs()
        );
        Failure::new(Kind::Unavailable, message)
    })
}

/// Stores that the version of `after` serves the mount, with the migrated data. Returns the record
/// as it is stored.
async fn store_version(
    core: &Arc<Core>,
    claim: &Claim,
    after: &Arc<Mount>,
) -> Result<MountRecord, Failure> {
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(after, &permit);
    let work = BackgroundServices::for_caller(core, after);
    let mut attempts = Attempts::for_caller(core, work.deadline());
    let stored = loop {
        let unit = attempts.begin(after.begin(&core.store)).whole();
        let is_migrated = after.record.schema != after.plugin.engine.description().schema;
        let migrated = match is_migrated {
            true => migrate::call(&work, &opened, unit, after.record.schema).await,
            false => Ok(unit),
        };
        let stored = match migrated {
            Ok(unit) => put_version(unit, after).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&stored).await {
            break stored;
        }
    };
    work.release_guards().await;
    stored
}

/// Commits the unit with the record of the mount, as other requests have changed it by now.
async fn put_version(mut unit: Unit, after: &Mount) -> Result<MountRecord, Failure> {
    let path = &after.record.path;
    let found = MountRecord::read(&mut unit, path).await?;
    let serves =
        |record: &MountRecord| record.uuid == after.record.uuid && record.phase == Phase::Serving;
    let mut record = found.filter(serves).ok_or_else(|| {
        Failure::invalid(format!("the mount at {path} was disabled or moved meanwhile"))
    })?;
    record.version.clone_from(&after.record.version);
    record.settings.plugin_version.clone_from(&after.record.version);
    record.schema = after.plugin.engine.description().schema;
    record.put(&mut unit)?;
    unit.commit().await?;
    Ok(record)
}

/// Brings the version before back if the breaker of the new version opens soon after the swap.
async fn watch_probation(core: Arc<Core>, uuid: String, before: String) {
    let Some(mount) = core.mounts.by_uuid(&uuid) else { return };
    tokio::select! {
        () = mount.breaker_opens() => {}
        () = tokio::time::sleep(PROBATION) => return,
        () = core.sealing.begun() => return,
    }
    let failed = mount.record.version.clone();
    if core.mounts.by_uuid(&uuid).is_none_or(|now| now.record.version != failed) {
        return;
    }
    let pairs = |more: (&'static str, String)| {
        [
            ("mount", mount.record.path.to_string()),
            ("from", failed.clone()),
            ("to", before.clone()),
            more,
        ]
    };
    match exchange(&core, &uuid, &before).await {
        Ok(_) => {
            let after = format!("{}s", PROBATION.as_secs());
            core.log.line("error", "plugin-rolled-back", &pairs(("crashed-within", after)));
        }
        Err(failure) => {
            core.log.line("error", "plugin-not-rolled-back", &pairs(cause(&failure)));
        }
    }
}
