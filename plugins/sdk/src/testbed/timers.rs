//! Store time in memory, timers, and the guards that calls leave standing.

use super::host::TestHost;
use crate::database_plugin::StoreTime;
use crate::host::Clock;
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
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Scheduled,
    /// A guard whose call still runs.
    Guarding,
    /// A guard that its call left standing.
    Left,
}

/// The committed timers, by key.
#[derive(Default)]
pub(super) struct Timers(BTreeMap<String, Timer>);

impl Timers {
    pub(super) fn commit(&mut self, buffered: BTreeMap<String, Option<Timer>>) {
        for (key, timer) in buffered {
            match timer {
                Some(timer) => self.0.insert(key, timer),
                None => self.0.remove(&key),
            };
        }
    }
}

impl TestHost {
    /// When the timer or guard `key` rings, if there is one.
    #[must_use]
    pub fn timer(&self, key: &str) -> Option<StoreTime> {
        self.state.borrow().timers.0.get(key).map(|timer| timer.at)
    }

    /// The end of a call, or of the process that ran it: its guards are due.
    pub(super) fn end_call(&self) {
        let mut state = self.state.borrow_mut();
        state.dead = false;
        let now = state.now();
        for timer in state.timers.0.values_mut().filter(|timer| timer.state == State::Guarding) {
            (timer.at, timer.state) = (now, State::Left);
        }
    }

    /// Guards that their calls left standing, in the order of keys, with their failed attempts.
    pub(super) fn left_guards(&self) -> Vec<(String, u32)> {
        let state = self.state.borrow();
        let left = state.timers.0.iter().filter(|(_, timer)| timer.state == State::Left);
        left.map(|(key, timer)| (key.clone(), timer.attempts)).collect()
    }

    /// The timer that is about to ring.
    pub(super) fn ringing(&self, key: &str) -> Result<Timer, Failure> {
        let found = self.state.borrow().timers.0.get(key).cloned();
        found.ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no timer {key:?}")))
    }

    /// Makes the removal of a timer that rang part of what the wake commits, unless the wake set it
    /// anew.
    pub(super) fn remove_rung(&self, key: &str, rung: &Timer) {
        let mut state = self.state.borrow_mut();
        if !state.buffer.timers.contains_key(key) && state.timers.0.get(key) == Some(rung) {
            state.buffer.timers.insert(key.to_owned(), None);
        }
    }

    /// Counts a failed attempt of a timer that is still there.
    pub(super) fn count_attempts(&self, key: &str, attempts: u32) {
        if let Some(timer) = self.state.borrow_mut().timers.0.get_mut(key) {
            timer.attempts = attempts;
        }
    }

    fn set(&self, word: &str, key: &str, lane: &str, timer: Timer) -> Result<(), Failure> {
        self.step(word, Some(&format!("{key} in {lane}")), |state| {
            state.buffer.timers.insert(key.to_owned(), Some(timer));
            Ok(())
        })
    }
}

impl Clock for TestHost {
    fn now(&self) -> StoreTime {
        self.state.borrow().now()
    }

    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure> {
        self.set("schedule", key, lane, Timer { at, attempts: 0, state: State::Scheduled })
    }

    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure> {
        let at = self.now().saturating_add(GUARD);
        self.set("guard", key, lane, Timer { at, attempts: 0, state: State::Guarding })
    }

    fn cancel(&self, key: &str) -> Result<(), Failure> {
        self.step("cancel", Some(key), |state| {
            state.buffer.timers.insert(key.to_owned(), None);
            Ok(())
        })
    }
}
