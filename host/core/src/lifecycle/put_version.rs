//! Storing that a version of a plugin serves a mount, with the data that the version migrates.
//!
//! The steps of a migration are committed one after another, each with the cursor of the next step.
//! The last commit, often the only one, stores the new schema.
//!
//! This file prevents a step that runs twice or never: its writes and the cursor behind it are one
//! commit.

use super::attempts::CallAttempts;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::mounts::{
    Mount, MountPhase, MountRecord, UnfinishedMigration, VersionBefore, VersionSwap, api_version,
};
use crate::permit::Permit;
use bulkhead_access::background::Claim;
use bulkhead_sandbox::CallPriority;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Maximum number of steps of a migration.
const MOST_STEPS: u32 = 10_000;

/// The change of a mount's record that a swap stores.
pub(super) struct PutVersion<'a> {
    pub(super) swap: &'a VersionSwap,
    pub(super) way_back: Option<VersionBefore>,
    /// Returns true for the phases in which the mount may be.
    pub(super) may_be: fn(&MountPhase) -> bool,
    /// `true` if the component may commit in the middle of a step.
    pub(super) may_checkpoint: bool,
}

/// A migration that failed.
pub(super) struct FailedMigration {
    failure: Failure,
    /// The record after the last stored step; `None` if no step was stored.
    unfinished: Option<MountRecord>,
}

impl FailedMigration {
    /// Makes the mount unavailable if a step was stored. Returns the failure.
    pub(super) fn leave(self, core: &Core) -> Failure {
        if let Some(record) = self.unfinished {
            // Settings may have been tuned since.
            let now = core.mounts.record_of(&record.uuid);
            let record = now.filter(|now| now.revision > record.revision).unwrap_or(record);
            core.mounts.set_unavailable(record, self.failure.message.clone());
        }
        self.failure
    }
}

/// The end of a step: its unit of work, and the cursor of the next step.
struct CompletedStep {
    unit: Unit,
    next: Option<String>,
}

/// Stores that the version of `after` serves the mount, with the migrated data. Returns the record
/// as it is stored.
///
/// # Errors
/// The failure of the migration; 400 if the mount was disabled or moved.
pub(super) async fn store_version(
    core: &Arc<Core>,
    claim: &Claim,
    after: &Arc<Mount>,
    put: &PutVersion<'_>,
) -> Result<MountRecord, FailedMigration> {
    let (mut migration, mut unfinished) = (after.record.migration.clone(), None);
    loop {
        match store_step(core, claim, after, (put, migration.as_ref())).await {
            Ok(record) if record.migration.is_none() => return Ok(record),
            Ok(record) => {
                if unfinished.is_none() {
                    log_steps(core, &record, put.swap);
                }
                migration.clone_from(&record.migration);
                unfinished = Some(record);
            }
            Err(failure) => return Err(FailedMigration { failure, unfinished }),
        }
    }
}

/// Says once that requests may wait for longer than usual.
fn log_steps(core: &Core, record: &MountRecord, swap: &VersionSwap) {
    let to = record.migration.as_ref().map_or(record.schema, |migration| migration.to);
    let pairs = [
        ("mount", record.path.to_string()),
        ("version", swap.version.clone()),
        ("from_schema", record.schema.to_string()),
        ("to_schema", to.to_string()),
    ];
    core.log.line(LogLevel::Info, "migration-in-steps", &pairs);
}

