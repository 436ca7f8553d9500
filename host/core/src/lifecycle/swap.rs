//! Swapping a mount: another version of its plugin serves it. Requests wait during a migration, for
//! at most 10 s. A swap without a migration refuses no request.
//!
//! The new version is loaded beside the old version. If both read the same schema, the pointer is
//! exchanged and requests in flight end on the old version. Otherwise requests and due work wait
//! while the new version migrates the stored data, in one commit or in steps. The old version goes
//! on serving after a failure, unless a step that is not the last was stored: the mount is then
//! unavailable until a version finishes the migration.
//!
//! This file prevents a version that meets data in two shapes after a migration that failed
//! half-way, and a request of the old version that writes into migrated data.
//!
//! Example. Version 1.0.0 serves `shelf/`. `POST /v1/sys/mounts/shelf/tune` with `plugin_version`
//! 2.0.0 commits the other settings, and then hands a [`VersionSwap`] to `swap`. `exchange_version`
//! claims the record of the mount and loads version 2.0.0. If both versions have the same schema,
//! [`store_version`] commits the version to the [`MountRecord`], and `Mounts::update` exchanges the
//! mount in the table. A request inside ends on version 1.0.0; a request that found the mount
//! before and enters now gets `MountEntryOutcome::Replaced` and looks again. If the schema is
//! newer, [`pause_mount`] holds requests back, and the writes of `migrate` are committed with the
//! new record. If requests in flight do not end within 10 s, or `migrate` fails in its first step,
//! the caller gets the failure and 1.0.0 serves on. A process that dies starts with the version of
//! the last commit. Four crashes in a row within the probation bring 1.0.0 back (`roll_back`).

use super::claim_mount::claim_mount;
use super::ending::claim_stopped;
use super::put_version::{PutVersion, needs_migration, read_stored, store_version, unless_stopped};
use crate::catalog::EnginePlugin;
use crate::core::Core;
use crate::mounts::{
    Mount, MountPhase, MountRecord, Mounts, RollbackMode, RollbackRecord, VersionBefore,
    VersionSwap,
};
use bulkhead_access::background::Claim;
use bulkhead_access::log::cause;
use bulkhead_sandbox::PluginSwap;
use bulkhead_store::StoreFault;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Longest wait for requests and due work in flight before a migration.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of times that a change of a record is tried against other changes of the mount.
const MAX_RECORD_TRIES: u32 = 16;

/// Carries out a swap of the mount `uuid`, and watches the new version in its probation.
///
/// # Errors
/// The reason for which the version before serves on: 400 for a version that is not in the catalog
/// or cannot read the stored data, the failure of the migration, 503 for a swap that is under way
/// or for requests in flight that do not end.
pub(super) async fn swap(core: &Arc<Core>, uuid: &str, swap: &VersionSwap) -> Result<(), Failure> {
    let exchanged = exchange_version(core, uuid, swap).await;
    core.sandbox.swaps.note(match &exchanged {
        Ok(SwapOutcome::Done) => PluginSwap::Done,
        Ok(SwapOutcome::Same) => return Ok(()),
        Err(_) => PluginSwap::Refused,
    });
    exchanged?;
    watch_probation(core, uuid);
    Ok(())
}

/// The outcome of an exchange that did not fail.
#[derive(PartialEq, Eq)]
enum SwapOutcome {
    /// Another version serves.
    Done,
    /// The version serves already.
    Same,
}

