//! Script of a host in memory: arranged fates of steps, the record of steps, and store time.
//!
//! Every part of the host runs its steps through the script, so that a test can refuse any step,
//! lose its reply, or kill the process after it.

use crate::database_plugin::StoreTime;
use bulkhead_wire::failure::{Failure, FailureKind};
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
    arranged: RefCell<Vec<ArrangedStep>>,
}

struct ArrangedStep {
    step: String,
    fate: StepFate,
}

/// Fate of a step.
pub(super) enum StepFate {
    /// The step fails before it happens.
    Refuse(Failure),
    /// The step happens, and its answer is lost.
    LoseReply(Failure),
    /// The step happens, and the process dies.
    Die,
}

impl Script {
    /// Sets the fate of the next step with the first word `step`.
    pub(super) fn arrange(&self, step: &str, fate: StepFate) {
        self.arranged.borrow_mut().push(ArrangedStep { step: step.to_owned(), fate });
    }

    /// Runs `act` as a step, unless the script has another fate. `detail` goes into the record of
    /// steps; a step without `detail` is too frequent to be recorded.
    pub(super) fn step<T>(
        &self,
        word: &str,
        detail: Option<&str>,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.check_alive()?;
        let fate = self.take_fate(word);
        if let Some(StepFate::Refuse(failure)) = fate {
            return Err(failure);
        }
        if let Some(detail) = detail {
            self.record(format!("{word} {detail}").trim_end().to_owned());
        }
        let done = act()?;
        match fate {
            Some(StepFate::LoseReply(failure)) => Err(failure),
            Some(StepFate::Die) => {
                self.is_dead.set(true);
                Err(died())
            }
            _ => Ok(done),
        }
    }

    fn take_fate(&self, word: &str) -> Option<StepFate> {
        let mut arranged = self.arranged.borrow_mut();
        let at = arranged.iter().position(|arranged| arranged.step == word)?;
        Some(arranged.remove(at).fate)
    }

    /// Adds a line to the record of steps.
    pub(super) fn record(&self, step: String) {
        self.steps.borrow_mut().push(step);
    }

    /// Returns the record since the last call.
    pub(super) fn take_steps(&self) -> Vec<String> {
        self.steps.take()
    }

    /// Fails if the process has died.
    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        if self.is_dead.get() { Err(died()) } else { Ok(()) }
    }

    /// Starts the next process.
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
    Failure::new(FailureKind::Unavailable, "the process died")
}
