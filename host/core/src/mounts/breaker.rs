//! The circuit breaker of a mount: after repeated crashes of the component, the mount rests.
//!
//! Each crash costs an instance, a log line and the caller's time. Only consecutive crashes count:
//! a caller with a request that crashes the component cannot shut the mount for callers with
//! successful requests.

use bulkhead_sandbox::Termination;
use bulkhead_wire::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Consecutive crashes after which a mount rests.
const MAX_CRASHES: u32 = 16;
/// Consecutive crashes after which a mount rests while the version of its plugin is on probation.
const CRASHES_ON_PROBATION: u32 = 4;
/// Maximum time between the first and the last of these crashes.
const CRASH_WINDOW: Duration = Duration::from_secs(60);
/// First rest. Each further rest without an answer in between is twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
/// Maximum rest.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// Retry time for callers that arrive while a single call tries the component.
const TRIAL_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The breaker of a component on a mount.
pub(crate) struct Breaker {
    digest: String,
    /// False if there is no crash and no rest, so that ordinary calls take no lock.
    is_troubled: AtomicBool,
    trouble: Mutex<BreakerState>,
    /// Notified once when the breaker opens.
    opened: Notify,
}

#[derive(Default)]
struct BreakerState {
    /// End of the probation of the component.
    probation: Option<Instant>,
    in_a_row: u32,
    since: Option<Instant>,
    rest: Option<RestPeriod>,
}

/// The refusal of a call while the mount rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MountRest {
    /// Crashes in a row, as counted.
    pub(super) crashes: u32,
    /// Time until a call may try the component.
    pub(super) left: Duration,
}

struct RestPeriod {
    /// Begin of the first rest since the last answer.
    began: Instant,
    until: Instant,
    length: Duration,
    /// A call tries the component now.
    is_tried: bool,
}

/// A rest, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RestReading {
    /// Crashes in a row.
    pub(super) crashes: u32,
    /// Begin of the first rest since the last answer.
    pub(super) began: Instant,
    /// Time from which a call tries the component.
    pub(super) until: Instant,
}

/// The right to call the component. A pass that is dropped without an end does not count.
pub struct BreakerPass<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
}

/// Change of the breaker's state by the end of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BreakerChange {
    Opened(Duration),
    Closed,
}

impl Breaker {
    /// Makes the breaker of the component with this digest.
    pub(super) fn new(digest: &str) -> Self {
        Self {
            digest: digest.to_owned(),
            is_troubled: AtomicBool::new(false),
            trouble: Mutex::default(),
            opened: Notify::new(),
        }
    }

    /// Returns true if the breaker belongs to the component with this digest.
    pub(super) fn is_of(&self, digest: &str) -> bool {
        self.digest == digest
    }

    /// Returns the right to call the component. After a rest, a single call tries the component
    /// first.
    ///
    /// # Errors
    /// The rest of the mount.
    pub(super) fn may_enter(&self, now: Instant) -> Result<BreakerPass<'_>, MountRest> {
        let ordinary = BreakerPass { breaker: self, is_trial: false };
        if !self.is_troubled.load(Ordering::Relaxed) {
            return Ok(ordinary);
        }
        let mut trouble = self.lock();
        let crashes = trouble.in_a_row;
        match &mut trouble.rest {
            None => Ok(ordinary),
            Some(rest) if now < rest.until => {
                Err(MountRest { crashes, left: rest.until.saturating_duration_since(now) })
            }
            Some(rest) if rest.is_tried => Err(MountRest { crashes, left: TRIAL_RETRY_AFTER }),
            Some(rest) => {
                rest.is_tried = true;
                Ok(BreakerPass { breaker: self, is_trial: true })
            }
        }
    }

    /// Returns the rest of the mount: from the crash that opened the breaker until a call that
    /// tries the component is answered.
    pub(super) fn rest(&self) -> Option<RestReading> {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return None;
        }
        let trouble = self.lock();
        let RestPeriod { began, until, .. } = *trouble.rest.as_ref()?;
        Some(RestReading { crashes: trouble.in_a_row, began, until })
    }

    /// Lets fewer crashes open the breaker until then.
    pub(super) fn begin_probation(&self, until: Instant) {
        self.lock().probation = Some(until);
    }

    /// Returns the number of crashes in a row.
    pub(super) fn crashes(&self) -> u32 {
        self.lock().in_a_row
    }

    /// Forgets all crashes.
    pub(super) fn close(&self) {
        let mut trouble = self.lock();
        (trouble.in_a_row, trouble.rest) = (0, None);
        self.is_troubled.store(false, Ordering::Relaxed);
    }

    /// Waits until the breaker opens.
    pub(super) async fn opens(&self) {
        self.opened.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        sync::lock(&self.trouble)
    }
}

impl BreakerPass<'_> {
    pub(super) fn end(mut self, ended: Termination, now: Instant) -> Option<BreakerChange> {
        let breaker = self.breaker;
        let is_trial = std::mem::take(&mut self.is_trial);
        if !is_trial
            && ended != Termination::Trapped
            && !breaker.is_troubled.load(Ordering::Relaxed)
        {
            return None;
        }
        let mut trouble = breaker.lock();
        let change = match ended {
            Termination::Answered | Termination::Refused => trouble.note_answer(is_trial),
            Termination::Trapped => trouble.note_crash(is_trial, now),
            Termination::Late => {
                trouble.not_tried(is_trial);
                None
            }
        };
        let is_troubled = trouble.in_a_row > 0 || trouble.rest.is_some();
        breaker.is_troubled.store(is_troubled, Ordering::Relaxed);
        if matches!(change, Some(BreakerChange::Opened(_))) {
            breaker.opened.notify_one();
        }
        change
    }
}

impl Drop for BreakerPass<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.lock().not_tried(true);
        }
    }
}

impl BreakerState {
    /// Resets the breaker after an answer. During a rest, only the trial call counts: other calls
    /// began before the rest.
    fn note_answer(&mut self, is_trial: bool) -> Option<BreakerChange> {
        if self.rest.is_some() && !is_trial {
            return None;
        }
        self.in_a_row = 0;
        self.rest.take().map(|_| BreakerChange::Closed)
    }

    fn note_crash(&mut self, is_trial: bool, now: Instant) -> Option<BreakerChange> {
        let length = match &self.rest {
            Some(_) if !is_trial => return None,
            Some(rest) => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                rest.length.saturating_mul(2).min(LONGEST_REST)
            }
            None => {
                let since = *self.since.get_or_insert(now);
                if self.in_a_row == 0 || now.saturating_duration_since(since) > CRASH_WINDOW {
                    (self.in_a_row, self.since) = (0, Some(now));
                }
                self.in_a_row += 1;
                if self.in_a_row < self.threshold(now) {
                    return None;
                }
                FIRST_REST
            }
        };
        let began = self.rest.as_ref().map_or(now, |rest| rest.began);
        self.rest = Some(RestPeriod { began, until: now + length, length, is_tried: false });
        Some(BreakerChange::Opened(length))
    }

    fn threshold(&self, now: Instant) -> u32 {
        match self.probation {
            Some(until) if now < until => CRASHES_ON_PROBATION,
            _ => MAX_CRASHES,
        }
    }

    fn not_tried(&mut self, is_trial: bool) {
        if is_trial && let Some(rest) = &mut self.rest {
            rest.is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests;
