//! Due work: leases and tokens that end, reservations to undo, timers to wake.
//!
//! Found by an index, never loaded at start. The worker sleeps until the next row is due, something
//! earlier is committed, or a claim is given back; a hanging target holds its own lane and no other.

use crate::claims::Claim;
use crate::core::Core;
use crate::leases;
use crate::neighbours::ForWork;
use crate::permit::Permit;
use crate::tokens::{self, TokenRecord};
use bulkhead_store::{Address, Due, DueAsk, Index, Space};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Longest sleep: clocks are corrected, and a condition that is looked at again cannot be missed for ever.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// After work whose outcome could not be stored, its claim is kept so long.
const UNSTORED_PAUSE: Duration = Duration::from_secs(1);
/// First pause of a timer that failed, in milliseconds; doubles up to ten minutes.
const TIMER_PAUSE: u64 = 1_000;

/// Children of a token that are ended in one commit.
const PAGE: u32 = 100;
/// Shortest pause, whatever the plugin asks.
const SHORTEST_PAUSE: u64 = 10;

/// What has no lane, and is asked for by itself: rows of lanes must not hide it.
const WITHOUT_LANE: [Space; 1] = [Space::Token];
/// What waits in lanes.
const IN_LANES: [Space; 3] = [Space::Lease, Space::Reservation, Space::Timer];

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
    while begin_a_page(core, now, &WITHOUT_LANE, core.claims.room_without_lane()).await? {}
    // A page may be all of one lane, of which a few are begun: the next look leaves that lane out.
    while begin_a_page(core, now, &IN_LANES, core.claims.room_in_lanes()).await? {}
    let next = core.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    core.store.alarm().set(next);
    Ok(Duration::from_millis(next.saturating_sub(now)))
}

/// Starts what is due in `spaces`, up to `room`. `true` when there may be more to start.
async fn begin_a_page(core: &Arc<Core>, now: u64, spaces: &[Space], room: usize) -> Result<bool, Failure> {
    if room == 0 {
        return Ok(false);
    }
    let (busy_lanes, busy) = core.claims.busy();
    let limit = u32::try_from(room).unwrap_or(u32::MAX);
    let found = core.store.due(&DueAsk { spaces: spaces.to_vec(), until: now, busy_lanes, busy, limit }).await?;
    let is_full = found.len() >= room;
    let mut began = false;
    for due in found {
        if let Some(claim) = core.claims.claim_due(&due.address, &due.lane) {
            began = true;
            tokio::spawn(work(Arc::clone(core), claim, due));
        }
    }
    Ok(is_full && began)
}

async fn work(core: Arc<Core>, claim: Claim, due: Due) {
    let claim = Arc::new(claim);
    // In a task of its own, so that a panic ends that and is paused for like any other failure.
    let done = tokio::spawn(act(Arc::clone(&core), Arc::clone(&claim), due.address)).await;
    let done = done.unwrap_or_else(|_| Err(Failure::internal("the work ended early")));
    if let Err(failure) = done {
        core.log.line("error", "due-work-unstored", &[("cause", failure.message)]);
        // The row is still due: without a pause it would be taken up again at once.
        tokio::time::sleep(UNSTORED_PAUSE).await;
    }
}

async fn act(core: Arc<Core>, claim: Arc<Claim>, address: Address) -> Result<(), Failure> {
    match address.space {
        Space::Lease | Space::Reservation => end_lease(&core, &claim).await,
        Space::Token => end_token(&core, &address).await,
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
        // The failure is stored in the lease, with its next attempt; only a row that is due again at
        // once needs the pause.
        Err(_) if !still_due(core, claim.address()).await? => Ok(()),
        Err(failure) => Err(failure),
    }
}

async fn still_due(core: &Arc<Core>, address: &Address) -> Result<bool, Failure> {
    let record = core.store.begin().get(address).await?;
    Ok(record.is_some_and(|record| record.index.due.is_some_and(|due| due <= core.store.now())))
}

