//! Due work: leases and tokens that end, reservations to undo, timers and guards to wake.
//!
//! Found by an index, never loaded at start. The worker sleeps until the next row is due, something
//! earlier is committed, or a claim is given back; a hanging target holds its own lane and no
//! other, until sixteen of them hang at once.

use crate::backoff;
use crate::claims::Claim;
use crate::core::Core;
use crate::guards::{self, Guards};
use crate::host_services::BackgroundServices;
use crate::leases;
use crate::permit::Permit;
use crate::tokens;
use bulkhead_sandbox::Priority;
use bulkhead_store::{Address, Due, DueAsk, Record, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, watch};

/// Longest sleep: clocks are corrected, and a condition that is looked at again cannot be missed
/// for ever.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// After work whose outcome could not be stored, its claim is kept so long.
const UNSTORED_PAUSE: Duration = Duration::from_secs(1);
/// The same, where nothing but a repair will help: of the row, or of the disk under a store that
/// writes no more.
const REPAIR_PAUSE: Duration = Duration::from_secs(60);

/// What has no lane, and is asked for by itself: rows of lanes must not hide it.
const WITHOUT_LANE: [Space; 1] = [Space::Token];
/// What waits in lanes.
const IN_LANES: [Space; 3] = [Space::Lease, Space::Reservation, Space::Timer];

/// What is worked on although nothing can be stored any more: to end a credential twice does no
/// harm, and to leave it until the restart would.
const WITHOUT_STORE: [Space; 2] = [Space::Lease, Space::Reservation];

/// Runs until `stop` says so.
pub(crate) async fn run(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        core.store.alarm().listen();
        let freed = core.claims.freed();
        tokio::pin!(freed);
        freed.as_mut().enable();
        let sleep = match begin_what_is_due(&core).await {
            Ok(sleep) => sleep,
            Err(failure) => {
                core.log.line("error", "due-work-unreadable", &[("cause", failure.message)]);
                UNSTORED_PAUSE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = core.store.alarm().rung() => {}
            () = freed => {}
            _ = stop.changed() => {}
        }
    }
}

/// Claims and starts what is due; returns how long nothing more will be.
async fn begin_what_is_due(core: &Arc<Core>) -> Result<Duration, Failure> {
    let now = core.store.now();
    let in_lanes = match core.store.stopped() {
        None => {
            while begin_a_page(core, now, &WITHOUT_LANE, core.claims.room_without_lane()).await? {}
            &IN_LANES[..]
        }
        Some(reason) => {
            core.tell_of_stopped_writes(reason);
            &WITHOUT_STORE[..]
        }
    };
    // A page may be all of one lane, of which a few are begun: the next look leaves that lane out.
    while begin_a_page(core, now, in_lanes, core.claims.room_in_lanes()).await? {}
    let next = core.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    core.store.alarm().set(next);
    Ok(Duration::from_millis(next.saturating_sub(now)))
}

/// Starts what is due in `spaces`, up to `room`. `true` when there may be more to start.
async fn begin_a_page(
    core: &Arc<Core>,
    now: u64,
    spaces: &[Space],
    room: usize,
) -> Result<bool, Failure> {
    if room == 0 {
        return Ok(false);
    }
    let (busy_lanes, busy) = core.claims.busy();
    let limit = u32::try_from(room).unwrap_or(u32::MAX);
    let found = core
        .store
        .due(&DueAsk { spaces: spaces.to_vec(), until: now, busy_lanes, busy, limit })
        .await?;
    let is_full = found.len() >= room;
    let mut began = false;
    for due in found {
        // Taken unless somebody waits to seal the service.
        let Ok(in_flight) = Arc::clone(&core.process.in_flight).try_read_owned() else {
            return Ok(false);
        };
        if let Some(claim) = core.claims.claim_due(&due.address, &due.lane) {
            began = true;
            tokio::spawn(work(Arc::clone(core), claim, due, in_flight));
        }
    }
    Ok(is_full && began)
}

async fn work(core: Arc<Core>, claim: Claim, due: Due, in_flight: OwnedRwLockReadGuard<()>) {
    let claim = Arc::new(claim);
    // In a task of its own, so that a panic ends that and is paused for like any other failure.
    let done = tokio::spawn(act(Arc::clone(&core), Arc::clone(&claim), due.address)).await;
    let done = done.unwrap_or_else(|_| Err(Failure::internal("the work ended early")));
    drop(in_flight);
    let Err(failure) = done else { return };
    let needs_repair = failure.kind == Kind::Internal || core.store.stopped().is_some();
    let pause = if needs_repair { REPAIR_PAUSE } else { UNSTORED_PAUSE };
    core.log.line("error", "due-work-unstored", &[("cause", failure.message)]);
    // The row is still due: without a pause it would be taken up again at once. Its lane is for
    // those that can be worked on.
    let _resting = Arc::into_inner(claim).map(Claim::leave_lane);
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = core.stopping() => {}
    }
}

async fn act(core: Arc<Core>, claim: Arc<Claim>, address: Address) -> Result<(), Failure> {
    let Ok(_inside) = core.mounts.enter_work(&address.key).await else { return Ok(()) };
    match address.space {
        Space::Lease | Space::Reservation => end_lease(&core, &claim).await,
        Space::Token => tokens::finish(&core, &address.key).await,
        _ => wake(&core, &claim).await,
    }
}

