//! Timers in memory, and the guards that calls leave standing.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::BTreeMap;

/// What a guard adds to now: the time of a call, and a minute.
const GUARD: u64 = 150_000;

/// A committed timer, or one that a call set.
#[derive(Clone, PartialEq)]
pub(super) struct Timer {
    at: StoreTime,
    /// Attempts that failed.
    attempts: u32,
    state: State,
    /// Which write it is: one that is set anew for the same time is another timer.
    write: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Scheduled,
    /// A guard whose call still runs.
    Guarding,
    /// A guard that its call left standing.
    Left,
}

impl Timer {
    /// A timer that rings at `at`.
    pub(super) fn scheduled(at: StoreTime) -> Self {
        Self { at, attempts: 0, state: State::Scheduled, write: 0 }
    }

    /// A guard that a call sets now.
    pub(super) fn guard(now: StoreTime) -> Self {
        let at = now.saturating_add(GUARD);
        Self { at, attempts: 0, state: State::Guarding, write: 0 }
    }
}

/// Timers by key: those that are committed, and what the call set or cancelled since.
#[derive(Default)]
pub(super) struct Timers {
    committed: BTreeMap<String, Timer>,
    /// `None` cancels.
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

    /// When the timer or guard `key` rings, if there is one.
    pub(super) fn due(&self, key: &str) -> Option<StoreTime> {
        self.committed.get(key).map(|timer| timer.at)
    }

    /// The end of a call, or of the process that ran it: its guards are due.
    pub(super) fn end_call(&mut self, now: StoreTime) {
        let guarding = |timer: &&mut Timer| timer.state == State::Guarding;
        for timer in self.committed.values_mut().filter(guarding) {
            (timer.at, timer.state) = (now, State::Left);
        }
    }

    /// Guards that their calls left standing, in the order of keys, with their failed attempts.
    pub(super) fn left_guards(&self) -> Vec<(String, u32)> {
        let left = self.committed.iter().filter(|(_, timer)| timer.state == State::Left);
        left.map(|(key, timer)| (key.clone(), timer.attempts)).collect()
    }

    /// The timer that is about to ring.
    pub(super) fn ringing(&self, key: &str) -> Result<Timer, Failure> {
        let found = self.committed.get(key).cloned();
        found.ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no timer {key:?}")))
    }

    /// Makes the removal of a timer that rang part of what the wake commits, unless the wake set it
    /// anew.
    pub(super) fn remove_rung(&mut self, key: &str, rung: &Timer) {
        if !self.buffered.contains_key(key) && self.committed.get(key) == Some(rung) {
            self.cancel(key);
        }
    }

    /// Counts a failed attempt of a timer that is still there.
    pub(super) fn count_attempts(&mut self, key: &str, attempts: u32) {
        if let Some(timer) = self.committed.get_mut(key) {
            timer.attempts = attempts;
        }
    }
}