/// Ends a token that expired or was revoked: first it is refused, then its leases and children end, page
/// by page, then its row goes.
async fn end_token(core: &Arc<Core>, address: &Address) -> Result<(), Failure> {
    let mut unit = core.store.begin();
    let Some(record) = tokens::read(&mut unit, &address.key).await? else { return Ok(()) };
    if tokens::holds(&record, core.store.now()) {
        return Ok(());
    }
    if !record.ended {
        tokens::end(&mut unit, &address.key, record)?;
        unit.commit().await?;
    }
    leases::end_owned(core, &address.key).await?;
    end_children(core, &address.key).await?;
    let mut unit = core.store.begin();
    unit.delete(address.clone());
    Ok(unit.commit().await?)
}

/// Ends the children of `parent`. One that cannot be read is left and told; it opens no door either.
async fn end_children(core: &Arc<Core>, parent: &str) -> Result<(), Failure> {
    let mut after = String::new();
    loop {
        let children = core.store.owned(Space::Token, parent, &after, PAGE).await?;
        let Some(last) = children.last() else { return Ok(()) };
        after.clone_from(last);
        let mut unit = core.store.begin();
        for child in &children {
            match tokens::read(&mut unit, child).await {
                // Without a parent it is not found here again.
                Ok(Some(record)) => tokens::end(&mut unit, child, TokenRecord { parent: None, ..record })?,
                Ok(None) => {}
                Err(failure) => core.log.line("error", "token-unreadable", &[("cause", failure.message)]),
            }
        }
        unit.commit().await?;
    }
}

/// Wakes the plugin that scheduled a timer. Success removes the timer, unless it was scheduled anew.
async fn wake(core: &Arc<Core>, claim: &Claim) -> Result<(), Failure> {
    let address = claim.address();
    let mut unit = core.store.begin();
    let Some(timer) = unit.get(address).await? else { return Ok(()) };
    if timer.index.due.is_none_or(|due| due > core.store.now()) {
        return Ok(());
    }
    let attempts: u32 = std::str::from_utf8(&timer.body).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let (uuid, key) = address.key.split_once('/').unwrap_or((address.key.as_str(), ""));
    let Some(mount) = core.mounts.by_uuid(uuid) else {
        return Err(Failure::internal(format!("a timer of mount {uuid} is due, but there is no such mount")));
    };
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let call = ForWork::new(core, &mount);
    let _admission = core.sandbox.admit(2, call.deadline).await?;
    let attempt = attempts.saturating_add(1);
    let done = opened.plugin.engine.wake(call.scope(&opened), unit, key, attempt).await;
    let mut unit = match done.result {
        Ok(()) => done.unit,
        Err(failure) => return postpone(core, address, &timer.index, attempt, &failure).await,
    };
    // Only now, in the commit of what the wake did: at least once. Unless it scheduled itself anew.
    if unit.get(address).await?.is_some_and(|record| record.index == timer.index) {
        unit.delete(address.clone());
    }
    Ok(unit.commit().await?)
}

async fn postpone(
    core: &Arc<Core>,
    address: &Address,
    index: &Index,
    attempts: u32,
    failure: &Failure,
) -> Result<(), Failure> {
    let pause = TIMER_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(600_000);
    let pause = failure.retry_after.unwrap_or(pause).max(SHORTEST_PAUSE);
    let due = core.store.now().saturating_add(pause);
    let pairs = [("timer", address.key.clone()), ("attempt", attempts.to_string()), ("cause", failure.message.clone())];
    core.log.line("warn", "timer-delayed", &pairs);
    let mut unit = core.store.begin();
    // Whoever cancelled or moved it meanwhile knows better.
    if unit.get(address).await?.is_some_and(|record| record.index == *index) {
        unit.put(address.clone(), attempts.to_string().into_bytes(), Index { due: Some(due), ..index.clone() });
    }
    Ok(unit.commit().await?)
}
