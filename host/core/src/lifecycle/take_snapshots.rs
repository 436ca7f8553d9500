//! The tasks that take scheduled snapshots while the service is open.
//!
//! This file prevents a server that seals or stops while a half-written snapshot stays on the disk:
//! an attempt ends between two steps as soon as the service is being sealed, and its file is
//! deleted before the seal goes on, unless the file system hangs.

use super::ending::outside_of_request;
use crate::core::Core;
use crate::snapshots::{
    CompleteSnapshot, Retention, ScheduledSnapshot, SnapshotSteps, StepState, UnfinishedSnapshot,
    interrupted,
};
use bulkhead_access::background::backoff::backoff_pause;
use bulkhead_access::log::cause;
use bulkhead_store::SnapshotStream;
use bulkhead_wire::byte_stream::ByteSource;
use bulkhead_wire::failure::Failure;
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
        drop(outside_of_request(core, work));
    }
}

/// A saved snapshot, for the log.
struct SavedSnapshot {
    /// Store time of the snapshot, in milliseconds since 1970.
    time: u64,
    bytes: u64,
    records: u64,
    retention: Retention,
    took: Duration,
}

/// Takes the snapshots of `plan` until the service is being sealed. A due time that passed before
/// the first look is due at once. A failed attempt is repeated after a pause.
async fn follow_schedule(core: &Core, plan: &ScheduledSnapshot) {
    // The last snapshot counts even if another program has moved its file.
    let (mut last, mut failures, mut pause_end) = (None, 0_u32, 0_u64);
    let steps = SnapshotSteps::new(plan, &core.sealing);
    loop {
        let now = core.store.now();
        let newest = steps.run(move |plan, _| plan.newest_until(now)).await;
        let saved = match newest {
            Ok(newest) => {
                core.snapshots.outcomes.note_earlier(plan.name.as_str(), newest);
                let due = plan.schedule.due_after(last.max(newest)).max(pause_end);
                if !wait_until(core, due).await {
                    return;
                }
                take_in_turn(core, &steps).await
            }
            Err(failure) => Err(failure),
        };
        if core.sealing.has_begun() {
            return;
        }
        let time = saved.as_ref().ok().map(|saved| saved.time);
        core.snapshots.outcomes.note(plan.name.as_str(), time);
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
/// sealed. No file remains, unless only the flush of the directory or the deletion of older files
/// failed.
async fn take_in_turn(core: &Core, steps: &SnapshotSteps<'_>) -> Result<SavedSnapshot, Failure> {
    let _turn = tokio::select! {
        turn = core.snapshots.turn.lock() => turn,
        () = core.sealing.wait_for_seal() => return Err(interrupted()),
    };
    let began = Instant::now();
    let time = core.store.now();
    let data = core.process.settings.store.directory.clone();
    let create = steps.run(move |plan, _| {
        plan.check_directory(&data)?;
        plan.delete_unfinished()?;
        UnfinishedSnapshot::create(plan, time)
    });
    let mut file = create.await?;
    let mut stream = None;
    loop {
        match next_piece(core, time, &mut stream).await {
            Ok(Some(piece)) => {
                file = steps.run(move |_, _| file.append(&piece).map(|()| file)).await?;
            }
            Ok(None) => break,
            Err(failure) => {
                // The deletion of the file may wait for the disk as well.
                let discard = move |_: &ScheduledSnapshot, _: &StepState| {
                    drop(file);
                    Ok(())
                };
                drop(steps.run(discard).await);
                return Err(failure);
            }
        }
    }
    let complete = steps.run(move |_, state| file.complete(|| state.may_continue())).await?;
    let CompleteSnapshot { bytes, records, flushed } = complete;
    let retention = steps.run(move |plan, _| plan.delete_oldest(time)).await?;
    flushed?;
    Ok(SavedSnapshot { time, bytes, records, retention, took: began.elapsed() })
}

/// Returns the next piece of the snapshot of `time`, which begins with the first piece. `None`: the
/// snapshot is complete.
///
/// # Errors
/// The snapshot cannot be begun or completed, or the service is being sealed.
async fn next_piece(
    core: &Core,
    time: u64,
    stream: &mut Option<SnapshotStream>,
) -> Result<Option<Vec<u8>>, Failure> {
    let stream = match stream {
        Some(stream) => stream,
        None => stream.insert(core.take_snapshot(time).await?),
    };
    tokio::select! {
        biased;
        () = core.sealing.wait_for_seal() => Err(interrupted()),
        piece = poll_fn(|context| stream.poll_chunk(context)) => piece.transpose(),
    }
}

fn report_success(core: &Core, plan: &ScheduledSnapshot, saved: &SavedSnapshot) {
    let file = plan.name.file_of(saved.time).unwrap_or_default();
    let pairs = [
        ("snapshot", plan.name.to_string()),
        ("file", plan.directory.join(file).display().to_string()),
        ("bytes", saved.bytes.to_string()),
        ("records", saved.records.to_string()),
        ("deleted", saved.retention.deleted.to_string()),
        ("later", saved.retention.later.to_string()),
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
