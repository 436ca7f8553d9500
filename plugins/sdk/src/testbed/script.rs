//! What a test arranges for the steps of a call, and the record of those that happened.
//!
//! Every part of the host in memory goes through here, so that any step can be refused, can lose
//! its reply, or can be the last that the process did. Store time passes here too.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::{Failure, Kind};
use std::cell::{Cell, RefCell};

/// 2030-01-01T00:00:00Z, so that times in tests are easy to read.
const START: StoreTime = 1_893_456_000_000;

/// The script of one host.
#[derive(Default)]
pub(super) struct Script {
    /// Milliseconds since [`START`].
    elapsed: Cell<u64>,
    is_dead: Cell<bool>,
    steps: RefCell<Vec<String>>,
    arranged: RefCell<Vec<Arranged>>,
}

struct Arranged {
    step: String,
    fate: Fate,
}

/// What the script makes of a step.
pub(super) enum Fate {
    /// It fails before it happens.
    Refuse(Failure),
    /// It happens, and its answer is lost.
    LoseReply(Failure),
    /// It happens, and the process dies.
    Die,
}

impl Script {
    /// Decides the fate of the next step whose first word is `step`.
    pub(super) fn arrange(&self, step: &str, fate: Fate) {
        self.arranged.borrow_mut().push(Arranged { step: step.to_owned(), fate });
    }

    /// Does `act` under the name of a step, unless the script says otherwise. `detail` goes into
    /// the record of steps; without it, the step is too common to be worth writing down.
    pub(super) fn step<T>(
        &self,
        word: &str,
        detail: Option<&str>,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.check_alive()?;
        let fate = self.take_fate(word);
        if let Some(Fate::Refuse(failure)) = fate {
            return Err(failure);
        }
        if let Some(detail) = detail {
            self.record(format!("{word} {detail}").trim_end().to_owned());
        }
        let done = act()?;
        match fate {
            Some(Fate::LoseReply(failure)) => Err(failure),
            Some(Fate::Die) => {
                self.is_dead.set(true);
                Err(died())
            }
            _ => Ok(done),
        }
    }

    fn take_fate(&self, word: &str) -> Option<Fate> {
        let mut arranged = self.arranged.borrow_mut();
        let at = arranged.iter().position(|arranged| arranged.step == word)?;
        Some(arranged.remove(at).fate)
    }

    /// Adds a line to the record of steps.
    pub(super) fn record(&self, step: String) {
        self.steps.borrow_mut().push(step);
    }

    /// The record since the last look.
    pub(super) fn take_steps(&self) -> Vec<String> {
        self.steps.take()
    }

    /// A process that has died does nothing and answers nothing.
    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        if self.is_dead.get() { Err(died()) } else { Ok(()) }
    }

    /// The next process starts where this one died.
    pub(super) fn revive(&self) {
        self.is_dead.set(false);
    }

    pub(super) fn now(&self) -> StoreTime {
        START.saturating_add(self.elapsed.get())
    }

    pub(super) fn advance(&self, seconds: u64) {
        self.pass(seconds.saturating_mul(1_000));
    }

    pub(super) fn pass(&self, milliseconds: u64) {
        self.elapsed.set(self.elapsed.get().saturating_add(milliseconds));
    }
}

fn died() -> Failure {
    Failure::new(Kind::Unavailable, "the process died")
}
