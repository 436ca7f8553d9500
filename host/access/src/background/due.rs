//! Due work: expiring leases and tokens, reservations to undo, due timers and guards, keys to
//! rotate.
//!
//! The worker finds rows through an index and loads nothing at start. It sleeps until the next row
//! is due, an earlier row is committed, or a blocking claim is released.
//!
//! This file prevents a hanging target from delaying other work. The worker searches lane by lane,
//! so rows that wait in a lane do not slow the others. A hanging target blocks only its own lane,
//! and a mount whose targets all hang uses only its share of the claims.

mod search;
#[cfg(test)]
mod tests;

use self::search::begin_what_is_due;
use super::backlog::DueBacklog;
use super::claims::{Claim, Claims};
use super::due_runs::{DueOutcome, DueRunCounts};
use super::lane_order::LaneOrder;
use super::storage_log;
use super::suspension::DueWorkGate;
use crate::costly_reading::CostlyReading;
use crate::log::{Log, cause, format_store_time};
use crate::sealing::{InFlight, SealSignal};
use bulkhead_store::{ClockBehind, ClockJump, Store, StoreFault, WriteCondition};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum sleep. Bounds the interval of clock checks and the delay after a missed wake-up.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Maximum age of the mark of store time in an idle store.
const MARKED_EVERY: Duration = Duration::from_secs(60);
/// Pause before the release of a claim if the outcome of the work could not be stored.
const UNSTORED_PAUSE: Duration = Duration::from_secs(1);
/// The same pause if only a repair can help: of the row, or of the disk under a store that no
/// longer writes.
const REPAIR_PAUSE: Duration = Duration::from_secs(60);

/// State shared by the background work of an open store.
pub struct BackgroundState {
    /// The open store.
    pub store: Arc<Store>,
    /// The claims of rows under way.
    pub claims: Arc<Claims>,
    /// The signal that ends background work.
    pub sealing: SealSignal,
    /// The log of the process.
    pub log: Arc<dyn Log>,
    /// The gate that due work waits for.
    pub gate: Arc<DueWorkGate>,
    /// Counts of runs.
    pub runs: DueRunCounts,
    /// The last count of the backlog.
    backlog: CostlyReading<DueBacklog>,
    stopped_writes_told: AtomicBool,
}

/// Processing of a due row. The implementer knows the rows of mounts, tokens and leases.
pub trait DueWork: Send + Sync + 'static {
    /// Processes the row at the claimed address.
    ///
    /// # Errors
    /// The outcome could not be stored; the row is still due.
    fn do_due_work(
        self: Arc<Self>,
        claim: Arc<Claim>,
    ) -> impl Future<Output = Result<DueOutcome, Failure>> + Send;
}

impl BackgroundState {
    /// Creates the state for a newly opened store. `is_suspended` is true if the configuration
    /// suspends due work.
    pub fn new(
        store: &Arc<Store>,
        sealing: SealSignal,
        log: &Arc<dyn Log>,
        is_suspended: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            claims: Claims::of(store, &sealing),
            sealing,
            log: Arc::clone(log),
            gate: DueWorkGate::new(store, is_suspended),
            runs: DueRunCounts::default(),
            backlog: CostlyReading::default(),
            stopped_writes_told: AtomicBool::new(false),
        })
    }

    /// Counts the backlog. A count that met a maximum is used again for twenty times as long as the
    /// count took.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn read_backlog(&self) -> Result<DueBacklog, StoreFault> {
        self.backlog.read(DueBacklog::read(&self.store), |backlog| backlog.is_capped).await
    }

    /// Logs that the system's clock is behind the time of the data, or was set. Due times do not
    /// move, but people and other servers read times. Writes the mark of store time if no commit
    /// wrote the mark for a while.
    async fn watch_time(&self) {
        self.log_clock_behind();
        self.log_clock_jump();
        // A full disk is known, logged and probed by the watch over the service's health.
        if self.store.write_condition() == WriteCondition::Works
            && let Err(fault) = self.store.mark_time(MARKED_EVERY).await
        {
            self.log.line(LogLevel::Warn, "store-time-not-stored", &[cause(&fault)]);
        }
    }

    fn log_clock_behind(&self) {
        let Some(ClockBehind { system, store }) = self.store.take_clock_behind() else { return };
        let pairs = [
            ("system", format_store_time(system)),
            ("data", format_store_time(store)),
            ("effect", "leases and tokens continue from the stored time".to_owned()),
            (
                "remedy",
                "set the machine's clock right, and see Time in docs/architecture.md".into(),
            ),
        ];
        self.log.line(LogLevel::Warn, "clock-behind", &pairs);
    }

    fn log_clock_jump(&self) {
        let Some(ClockJump { by, ahead }) = self.store.clock_jump() else { return };
        let pairs = [
            ("by", format!("{by}ms")),
            ("ahead", format!("{ahead}ms")),
            (
                "effect",
                "none on leases and tokens; displayed times follow the clock at the next start"
                    .into(),
            ),
        ];
        self.log.line(LogLevel::Warn, "clock-jumped", &pairs);
    }

    /// Logs a failure of due work, except during an outage of the database: the outage has its own
    /// lines, and due work tries again each second.
    fn log_failure(&self, event: &'static str, failure: &Failure) {
        if !self.is_outage(failure) {
            self.log.line(LogLevel::Error, event, &[cause(failure)]);
        }
    }

    /// Returns whether the failure is a part of an outage of the database, or of a full disk of a
    /// shared database. Both are in the log.
    pub(crate) fn is_outage(&self, failure: &Failure) -> bool {
        let refuses = match self.store.write_condition() {
            WriteCondition::Refused => true,
            // Each search for due work writes claims.
            WriteCondition::DiskFull => self.store.is_shared(),
            WriteCondition::Works | WriteCondition::Stopped => false,
        };
        failure.kind == FailureKind::Unavailable && (refuses || self.store.is_claim_in_doubt())
    }

    /// Logs, only once, that the store no longer writes.
    fn log_stopped_writes(&self, reason: &str) {
        if !self.stopped_writes_told.swap(true, Ordering::SeqCst) {
            self.log.line(
                LogLevel::Error,
                "writes-stopped",
                &[cause(&StoreFault::Unavailable(reason.to_owned()))],
            );
        }
    }
}

