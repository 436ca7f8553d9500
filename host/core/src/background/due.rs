//! Due work: leases and tokens that end, reservations to undo, timers and guards to wake, keys to
//! rotate.
//!
//! Found by an index, never loaded at start. The worker sleeps until the next row is due, something
//! earlier is committed, or a claim is given back. It looks lane by lane, so that what waits in one
//! lane costs the others nothing; a hanging target holds its own lane and no other, and a mount all
//! of whose targets hang holds its share of the places and no more.

use super::claims::{Claim, Claims};
use crate::log::Log;
use crate::sealing::{InFlight, Sealing};
use bulkhead_store::{ClockJump, Space, Store};
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest sleep: the system's clock is looked at, and a condition that is looked at again cannot
/// be missed for ever.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// After work whose outcome could not be stored, its claim is kept so long.
const UNSTORED_PAUSE: Duration = Duration::from_secs(1);
/// The same, where nothing but a repair will help: of the row, or of the disk under a store that
/// writes no more.
const REPAIR_PAUSE: Duration = Duration::from_secs(60);

/// What has no lane.
const WITHOUT_LANE: [Space; 2] = [Space::Token, Space::Core];
/// What waits in lanes.
const IN_LANES: [Space; 3] = [Space::Lease, Space::Reservation, Space::Timer];

/// What is worked on although nothing can be stored any more: to end a credential twice does no
/// harm, and to leave it until the restart would.
const WITHOUT_STORE: [Space; 2] = [Space::Lease, Space::Reservation];

/// What background work of an open store shares.
pub(crate) struct Background {
    pub(crate) store: Arc<Store>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) sealing: Sealing,
    pub(crate) log: Arc<dyn Log>,
    stopped_writes_told: AtomicBool,
}

/// What is done with a row that is due: the rows of the mounts, tokens and leases know it.
pub(crate) trait DueWork: Send + Sync + 'static {
    /// Does what is due at the claimed address.
    ///
    /// # Errors
    /// When the outcome could not be stored: the row is still due.
    fn do_due_work(
        self: Arc<Self>,
        claim: Arc<Claim>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl Background {
    pub(crate) fn new(store: &Arc<Store>, sealing: Sealing, log: &Arc<dyn Log>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            claims: Arc::default(),
            sealing,
            log: Arc::clone(log),
            stopped_writes_told: AtomicBool::new(false),
        })
    }

    /// Says when the system's clock was set: what is due is not, but people read times.
    fn tell_of_the_clock(&self) {
        let Some(ClockJump { by, ahead }) = self.store.clock_jump() else { return };
        let pairs = [
            ("by", format!("{by}ms")),
            ("ahead", format!("{ahead}ms")),
            ("effect", "none on leases and tokens; times shown follow it at the next start".into()),
        ];
        self.log.line("warn", "clock-jumped", &pairs);
    }

    /// Says once that nothing is written any more.
    fn tell_of_stopped_writes(&self, reason: &str) {
        if !self.stopped_writes_told.swap(true, Ordering::SeqCst) {
            self.log.line("error", "writes-stopped", &[("cause", reason.to_owned())]);
        }
    }
}

