//! Waking a plugin for scheduled timers, and for guards left behind by calls.

use super::attempts::{CallAttempts, UnfinishedWork, lost_a_race};
use super::lane_answers;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::mounts::Mount;
use crate::permit::Permit;
use bulkhead_access::background::guards::{self, CallGuards};
use bulkhead_access::background::{Claim, DueOutcome, backoff};
use bulkhead_access::log::cause;
use bulkhead_sandbox::CallPriority;
use bulkhead_store::{Record, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// Wakes the plugin that scheduled a timer or left a guard. After success the timer is removed,
/// unless it was scheduled again.
pub(super) async fn wake_timer(core: &Arc<Core>, claim: &Claim) -> Result<DueOutcome, Failure> {
    let Some(timer) = claim.fence(&mut core.store.begin()).await? else {
        return Ok(DueOutcome::Moot);
    };
    if timer.index.due.is_none_or(|due| due > core.store.now()) {
        return Ok(DueOutcome::Moot);
    }
    let row = claim.address().key.as_str();
    let (uuid, key) = row.split_once('/').unwrap_or((row, ""));
    let Some(mount) = core.mounts.by_uuid(uuid) else {
        if let Some(waits) = core.mounts.unavailable_failure(uuid) {
            return put_off(core, claim, &timer, &waits).await;
        }
        let missing = format!("a timer of mount {uuid} is due, but there is no such mount");
        return Err(Failure::internal(missing).recordable());
    };
    let ready = match mount.may_wake() {
        Ok(()) => core.load_plugin(&mount).await,
        Err(waits) => Err(waits),
    };
    if let Err(waits) = ready {
        return put_off(core, claim, &timer, &waits).await;
    }
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let call = BackgroundServices::for_wake(core, &mount);
    let attempt = guards::attempts(&timer).saturating_add(1);
    let woken = TimerWake { mount: &mount, claim, timer: &timer, guards: call.guards() };
    let mut attempts = CallAttempts::of_due_work(core, call.deadline());
    let ended = loop {
        let mut unit = attempts.begin(mount.begin(&core.store));
        if let Err(waits) = mount.fence(&core.store, &mut unit).await {
            break Err(UnfinishedWork::before_call(waits));
        }
        let admitted = match call.enter(CallPriority::Background).await {
            Ok(admitted) => admitted,
            Err(waits) => break Err(UnfinishedWork::before_call(waits)),
        };
        let (engine, context) = (opened.engine, call.context(None));
        let done = engine.wake(call.scope(&opened), unit, &context, key, attempt).await;
        call.note_end(admitted, done.ended);
        let ended = match done.result {
            Ok(()) => woken.finish(done.unit).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&ended).await {
            break ended.map_err(UnfinishedWork::from);
        }
    };
    let answer = ended.as_ref().map_err(|unfinished| &unfinished.failure).copied();
    lane_answers::note_result(core, &timer.index.lane, answer);
    let stored = match ended {
        Ok(()) => Ok(DueOutcome::Done),
        Err(wait) if wait.is_waiting => put_off(core, claim, &timer, &wait.failure).await,
        Err(unfinished) => woken.postpone(core, attempt, unfinished).await,
    };
    call.release_guards().await;
    stored
}

/// Postpones a timer while the mount waits for its plugin, the plugin's code or a slot, rests after
/// crashes, or exceeds the write budget. A postponement is not an attempt.
async fn put_off(
    core: &Core,
    claim: &Claim,
    timer: &Record,
    waits: &Failure,
) -> Result<DueOutcome, Failure> {
    let attempts = guards::attempts(timer);
    let next = NextAttempt { attempts, pause: backoff::backoff_pause(waits, attempts) };
    next.put(core, claim, |record| record.stamp == timer.stamp).await?;
    Ok(DueOutcome::Delayed)
}

/// The next attempt of a timer.
struct NextAttempt {
    /// Number of failed attempts.
    attempts: u32,
    /// Milliseconds from now.
    pause: u64,
}

impl NextAttempt {
    /// Schedules the next attempt, if the current record of the timer `is_ours`.
    async fn put(
        &self,
        core: &Core,
        claim: &Claim,
        is_ours: impl Fn(&Record) -> bool,
    ) -> Result<(), Failure> {
        let (address, mut finish) = (claim.address(), core.store.begin().finish());
        loop {
            let unit = finish.restart_host_part();
            if let Some(record) = claim.fence(unit).await?.filter(&is_ours) {
                let due = core.store.now().saturating_add(self.pause);
                guards::put_timer(unit, address, &record.index.lane, self.attempts, due);
            }
            if finish.try_commit().await? {
                return Ok(());
            }
        }
    }
}

/// A wake after its call.
struct TimerWake<'a> {
    mount: &'a Mount,
    claim: &'a Claim,
    /// The record at the beginning of the wake.
    timer: &'a Record,
    /// The guards that the wake itself set.
    guards: &'a CallGuards,
}

impl TimerWake<'_> {
    /// Removes the timer in the commit of the wake's changes and not before, so that the wake runs
    /// at least once. A record that the wake or another call wrote at the same key is a different
    /// timer and stays, even with the same time and lane.
    async fn finish(&self, mut unit: Unit) -> Result<(), Failure> {
        let address = self.claim.address();
        let left = self.claim.fence(&mut unit).await?;
        if left.as_ref().is_some_and(|record| record.stamp == self.timer.stamp) {
            unit.delete(address.clone());
        }
        unit.commit().await?;
        match left {
            // Released like other guards, this guard would be due at once, in an endless loop.
            Some(record) if self.guards.is_own_guard(address, &record) => Err(Failure::internal(
                "the wake ended without cancelling the guard on the wake's own key",
            )),
            _ => Ok(()),
        }
    }

    /// Schedules the next attempt, unless the timer was cancelled or moved meanwhile. A guard that
    /// the failed wake set on its own key counts as this timer, as does a timer that the wake set
    /// again to the same past time: neither may cause a retry without a pause. A conflict of our
    /// own store is not an attempt.
    async fn postpone(
        &self,
        core: &Core,
        attempt: u32,
        unfinished: UnfinishedWork,
    ) -> Result<DueOutcome, Failure> {
        let (address, failure) = (self.claim.address(), &unfinished.failure);
        let (level, next) = match lost_a_race(failure) {
            true => (
                LogLevel::Info,
                NextAttempt { attempts: attempt.saturating_sub(1), pause: backoff::FIRST_PAUSE },
            ),
            false => (
                LogLevel::Warn,
                NextAttempt { attempts: attempt, pause: backoff::backoff_pause(failure, attempt) },
            ),
        };
        if level == LogLevel::Warn {
            self.mount.count_failed_wake();
        }
        let pairs = [
            ("timer", address.key.clone()),
            ("attempt", attempt.to_string()),
            ("next", format!("{}ms", next.pause)),
            cause(failure),
        ];
        core.log.line(level, "timer-delayed", &pairs);
        let is_ours = |record: &Record| {
            record.index == self.timer.index || self.guards.is_own_guard(address, record)
        };
        next.put(core, self.claim, is_ours).await?;
        Ok(unfinished.outcome())
    }
}