/// Carries out and commits one step of the migration, or stores only the version if there is
/// nothing to migrate.
async fn store_step(
    core: &Arc<Core>,
    claim: &Claim,
    after: &Arc<Mount>,
    (put, migration): (&PutVersion<'_>, Option<&UnfinishedMigration>),
) -> Result<MountRecord, Failure> {
    check_steps(migration, after)?;
    let permit = Permit::for_due_work(claim);
    let cursor = migration.and_then(UnfinishedMigration::cursor);
    let work = BackgroundServices::for_migration(core, after, cursor);
    let mut attempts = CallAttempts::for_caller(core, work.deadline());
    let stored = loop {
        let unit = attempts.begin(after.begin(&core.store));
        let unit = if put.may_checkpoint { unit } else { unit.whole() };
        let stepped = match needs_migration(after) {
            true => call(core, &work, &permit, (after, unit)).await,
            false => Ok(CompletedStep { unit, next: None }),
        };
        let stored = match stepped {
            Ok(step) => put.commit(step, after, migration).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&stored).await {
            break stored;
        }
    };
    work.release_guards().await;
    stored
}

/// Refuses a step beyond the maximum: the component does not come to an end.
fn check_steps(migration: Option<&UnfinishedMigration>, mount: &Mount) -> Result<(), Failure> {
    match migration {
        Some(migration) if migration.steps >= MOST_STEPS => Err(Failure::internal(format!(
            "{} has migrated {} in {} steps and did not finish; repair the component: the cursor \
             has to come to an end",
            mount.plugin.identity().title(),
            mount.record.path,
            migration.steps
        ))
        .recordable()),
        _ => Ok(()),
    }
}

/// Calls the component's `migrate` for one step.
///
/// # Errors
/// The component's failure.
async fn call(
    core: &Core,
    work: &BackgroundServices,
    permit: &Permit,
    (mount, unit): (&Mount, Unit),
) -> Result<CompletedStep, Failure> {
    // Drops the cursor of an earlier attempt.
    drop(work.take_next_cursor());
    // Also ends the migration between two steps.
    let admitted = unless_stopped(core, mount, work.enter(CallPriority::Background)).await?;
    let opened = core.mounts.open(mount, permit);
    let (scope, context) = (work.scope(&opened), work.context(None));
    let done = opened.engine.migrate(scope, unit, &context, mount.record.schema).await;
    work.note_end(admitted, done.ended);
    done.result?;
    Ok(CompletedStep { unit: done.unit, next: work.take_next_cursor() })
}

/// Waits for `work`, until the migration of the mount must end: the mount is being disabled or
/// moved, or the server is sealed or stops.
///
/// # Errors
/// 503 if the migration must end; the failure of the work.
pub(super) async fn unless_stopped<T>(
    core: &Core,
    mount: &Mount,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = core.sandbox.wait_for_migration_stop(&mount.record.uuid) => {
            let message = format!(
                "the change of the plugin's version of {} was stopped: the mount is being disabled \
                 or moved, or the server is sealed or stops; choose the version again if the \
                 mount stays",
                mount.record.path
            );
            Err(Failure::new(FailureKind::Unavailable, message))
        }
        done = work => done,
    }
}

impl PutVersion<'_> {
    /// Commits the step with the record of the mount, as other requests have changed it by now.
    async fn commit(
        &self,
        CompletedStep { mut unit, next }: CompletedStep,
        after: &Mount,
        migration: Option<&UnfinishedMigration>,
    ) -> Result<MountRecord, Failure> {
        let path = &after.record.path;
        let found = read_stored(&mut unit, &after.record, self.may_be).await?;
        let mut record = found.ok_or_else(|| {
            Failure::invalid(format!("the mount at {path} was disabled or moved meanwhile"))
        })?;
        let is_new = record.version != self.swap.version || migration.is_some();
        let schema = record.schema.max(after.plugin.description().schema);
        record.version.clone_from(&self.swap.version);
        record.settings.selection.clone_from(&self.swap.selection);
        if let Some(version) = migration.and_then(|migration| migration.api_version) {
            api_version::choose(&mut record.settings.options, version);
        }
        record.migration = UnfinishedMigration::after_step(migration, schema, next);
        if record.migration.is_some() {
            // No version before could serve these data.
            record.before_swap = None;
        } else {
            record.schema = schema;
            if is_new {
                record.before_swap.clone_from(&self.way_back);
                record.rollback.clone_from(&self.swap.rollback);
            }
        }
        record.put(&mut unit)?;
        unit.commit().await?;
        Ok(record)
    }
}

/// Reports whether the data of the mount have an older schema than its plugin writes, or are
/// between two schemas.
pub(super) fn needs_migration(mount: &Mount) -> bool {
    let MountRecord { migration, schema, .. } = &mount.record;
    migration.is_some() || *schema < mount.plugin.description().schema
}

/// Returns the stored record of a mount; `None` if the mount was moved, or is in a phase in which
/// the mount may not be.
pub(super) async fn read_stored(
    unit: &mut Unit,
    mount: &MountRecord,
    may_be: fn(&MountPhase) -> bool,
) -> Result<Option<MountRecord>, Failure> {
    let found = MountRecord::read(unit, &mount.path).await?;
    Ok(found.filter(|record| record.uuid == mount.uuid && may_be(&record.phase)))
}
