//! Due work: expiring leases and tokens, reservations to undo, due timers and guards, keys to
//! rotate.
//!
//! The worker finds rows through an index and loads nothing at start. It sleeps until the next row
//! is due, an earlier row is committed, or a blocking claim is released.
//!
//! This file prevents a hanging target from delaying other work. The worker searches lane by lane,
//! so rows that wait in a lane do not slow the others. A hanging target blocks only its own lane,
//! and a mount whose targets all hang uses only its share of the claims.

#[cfg(test)]
mod tests;

use super::backlog::DueBacklog;
use super::claims::{Claim, Claims};
use super::due_runs::{DueOutcome, DueRunCounts};
use super::lane_order::{IN_LANES, LaneOrder, RingRange, end_of_mount, mount_of};
use super::storage_log;
use super::suspension::DueWorkGate;
use crate::costly_reading::CostlyReading;
use crate::log::{Log, cause, format_store_time};
use crate::sealing::{InFlight, SealSignal};
use bulkhead_store::{Address, ClockBehind, ClockJump, Space, Store, StoreFault, WriteCondition};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
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

/// Pause until the next search after due work of another node was passed over.
const NODE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of rows of a lane that a search passes over because other nodes work on the rows.
const MOST_PASSED_OVER: usize = 1_000;

/// Kinds of work without lanes.
const WITHOUT_LANE: [Space; 2] = [Space::Token, Space::Core];

/// Kinds of work that continue although nothing can be stored. Ending a credential twice is
/// harmless; leaving the credential active until the restart is not.
const WITHOUT_STORE: [Space; 2] = [Space::Lease, Space::Reservation];

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

/// A single search for due work.
struct DueSearch<'a, Work> {
    background: &'a Arc<BackgroundState>,
    work: &'a Arc<Work>,
    /// Store time in milliseconds; rows due by then are processed.
    now: u64,
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

/// Runs due work, and logs changes of the database, until the service is being sealed. Suspended
/// due work waits for its release.
pub async fn run(background: Arc<BackgroundState>, work: Arc<impl DueWork>) {
    tokio::select! {
        () = run_due_work(&background, &work) => {}
        () = storage_log::report(&background.store, &*background.log) => {}
    }
}

async fn run_due_work(background: &Arc<BackgroundState>, work: &Arc<impl DueWork>) {
    wait_while_suspended(background).await;
    // Harmless if left: a claim of the address takes the record over.
    drop(background.claims.remove_dead().await);
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

/// Claims and starts due work. Returns the time until more work may be due.
async fn begin_what_is_due(
    background: &Arc<BackgroundState>,
    work: &Arc<impl DueWork>,
    order: &mut LaneOrder,
) -> Result<Duration, Failure> {
    let now = background.store.now();
    let look = DueSearch { background, work, now };
    let in_lanes = match background.store.stopped() {
        None => {
            for space in WITHOUT_LANE {
                begin_in_lane(&look, (space, "")).await?;
            }
            &IN_LANES[..]
        }
        Some(reason) => {
            background.log_stopped_writes(reason);
            &WITHOUT_STORE[..]
        }
    };
    let mut served = None;
    for space in order.kinds(in_lanes) {
        if begin_kind(&look, order, space).await? {
            served = served.or(Some(space));
        }
    }
    if let Some(first) = served {
        order.kind_began(first);
    }
    let next = background.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    background.store.alarm().ring_before(next);
    let sleep = Duration::from_millis(next.saturating_sub(now));
    let of_nodes = background.claims.take_passed_over_node().then_some(NODE_PAUSE);
    let sooner = background.claims.next_end_of_rest().into_iter().chain(of_nodes);
    Ok(sooner.fold(sleep, Duration::min))
}

/// Starts due work in the lanes of `space`, as far as claims are free. Returns `true` if any
/// started.
async fn begin_kind(
    look: &DueSearch<'_, impl DueWork>,
    order: &mut LaneOrder,
    space: Space,
) -> Result<bool, Failure> {
    let (store, claims) = (&look.background.store, &look.background.claims);
    let mut began = false;
    for part in order.of_kind(space) {
        let mut left = Some(part.clone());
        while let Some(RingRange { first, end }) = left
            && claims.has_room_in_lanes()
        {
            let found = store.due_lanes(space, (&first, &end), look.now).await?;
            let mut mounts: Vec<&str> = found.lanes.iter().map(|lane| mount_of(lane)).collect();
            mounts.dedup();
            for mount in &mounts {
                began |= begin_of_mount(look, order, (space, mount)).await?;
            }
            let done = mounts.last().map(|mount| end_of_mount(mount));
            left = found
                .next
                .and_then(|next| part.rest_from(done.map_or(next.clone(), |d| d.max(next))));
        }
    }
    Ok(began)
}

/// Starts due work in the lanes of a mount, as far as its share allows. Returns `true` if any
/// started.
async fn begin_of_mount(
    look: &DueSearch<'_, impl DueWork>,
    order: &mut LaneOrder,
    (space, mount): (Space, &str),
) -> Result<bool, Failure> {
    let mut began = false;
    for part in order.of_mount(space, mount) {
        let mut left = Some(part.clone());
        while let Some(RingRange { first, end }) = left
            && look.background.claims.has_share(mount)
        {
            let found = look.background.store.due_lanes(space, (&first, &end), look.now).await?;
            for lane in &found.lanes {
                if begin_in_lane(look, (space, lane)).await? {
                    began = true;
                    order.lane_began(space, lane);
                }
            }
            left = found.next.and_then(|next| part.rest_from(next));
        }
    }
    Ok(began)
}

/// Starts the oldest due work of a lane, as far as the lane has room. Returns `true` if any
/// started.
async fn begin_in_lane(
    look: &DueSearch<'_, impl DueWork>,
    lane: (Space, &str),
) -> Result<bool, Failure> {
    let &DueSearch { background, work, now } = look;
    let claims = &background.claims;
    let (mut began, mut elsewhere) = (false, BTreeSet::<Address>::new());
    loop {
        let room = claims.room(lane.0, lane.1);
        if room == 0 || background.sealing.has_begun() || elsewhere.len() > MOST_PASSED_OVER {
            return Ok(began);
        }
        // As many of the first rows may already be claimed.
        let claimed = claims.count_claimed(lane.0, lane.1).saturating_add(elsewhere.len());
        let limit = u32::try_from(room.saturating_add(claimed)).unwrap_or(u32::MAX);
        let found = background.store.due_in_lane(lane, now, limit).await?;
        let is_last = u32::try_from(found.len()).is_ok_and(|found| found < limit);
        let addresses = found.into_iter().map(|due| due.address);
        let new: Vec<_> = addresses.filter(|address| !elsewhere.contains(address)).collect();
        let due = claims.claim_due(lane, &new).await?;
        for claim in due.taken {
            // Fails if the service is being sealed.
            let Ok(in_flight) = background.sealing.enter() else { return Ok(began) };
            began = true;
            tokio::spawn(do_and_pause(Arc::clone(background), Arc::clone(work), claim, in_flight));
        }
        if is_last || due.elsewhere.is_empty() {
            return Ok(began);
        }
        elsewhere.extend(due.elsewhere);
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