/// Ends a lease that is still due now that it is claimed: it may have been renewed in between.
async fn end_lease(core: &Arc<Core>, claim: &Claim) -> Result<(), Failure> {
    if !still_due(core, claim.address()).await? {
        return Ok(());
    }
    match leases::end(core, claim, None).await {
        Ok(()) => Ok(()),
        // The failure is stored in the lease, with its next attempt; only a row that is due again
        // at once needs the pause.
        Err(_) if !still_due(core, claim.address()).await? => Ok(()),
        Err(failure) => Err(failure),
    }
}

async fn still_due(core: &Arc<Core>, address: &Address) -> Result<bool, Failure> {
    let record = core.store.begin().get(address).await?;
    Ok(record.is_some_and(|record| record.index.due.is_some_and(|due| due <= core.store.now())))
}

/// Wakes the plugin that scheduled a timer or left a guard. Success removes the timer, unless it
/// was scheduled anew.
async fn wake(core: &Arc<Core>, claim: &Claim) -> Result<(), Failure> {
    let Some(timer) = claim.fence(&mut core.store.begin()).await? else { return Ok(()) };
    if timer.index.due.is_none_or(|due| due > core.store.now()) {
        return Ok(());
    }
    let address = claim.address();
    let (uuid, key) = address.key.split_once('/').unwrap_or((address.key.as_str(), ""));
    let Some(mount) = core.mounts.by_uuid(uuid) else {
        if let Some(waits) = core.mounts.waits(uuid) {
            return put_off(core, claim, &timer, &waits).await;
        }
        return Err(Failure::internal(format!(
            "a timer of mount {uuid} is due, but there is no such mount"
        )));
    };
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let call = BackgroundServices::new(core, &mount);
    let attempt = guards::attempts(&timer).saturating_add(1);
    let woken = Woken { claim, timer: &timer, guards: call.guards() };
    let ended = match call.enter(Priority::Background).await {
        Ok(let_in) => {
            let done = opened
                .plugin
                .engine
                .wake(call.scope(&opened), mount.begin(&core.store), key, attempt)
                .await;
            call.left(let_in, done.ended);
            match done.result {
                Ok(()) => woken.finish(done.unit).await,
                Err(failure) => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    };
    let stored = match ended {
        Ok(()) => Ok(()),
        Err(failure) => woken.postpone(core, attempt, &failure).await,
    };
    guards::release(core, call.guards()).await;
    stored
}

/// Puts a timer off whose mount waits for its plugin. That was told when the mount was left out,
/// and is no attempt.
async fn put_off(
    core: &Core,
    claim: &Claim,
    timer: &Record,
    waits: &Failure,
) -> Result<(), Failure> {
    let mut unit = core.store.begin();
    if let Some(record) = claim.fence(&mut unit).await?.filter(|record| record.index == timer.index)
    {
        let attempts = guards::attempts(timer);
        let due = core.store.now().saturating_add(backoff::pause(waits, attempts));
        guards::put_timer(&mut unit, claim.address(), &record.index.lane, attempts, due);
    }
    unit.commit().await?;
    Ok(())
}

/// A wake after its call.
struct Woken<'a> {
    claim: &'a Claim,
    /// As it was when the wake began.
    timer: &'a Record,
    /// What the wake itself guards.
    guards: &'a Guards,
}

impl Woken<'_> {
    /// Removes the timer in the commit of what the wake did, and not before: at least once.
    async fn finish(&self, mut unit: Unit) -> Result<(), Failure> {
        let address = self.claim.address();
        let left = self.claim.fence(&mut unit).await?;
        if left.as_ref().is_some_and(|record| record.index == self.timer.index) {
            unit.delete(address.clone());
        }
        unit.commit().await?;
        match left {
            // Let go as other guards are, it would ring at once, and again, for ever.
            Some(record) if self.guards.stand(address, &record) => Err(Failure::internal(
                "the wake ended without cancelling the guard that it set on its own key",
            )),
            _ => Ok(()),
        }
    }

    /// Writes the next attempt. Whoever cancelled or moved the timer meanwhile knows better; a
    /// guard that the failed wake set on its own key is this very timer, and no reason to try again
    /// without a pause.
    async fn postpone(&self, core: &Core, attempts: u32, failure: &Failure) -> Result<(), Failure> {
        let address = self.claim.address();
        let pause = backoff::pause(failure, attempts);
        let pairs = [
            ("timer", address.key.clone()),
            ("attempt", attempts.to_string()),
            ("next", format!("{pause}ms")),
            ("cause", failure.message.clone()),
        ];
        core.log.line("warn", "timer-delayed", &pairs);
        let mut unit = core.store.begin();
        let ours = |record: &Record| {
            record.index == self.timer.index || self.guards.stand(address, record)
        };
        if let Some(record) = self.claim.fence(&mut unit).await?.filter(ours) {
            let due = core.store.now().saturating_add(pause);
            guards::put_timer(&mut unit, address, &record.index.lane, attempts, due);
        }
        unit.commit().await?;
        Ok(())
    }
}
