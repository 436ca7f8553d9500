//! Timers in memory, and the guards that calls leave.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::collections::BTreeMap;

/// Delay of a guard in milliseconds: the time of a call and a minute.
const GUARD: u64 = 150_000;

/// A timer, committed or set by the running call.
#[derive(Clone, PartialEq)]
pub(super) struct Timer {
    at: StoreTime,
    /// Number of failed attempts.
    attempts: u32,
    state: TimerState,
    /// Number of the write. A timer that is set again for the same time is another timer.
    write: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum TimerState {
    Scheduled,
    /// A guard of a running call.
    Guarding,
    /// A guard left by a call that has ended.
    Left,
}

impl Timer {
    /// Returns a timer due at `at`.
    pub(super) fn scheduled(at: StoreTime) -> Self {
        Self { at, attempts: 0, state: TimerState::Scheduled, write: 0 }
    }

    /// Returns a guard that a call sets now.
    pub(super) fn guard(now: StoreTime) -> Self {
        let at = now.saturating_add(GUARD);
        Self { at, attempts: 0, state: TimerState::Guarding, write: 0 }
    }
}

/// Committed timers, and the changes of the running call, by key.
#[derive(Default)]
pub(super) struct Timers {
    committed: BTreeMap<String, Timer>,
    /// Changes by key; `None` cancels.
    buffered: BTreeMap<String, Option<Timer>>,
    writes: u64,
}

impl Timers {
    /// Buffers a timer.
    pub(super) fn set(&mut self, key: &str, timer: Timer) {
        self.writes += 1;
        self.buffered.insert(key.to_owned(), Some(Timer { write: self.writes, ..timer }));
    }

    /// Buffers the removal of a timer.
    pub(super) fn cancel(&mut self, key: &str) {
        self.buffered.insert(key.to_owned(), None);
    }

    /// Returns the number of uncommitted changes.
    pub(super) fn count_buffered(&self) -> usize {
        self.buffered.len()
    }

    pub(super) fn commit(&mut self) {
        for (key, timer) in std::mem::take(&mut self.buffered) {
            match timer {
                Some(timer) => self.committed.insert(key, timer),
                None => self.committed.remove(&key),
            };
        }
    }

    pub(super) fn roll_back(&mut self) {
        self.buffered.clear();
    }

    /// Returns the time of the timer or guard `key`, if there is one.
    pub(super) fn due(&self, key: &str) -> Option<StoreTime> {
        self.committed.get(key).map(|timer| timer.at)
    }

    /// Ends a call, or the process that ran the call: its guards are due.
    pub(super) fn end_call(&mut self, now: StoreTime) {
        let guarding = |timer: &&mut Timer| timer.state == TimerState::Guarding;
        for timer in self.committed.values_mut().filter(guarding) {
            (timer.at, timer.state) = (now, TimerState::Left);
        }
    }

    /// Returns the guards that calls left, ordered by key, with the number of failed attempts.
    pub(super) fn left_guards(&self) -> Vec<(String, u32)> {
        let left = self.committed.iter().filter(|(_, timer)| timer.state == TimerState::Left);
        left.map(|(key, timer)| (key.clone(), timer.attempts)).collect()
    }

    /// Returns the timers and guards that are due, ordered by key, with the number of failed
    /// attempts. The guard of a running call is not due.
    pub(super) fn due_timers(&self, now: StoreTime) -> Vec<(String, u32)> {
        let is_due = |timer: &Timer| timer.at <= now && timer.state != TimerState::Guarding;
        let due = self.committed.iter().filter(|(_, timer)| is_due(timer));
        due.map(|(key, timer)| (key.clone(), timer.attempts)).collect()
    }

    /// Returns the timer that is about to fire.
    pub(super) fn ringing(&self, key: &str) -> Result<Timer, Failure> {
        let found = self.committed.get(key).cloned();
        found.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, format!("there is no timer {key:?}"))
        })
    }

    /// Adds the removal of a fired timer to the commit of the wake, unless the wake set the timer
    /// again.
    pub(super) fn remove_rung(&mut self, key: &str, rung: &Timer) {
        if !self.buffered.contains_key(key) && self.committed.get(key) == Some(rung) {
            self.cancel(key);
        }
    }

    /// Stores the number of failed attempts of a timer that still exists.
    pub(super) fn count_attempts(&mut self, key: &str, attempts: u32) {
        if let Some(timer) = self.committed.get_mut(key) {
            timer.attempts = attempts;
        }
    }
}