/// Runs until the service is being sealed.
pub(crate) async fn run(background: Arc<Background>, work: Arc<impl DueWork>) {
    let mut turns = Turns::default();
    while !background.sealing.has_begun() {
        background.tell_of_the_clock();
        background.store.alarm().listen();
        let freed = background.claims.freed();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let sleep = match begin_what_is_due(&background, &work, &mut turns).await {
            Ok(sleep) => sleep,
            Err(failure) => {
                background.log.line("error", "due-work-unreadable", &[("cause", failure.message)]);
                UNSTORED_PAUSE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = background.store.alarm().rung() => {}
            () = freed => {}
            () = background.sealing.begun() => {}
        }
    }
}

/// Claims and starts what is due; returns how long nothing more will be.
async fn begin_what_is_due(
    background: &Arc<Background>,
    work: &Arc<impl DueWork>,
    turns: &mut Turns,
) -> Result<Duration, Failure> {
    let now = background.store.now();
    let in_lanes = match background.store.stopped() {
        None => {
            for space in WITHOUT_LANE {
                begin_in_lane(background, work, now, (space, "")).await?;
            }
            &IN_LANES[..]
        }
        Some(reason) => {
            background.tell_of_stopped_writes(reason);
            &WITHOUT_STORE[..]
        }
    };
    for space in in_lanes {
        turns.begin(background, work, now, *space).await?;
    }
    let next = background.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    background.store.alarm().set(next);
    Ok(Duration::from_millis(next.saturating_sub(now)))
}

/// Which lane comes next, of each kind: lanes take turns, or those whose names come first would be
/// served until nothing is left in them.
#[derive(Default)]
struct Turns(BTreeMap<Space, String>);

impl Turns {
    /// Starts what is due in the lanes of `space`, as far as there are places: from the lane whose
    /// turn it is to the last, and then from the first.
    async fn begin(
        &mut self,
        background: &Arc<Background>,
        work: &Arc<impl DueWork>,
        now: u64,
        space: Space,
    ) -> Result<(), Failure> {
        let start = self.0.get(&space).cloned().unwrap_or_default();
        for (first, end) in [(start.clone(), None), (String::new(), Some(start))] {
            let is_before_end = |lane: &String| end.as_ref().is_none_or(|end| lane < end);
            let mut first = Some(first);
            while let Some(from) = first
                && is_before_end(&from)
                && background.claims.has_room_in_lanes()
            {
                let found = background.store.due_lanes(space, &from, now).await?;
                for lane in found.lanes.iter().filter(|lane| is_before_end(lane)) {
                    if begin_in_lane(background, work, now, (space, lane)).await? {
                        self.0.insert(space, format!("{lane}\0"));
                    }
                }
                first = found.next;
            }
        }
        Ok(())
    }
}

/// Starts the oldest of what is due in one lane, as far as it has places. `true` when any was.
async fn begin_in_lane(
    background: &Arc<Background>,
    work: &Arc<impl DueWork>,
    now: u64,
    lane: (Space, &str),
) -> Result<bool, Failure> {
    let room = background.claims.room(lane.0, lane.1);
    if room == 0 {
        return Ok(false);
    }
    // So many of the first may be in work already.
    let limit = room.saturating_add(background.claims.held(lane.0, lane.1));
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let mut began = false;
    for due in background.store.due_in_lane(lane, now, limit).await? {
        // Taken unless the service is being sealed.
        let Ok(in_flight) = background.sealing.enter() else { break };
        if let Some(claim) = background.claims.claim_due(&due.address, &due.lane) {
            began = true;
            tokio::spawn(do_and_pause(Arc::clone(background), Arc::clone(work), claim, in_flight));
        }
    }
    Ok(began)
}

/// Does the work, and keeps the claim for a while where its outcome could not be stored.
async fn do_and_pause(
    background: Arc<Background>,
    work: Arc<impl DueWork>,
    claim: Claim,
    in_flight: InFlight,
) {
    let claim = Arc::new(claim);
    // In a task of its own, so that a panic ends that and is paused for like any other failure.
    let done = tokio::spawn(work.do_due_work(Arc::clone(&claim))).await;
    let done = done.unwrap_or_else(|_| Err(Failure::internal("the work ended early")));
    drop(in_flight);
    let Err(failure) = done else { return };
    let needs_repair = failure.kind == Kind::Internal || background.store.stopped().is_some();
    let pause = if needs_repair { REPAIR_PAUSE } else { UNSTORED_PAUSE };
    background.log.line("error", "due-work-unstored", &[("cause", failure.message)]);
    // The row is still due: without a pause it would be taken up again at once. Its lane is for
    // those that can be worked on.
    let _resting = Arc::into_inner(claim).map(Claim::leave_lane);
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = background.sealing.begun() => {}
    }
}
