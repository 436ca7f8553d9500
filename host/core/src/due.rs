//! Due work: leases and tokens that end, reservations to undo, timers to wake.
//!
//! Found by an index, never loaded at start. The worker sleeps until the next row is due, something
//! earlier is committed, or a claim is given back; a hanging target holds its own lane and no other.

use crate::claims::Claim;
use crate::core::Core;
use crate::leases;
use crate::neighbours::ForWork;
use crate::permit::Permit;
use crate::tokens;
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

const SPACES: [Space; 4] = [Space::Token, Space::Lease, Space::Reservation, Space::Timer];

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
    let (busy_lanes, busy) = core.claims.busy();
    let limit = u32::try_from(core.claims.room()).unwrap_or(u32::MAX);
    let ask = DueAsk { spaces: SPACES.to_vec(), until: now, busy_lanes, busy, limit };
    let found = if limit == 0 { Vec::new() } else { core.store.due(&ask).await? };
    for due in found {
        if let Some(claim) = core.claims.claim_due(&due.address, &due.lane) {
            tokio::spawn(work(Arc::clone(core), claim, due));
        }
    }
    let next = core.store.next_due_after(now).await?;
    let latest = now.saturating_add(u64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(u64::MAX));
    let next = next.unwrap_or(latest).min(latest);
    core.store.alarm().set(next);
    Ok(Duration::from_millis(next.saturating_sub(now)))
}

async fn work(core: Arc<Core>, claim: Claim, due: Due) {
    let done = match due.address.space {
        Space::Lease | Space::Reservation => end_lease(&core, &claim).await,
        Space::Token => end_token(&core, &due.address).await,
        _ => wake(&core, &claim).await,
    };
    if let Err(failure) = done {
        core.log.line("error", "due-work-unstored", &[("cause", failure.message)]);
        // The row is still due: without a pause it would be taken up again at once.
        tokio::time::sleep(UNSTORED_PAUSE).await;
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
    while leases::end_owned(core, &address.key).await? {}
    while end_children(core, &address.key).await? {}
    let mut unit = core.store.begin();
    unit.delete(address.clone());
    Ok(unit.commit().await?)
}

/// Ends up to a page of the children of `parent`. `false` when there was none.
async fn end_children(core: &Arc<Core>, parent: &str) -> Result<bool, Failure> {
    let children = core.store.owned(Space::Token, parent, "", 100).await?;
    let mut unit = core.store.begin();
    for child in &children {
        if let Some(mut record) = tokens::read(&mut unit, child).await? {
            // Without a parent it is not found here again.
            record.parent = None;
            tokens::end(&mut unit, child, record)?;
        }
    }
    unit.commit().await?;
    Ok(!children.is_empty())
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
    // Gone before the plugin runs, so that scheduling the same key in its wake moves it on.
    unit.delete(address.clone());
    let done = opened.plugin.engine.wake(call.scope(&opened), unit, key, attempts + 1).await;
    match done.result {
        Ok(()) => Ok(done.unit.commit().await?),
        Err(failure) => postpone(core, address, timer.index, attempts + 1, &failure).await,
    }
}

async fn postpone(
    core: &Arc<Core>,
    address: &Address,
    index: Index,
    attempts: u32,
    failure: &Failure,
) -> Result<(), Failure> {
    let pause = TIMER_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(10)).min(600_000);
    let due = core.store.now().saturating_add(failure.retry_after.unwrap_or(pause));
    let pairs = [("timer", address.key.clone()), ("attempt", attempts.to_string()), ("cause", failure.message.clone())];
    core.log.line("warn", "timer-delayed", &pairs);
    let mut unit = core.store.begin();
    unit.put(address.clone(), attempts.to_string().into_bytes(), Index { due: Some(due), ..index });
    Ok(unit.commit().await?)
}
