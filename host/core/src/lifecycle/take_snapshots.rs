//! The tasks that take scheduled snapshots while the service is open.
//!
//! This file prevents a server that seals or stops while a half-written snapshot stays on the disk:
//! an attempt ends between two steps as soon as the service is being sealed, and its file is
//! deleted before the seal goes on.

use super::ending::in_background;
use crate::core::Core;
use crate::snapshots::{ScheduledSnapshot, UnfinishedSnapshot};
use bulkhead_access::background::backoff::backoff_pause;
use bulkhead_access::log::cause;
use bulkhead_store::SnapshotStream;
use bulkhead_wire::byte_stream::ByteSource;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two looks at store time. A sleep does not count the time while the machine sleeps;
/// store time does.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

/// Starts a task for each scheduled snapshot.
pub(super) fn begin(core: &Arc<Core>) {
    for plan in &core.process.settings.snapshots {
        let (owner, plan) = (Arc::clone(core), plan.clone());
        let work = async move { follow_schedule(&owner, &plan).await };
        // The service is being sealed already if this fails.
        drop(in_background(core, work));
    }
}

/// A saved snapshot, for the log.
struct SavedSnapshot {
    /// Store time of the snapshot, in milliseconds since 1970.
    time: u64,
    bytes: u64,
    records: u64,
    /// Number of older files that were deleted.
    deleted: usize,
    took: Duration,
}

/// Takes the snapshots of `plan` until the service is being sealed. A due time that passed before
/// the first look is due at once. A failed attempt is repeated after a pause.
async fn follow_schedule(core: &Core, plan: &ScheduledSnapshot) {
    // The last snapshot counts even if another program has moved its file.
    let (mut last, mut failures, mut pause_end) = (None, 0_u32, 0_u64);
    loop {
        let now = core.store.now();
        let newest = on_other_thread(plan, move |plan| plan.newest_until(now)).await;
        let saved = match newest {
            Ok(newest) => {
                let due = plan.schedule.due_after(last.max(newest)).max(pause_end);
                if !wait_until(core, due).await {
                    return;
                }
                take_in_turn(core, plan).await
            }
            Err(failure) => Err(failure),
        };
        if core.sealing.has_begun() {
            return;
        }
        core.snapshots.note(&plan.name, saved.is_ok());
        match saved {
            Ok(saved) => {
                (last, failures, pause_end) = (Some(saved.time), 0, 0);
                report_success(core, plan, &saved);
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                let pause = backoff_pause(&failure, failures);
                pause_end = core.store.now().saturating_add(pause);
                report_failure(core, plan, &failure, pause);
                if !wait_until(core, pause_end).await {
                    return;
                }
            }
        }
    }
}

/// Waits until this store time. Returns `false` if the service is being sealed.
async fn wait_until(core: &Core, time: u64) -> bool {
    loop {
        if core.sealing.has_begun() {
            return false;
        }
        let left = Duration::from_millis(time.saturating_sub(core.store.now()));
        if left.is_zero() {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep(left.min(CLOCK_INTERVAL)) => {}
            () = core.sealing.wait_for_seal() => {}
        }
    }
}

/// Takes a snapshot when no other scheduled snapshot is being taken.
///
/// # Errors
/// The directory cannot be used or written, the store cannot be read, or the service is being
/// sealed. No file remains.
async fn take_in_turn(core: &Core, plan: &ScheduledSnapshot) -> Result<SavedSnapshot, Failure> {
    let _turn = tokio::select! {
        turn = core.snapshots.turn.lock() => turn,
        () = core.sealing.wait_for_seal() => return Err(interrupted()),
    };
    let began = Instant::now();
    let time = core.store.now();
    let data = core.process.settings.directory.clone();
    let file = on_other_thread(plan, move |plan| {
        plan.check_directory(&data)?;
        plan.delete_unfinished()?;
        UnfinishedSnapshot::create(plan, time)
    })
    .await?;
    let file = write_pieces(core, plan, file, core.take_snapshot(time).await?).await?;
    let sealing = core.sealing.clone();
    let (bytes, records) =
        on_other_thread(plan, move |_| file.complete(|| !sealing.has_begun())).await?;
    let deleted = on_other_thread(plan, move |plan| plan.delete_oldest(time)).await?;
    Ok(SavedSnapshot { time, bytes, records, deleted, took: began.elapsed() })
}

/// Writes the pieces of a snapshot to the file, and returns the file.
///
/// # Errors
/// The snapshot cannot be completed, the file cannot be written, or the service is being sealed.
async fn write_pieces(
    core: &Core,
    plan: &ScheduledSnapshot,
    mut file: UnfinishedSnapshot,
    mut stream: SnapshotStream,
) -> Result<UnfinishedSnapshot, Failure> {
    loop {
        let piece = tokio::select! {
            biased;
            () = core.sealing.wait_for_seal() => return Err(interrupted()),
            piece = poll_fn(|context| stream.poll_chunk(context)) => piece,
        };
        let Some(piece) = piece else { return Ok(file) };
        let piece = piece?;
        file = on_other_thread(plan, move |_| file.append(&piece).map(|()| file)).await?;
    }
}

/// Does an act on files outside of the threads that serve requests.
async fn on_other_thread<T: Send + 'static>(
    plan: &ScheduledSnapshot,
    act: impl FnOnce(&ScheduledSnapshot) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let plan = plan.clone();
    let done = tokio::task::spawn_blocking(move || act(&plan)).await;
    done.unwrap_or_else(|_| Err(Failure::internal("an act on the snapshot's files ended early")))
}

fn interrupted() -> Failure {
    Failure::new(FailureKind::Unavailable, "the service is being sealed").recordable()
}

fn report_success(core: &Core, plan: &ScheduledSnapshot, saved: &SavedSnapshot) {
    let file = plan.name.file_of(saved.time).unwrap_or_default();
    let pairs = [
        ("snapshot", plan.name.to_string()),
        ("file", plan.directory.join(file).display().to_string()),
        ("bytes", saved.bytes.to_string()),
        ("records", saved.records.to_string()),
        ("deleted", saved.deleted.to_string()),
        ("took", format!("{:.3}s", saved.took.as_secs_f64())),
    ];
    core.log.line(LogLevel::Info, "snapshot-saved", &pairs);
    core.review_health();
}

fn report_failure(core: &Core, plan: &ScheduledSnapshot, failure: &Failure, pause: u64) {
    let remedy = "check that the directory exists, is closed to others and has free space";
    let pairs = [
        ("snapshot", plan.name.to_string()),
        ("directory", plan.directory.display().to_string()),
        cause(failure),
        ("remedy", remedy.to_owned()),
        ("next", format!("{:.1}s", Duration::from_millis(pause).as_secs_f64())),
    ];
    core.log.line(LogLevel::Error, "snapshot-failed", &pairs);
    core.review_health();
}