/// Runs due work, logs changes of the database and removes the claims of dead processes, until the
/// service is being sealed. Suspended due work waits for its release.
pub async fn run(background: Arc<BackgroundState>, work: Arc<impl DueWork>) {
    tokio::select! {
        () = run_due_work(&background, &work) => {}
        () = storage_log::report(&background.store, &*background.log) => {}
        () = background.claims.watch_epochs() => {}
    }
}

async fn run_due_work(background: &Arc<BackgroundState>, work: &Arc<impl DueWork>) {
    wait_while_suspended(background).await;
    let mut order = LaneOrder::default();
    while !background.sealing.has_begun() {
        background.watch_time().await;
        background.store.alarm().listen();
        let room_made = background.claims.room_notice();
        tokio::pin!(room_made);
        room_made.as_mut().enable();
        let sleep = match begin_what_is_due(background, work, &mut order).await {
            Ok(sleep) => sleep,
            Err(failure) => {
                background.log_failure("due-work-unreadable", &failure);
                UNSTORED_PAUSE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = background.store.alarm().wait_for_ring() => {}
            () = room_made => {}
            () = background.sealing.wait_for_seal() => {}
        }
    }
}

/// Watches the clock while due work is suspended, until the service is being sealed.
async fn wait_while_suspended(background: &BackgroundState) {
    while background.gate.suspension().is_some() && !background.sealing.has_begun() {
        background.watch_time().await;
        tokio::select! {
            () = tokio::time::sleep(LONGEST_SLEEP) => {}
            () = background.gate.wait_until_open() => {}
            () = background.sealing.wait_for_seal() => {}
        }
    }
}

/// Runs the work. If the outcome could not be stored, keeps the claim for a while.
async fn do_and_pause(
    background: Arc<BackgroundState>,
    work: Arc<impl DueWork>,
    claim: Claim,
    in_flight: InFlight,
) {
    let claim = Arc::new(claim);
    // A separate task turns a panic into a failure with the usual pause.
    let done = tokio::spawn(work.do_due_work(Arc::clone(&claim))).await;
    let done = done.unwrap_or_else(|_| Err(Failure::internal("the work ended early")));
    drop(in_flight);
    let outcome = *done.as_ref().unwrap_or(&DueOutcome::Failed);
    background.runs.note(claim.address().space, outcome);
    let Err(failure) = done else { return };
    let needs_repair =
        failure.kind == FailureKind::Internal || background.store.stopped().is_some();
    let pause = if needs_repair { REPAIR_PAUSE } else { UNSTORED_PAUSE };
    background.log_failure("due-work-not-stored", &failure);
    // The row is still due; without a pause the worker would take it again at once. Other rows may
    // use the lane meanwhile.
    let _resting = Arc::into_inner(claim).map(Claim::leave_lane);
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = background.sealing.wait_for_seal() => {}
    }
}
