//! Opening and stopping the unsealed service.

use super::compile_missing;
use super::follow_nodes;
use super::migrate::migrate_all;
use super::resume::{end_work_of_dead_epochs, resume};
use super::revive::resume_migrations;
use super::take_snapshots;
use super::{watch_health, watch_seal};
use crate::catalog::{Catalog, PluginLoader};
use crate::core::{Core, CoreParts};
use crate::followed_tables::FollowedTables;
use crate::mounts::{MountSources, Mounts};
use crate::process::ProcessState;
use bulkhead_access::background::{self, BackgroundState};
use bulkhead_access::log::cause;
use bulkhead_access::sealing::{SealSignal, sealed_failure};
use bulkhead_access::version_history::VersionHistory;
use bulkhead_audit::Audit;
use bulkhead_sandbox::Sandbox;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time that sealing waits for requests in flight.
pub(crate) const SEAL_PATIENCE: Duration = Duration::from_secs(5);

/// Pause between two looks for a release of the data by another node.
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// Loads the catalog and the mount table from the open store, and makes due the unfinished work of
/// dead processes. Reads neither leases nor roles.
///
/// # Errors
/// The reason that keeps the service from starting, in words for the operator.
pub(crate) async fn open(
    store: Arc<Store>,
    process: Arc<ProcessState>,
) -> Result<Arc<Core>, Failure> {
    let (settings, log) = (&process.settings, &process.settings.log);
    let sandbox = Sandbox::new(
        Arc::clone(&process.runtime),
        Arc::clone(&store),
        &settings.own_addresses,
        &settings.ambient,
        &settings.outbound,
    );
    let loader = PluginLoader {
        store: &store,
        sandbox: &sandbox,
        compiler: &process.compiler,
        signatures: &settings.plugin_signatures,
        log,
    };
    VersionHistory::note(&store).await?;
    // Before the tables are read: a change by another node meanwhile is read again.
    let followed = FollowedTables::begin(&store);
    let catalog = Catalog::load(loader, &settings.officials).await?;
    let sources = MountSources { store: &store, catalog: &catalog, log };
    let mounts = Mounts::load(sources).await?;
    let audit = Audit::open(&store, &settings.audit, log).await?;
    let sealing = SealSignal::new(&process.in_flight);
    let background = BackgroundState::new(&store, sealing, log, settings.suspend_due_work);
    let core = Core::assemble(CoreParts {
        process,
        sandbox,
        catalog,
        mounts,
        audit,
        background,
        followed,
    });
    core.quotas.load(&core.store).await?;
    core.activity.begin(&core.store).await;
    end_work_of_dead_epochs(&core).await?;
    tokio::select! {
        migrated = migrate_all(&core) => migrated?,
        never = end_migrations_with_process(&core) => match never {},
    }
    Ok(core)
}

/// Ends the migrations of the start when the process ends: no other part of the process reaches
/// them before the service is open.
async fn end_migrations_with_process(core: &Core) -> Infallible {
    core.process.ending.wait().await;
    core.sandbox.end_migrations();
    std::future::pending().await
}

/// Starts the compilation of missing code, the watches over the service's health and over an
/// external seal, and due work, and resumes migrations and the removal and the moves of mounts.
/// Suspended due work, removals, moves and scheduled snapshots wait for their release: a copy of
/// the data would delete the snapshots of its original.
pub(crate) fn begin_due_work(core: &Arc<Core>) {
    compile_missing::begin(core);
    follow_nodes::begin(core);
    watch_health::begin(core);
    watch_seal::begin(core);
    resume_migrations(core);
    let work = background::run(Arc::clone(&core.background), Arc::clone(core));
    core.due_work.set(tokio::spawn(work));
    let Some(suspension) = core.due_work_suspension() else { return resume_once(core) };
    let pairs = [
        ("reason", suspension.reason().to_owned()),
        ("effect", "no lease is ended and nothing is rotated by itself".to_owned()),
        ("remedy", suspension.remedy().to_owned()),
    ];
    core.log.line(LogLevel::Warn, "due-work-suspended", &pairs);
    resume_after_foreign_release(core);
}

/// Resumes unfinished work once another node has released the data.
fn resume_after_foreign_release(core: &Arc<Core>) {
    if !core.store.is_shared() {
        return;
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        while !core.sealing.has_begun() {
            if core.due_work_suspension().is_none() {
                return resume_once(&core);
            }
            tokio::select! {
                () = tokio::time::sleep(RELEASE_PAUSE) => {}
                () = core.sealing.wait_for_seal() => {}
            }
        }
    });
}

/// Resumes the unfinished work of an earlier process, and begins scheduled snapshots, at the start
/// or at the release of the data, whichever is first.
pub(super) fn resume_once(core: &Arc<Core>) {
    if core.due_work.begin_resuming() {
        resume(core);
        take_snapshots::begin(core);
    }
}

/// Stops due work and migrations, waits up to `patience` for work in flight, and closes
/// outbound sessions and the store. Unfinished work can then no longer commit; the next unsealing
/// waits for the end of the work and undoes the reservations.
pub(crate) async fn stop(core: &Core, patience: Duration) {
    core.sealing.begin();
    core.sandbox.end_migrations();
    core.parking.close(&sealed_failure());
    if let Some(worker) = core.due_work.take()
        && worker.await.is_err()
    {
        core.log.line(LogLevel::Error, "due-work-ended-early", &[]);
    }
    if !core.sealing.wait_for_work(patience).await {
        core.log.line(LogLevel::Warn, "sealed-during-requests", &[]);
    }
    core.sandbox.close().await;
    if let Err(fault) = core.store.mark_time(Duration::ZERO).await {
        core.log.line(LogLevel::Warn, "store-time-not-stored", &[cause(&fault)]);
    }
    core.store.close().await;
}