/// Exchanges the version.
async fn exchange_version(
    core: &Arc<Core>,
    uuid: &str,
    swap: &VersionSwap,
) -> Result<SwapOutcome, Failure> {
    let find_mount = || core.mounts.by_uuid(uuid).ok_or_else(gone_failure);
    let claim = claim(core, &find_mount()?.record).await?;
    let before = find_mount()?;
    let record = &before.record;
    let is_same = record.version == swap.version;
    if is_same && record.settings.selection == swap.selection {
        return Ok(SwapOutcome::Same);
    }
    let after = Mounts::with_version(&before, &swap.version, &core.catalog)?;
    check_schema(record, &after.plugin)?;
    if swap.rollback.is_none() {
        // So that no request waits for the code. A rollback must not fail for want of code.
        unless_stopped(core, &after, core.load_plugin(&after)).await?;
    }
    let is_migrated = needs_migration(&after);
    let began = Instant::now();
    let paused = match is_migrated {
        true => Some(unless_stopped(core, &after, pause_mount(&before)).await?),
        false => None,
    };
    let way_back = way_back(core, &before, swap);
    let put = PutVersion { swap, way_back, may_be: is_serving, may_checkpoint: false };
    let stored = store_version(core, &claim, &after, &put).await;
    let stored = stored.map_err(|stopped| stopped.leave(core))?;
    core.mounts.update(stored, &core.catalog)?;
    drop(paused);
    if is_same {
        return Ok(SwapOutcome::Same);
    }
    // The sessions and the cache were those of the version before.
    core.sandbox.close_mount(uuid);
    let held_back = if is_migrated { began.elapsed().as_millis() } else { 0 };
    let pairs = [
        ("mount", record.path.to_string()),
        ("from", record.version.clone()),
        ("to", swap.version.clone()),
        ("held_back", format!("{held_back}ms")),
    ];
    core.log.line(LogLevel::Info, "plugin-swapped", &pairs);
    Ok(SwapOutcome::Done)
}

/// Ends the migration by another version that is between two steps, if `version` can finish the
/// migration. Otherwise a migration that does not come to an end could not be repaired.
///
/// # Errors
/// The store's failure. As [`check_schema`].
pub(super) async fn end_other_migration(
    core: &Arc<Core>,
    uuid: &str,
    version: &str,
) -> Result<(), Failure> {
    let Some(current_record) = core.mounts.record_of(uuid) else { return Ok(()) };
    let stored = MountRecord::read(&mut core.store.begin(), &current_record.path).await?;
    let is_other = |stored: &MountRecord| {
        stored.uuid == uuid && stored.migration.is_some() && stored.version != version
    };
    let Some(stored) = stored.filter(is_other) else { return Ok(()) };
    let record = MountRecord { version: version.to_owned(), ..stored };
    let after = Mounts::prepare(record, &core.catalog)?;
    check_schema(&after.record, &after.plugin)?;
    drop(claim_stopped(core, &after.record).await?);
    Ok(())
}

/// The failure for a mount that is not there any more.
pub(super) fn gone_failure() -> Failure {
    Failure::invalid("the mount was disabled or moved meanwhile")
}

/// Claims the mount for a change of its version.
///
/// # Errors
/// 503 while another change of the mount is under way.
pub(super) async fn claim(core: &Core, record: &MountRecord) -> Result<Claim, Failure> {
    claim_mount(core, record).await?.ok_or_else(|| {
        let message = "another change of the mount is under way; try again";
        Failure::new(FailureKind::Unavailable, message)
    })
}

/// Refuses a version that cannot read the schema of the mount's data, or cannot finish the
/// migration of data between two schemas.
///
/// # Errors
/// 400 with both schemas.
pub fn check_schema(record: &MountRecord, plugin: &EnginePlugin) -> Result<(), Failure> {
    let version = &plugin.identity().version;
    let (stored, newest) = (record.schema, plugin.newest_schema());
    if let Some(unfinished) = &record.migration {
        let (written, to) = (plugin.description().schema, unfinished.to);
        if written == to {
            return Ok(());
        }
        return Err(Failure::invalid(format!(
            "the data of {} are between schema {stored} and schema {to}, because a migration \
             stopped after {} steps, and version {version} of {} writes schema {written}: choose a \
             version with schema {to}, which finishes the migration",
            record.path, unfinished.steps, record.kind
        )));
    }
    if newest >= stored {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "the data of {} have schema {stored}, and version {version} of {} reads schemas up to \
         {newest}: choose a newer version",
        record.path, record.kind
    )))
}

/// Holds requests and due work of the mount back, once those in flight have ended.
pub(super) async fn pause_mount(mount: &Mount) -> Result<[crate::mounts::PausedGate; 2], Failure> {
    timeout(DRAIN_TIMEOUT, mount.pause()).await.map_err(|_| {
        let message = format!(
            "requests of {} in flight did not end within {} s; the version before serves on, try \
             again",
            mount.record.path,
            DRAIN_TIMEOUT.as_secs()
        );
        Failure::new(FailureKind::Unavailable, message)
    })
}

pub(super) fn is_serving(phase: &MountPhase) -> bool {
    *phase == MountPhase::Serving
}

/// Returns the way back from a swap: `None` for a rollback, for a swap to the version that serves,
/// and where the operator tuned rollbacks off.
fn way_back(core: &Core, before: &Mount, swap: &VersionSwap) -> Option<VersionBefore> {
    let MountRecord { version, settings, .. } = &before.record;
    let is_watched = swap.rollback.is_none()
        && *version != swap.version
        && settings.probation.plugin_rollback == RollbackMode::Auto;
    is_watched.then(|| VersionBefore {
        version: version.clone(),
        selection: settings.selection.clone(),
        until: core.store.now().saturating_add(settings.probation.plugin_probation * 1_000),
    })
}

/// Watches the version of the mount until its probation ends, in a separate task, and brings the
/// version before back if the breaker of the new version opens. Does nothing for a mount whose
/// version is not on probation.
pub(super) fn watch_probation(core: &Arc<Core>, uuid: &str) {
    let Some(mount) = core.mounts.by_uuid(uuid) else { return };
    let Some(before) = mount.record.before_swap.clone() else { return };
    let left = Duration::from_millis(before.until.saturating_sub(core.store.now()));
    mount.begin_probation(left);
    let core = Arc::clone(core);
    tokio::spawn(async move {
        tokio::select! {
            () = mount.breaker_opens() => roll_back(&core, &mount, before).await,
            () = tokio::time::sleep(left) => pass_probation(&core, &mount).await,
            () = core.sealing.wait_for_seal() => {}
        }
    });
}

/// Stores that the version passed its probation, which lifts the limits of the probation.
async fn pass_probation(core: &Core, mount: &Mount) {
    let version = mount.record.version.clone();
    let passed = change_record(core, mount, |record| {
        if record.version == version {
            record.before_swap = None;
        }
    });
    if let Err(failure) = passed.await {
        let pairs = [("mount", mount.record.path.to_string()), cause(&failure)];
        core.log.line(LogLevel::Warn, "end-of-probation-not-stored", &pairs);
    }
}

/// Brings the version before back, unless the mount was swapped again since.
async fn roll_back(core: &Arc<Core>, mount: &Mount, before: VersionBefore) {
    let uuid = &mount.record.uuid;
    let failed = mount.record.version.clone();
    if core.mounts.by_uuid(uuid).is_none_or(|now| now.record.version != failed) {
        return;
    }
    let VersionBefore { version, selection, .. } = before;
    let mut rollback = RollbackRecord {
        from: failed,
        to: version.clone(),
        time: core.store.now(),
        is_done: true,
        reason: format!(
            "version {} crashed {} times in a row within the probation",
            mount.record.version,
            mount.crashes_in_a_row()
        ),
    };
    let pairs = |rollback: &RollbackRecord| {
        [
            ("mount", mount.record.path.to_string()),
            ("from", rollback.from.clone()),
            ("to", rollback.to.clone()),
            ("reason", rollback.reason.clone()),
        ]
    };
    let swap = VersionSwap { version, selection, rollback: Some(rollback.clone()) };
    let Err(failure) = exchange_version(core, uuid, &swap).await else {
        core.sandbox.swaps.note(PluginSwap::RolledBack);
        core.log.line(LogLevel::Error, "plugin-rolled-back", &pairs(&rollback));
        return;
    };
    rollback.is_done = false;
    rollback.reason =
        format!("{}; the version before cannot serve: {}", rollback.reason, failure.message);
    core.log.line(LogLevel::Error, "plugin-not-rolled-back", &pairs(&rollback));
    let failed = change_record(core, mount, |record| record.rollback = Some(rollback.clone()));
    if let Err(failure) = failed.await {
        let pairs = [("mount", mount.record.path.to_string()), cause(&failure)];
        core.log.line(LogLevel::Warn, "rollback-state-not-stored", &pairs);
    }
}

/// Stores a change of the record of a mount that serves. Does nothing if the mount was disabled or
/// moved.
async fn change_record(
    core: &Core,
    mount: &Mount,
    change: impl Fn(&mut MountRecord),
) -> Result<(), Failure> {
    let mut attempts = 1;
    loop {
        let mut unit = core.store.begin();
        let found = read_stored(&mut unit, &mount.record, is_serving).await?;
        let Some(mut record) = found else { return Ok(()) };
        change(&mut record);
        record.put(&mut unit)?;
        match unit.commit().await {
            Err(StoreFault::Conflict) if attempts < MAX_RECORD_TRIES => attempts += 1,
            committed => {
                committed?;
                return core.mounts.update(record, &core.catalog);
            }
        }
    }
}
