//! Script of a host in memory: arranged fates of steps, the record of steps, store time, and the
//! limits of a call.
//!
//! Every part of the host runs its steps through the script, so that a test can refuse any step,
//! lose its reply, or kill the process after it. A call that exceeds a limit is stopped, as by the
//! real host, so that no constant of a component promises more than its limits allow.

use crate::database_plugin::StoreTime;
use bulkhead_wire::call_limits::CallLimits;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::cell::{Cell, RefCell};

/// 2030-01-01T00:00:00Z, so that times in tests are easy to read.
const START: StoreTime = 1_893_456_000_000;

/// The script of one host.
#[derive(Default)]
pub(super) struct Script {
    /// Milliseconds since [`START`].
    elapsed: Cell<u64>,
    /// The reason for which the call was stopped.
    stopped: RefCell<Option<Failure>>,
    steps: RefCell<Vec<String>>,
    arranged: RefCell<Vec<ArrangedStep>>,
    limits: Cell<CallLimits>,
    used: Cell<UsedLimits>,
    /// Records and listed keys read since the last commit.
    reads: Cell<usize>,
}

/// Use of the limits by the present call.
#[derive(Clone, Copy, Default)]
pub(super) struct UsedLimits {
    pub(super) host_calls: u32,
    pub(super) http_calls: u32,
    pub(super) http_bytes: usize,
    pub(super) storage_bytes: usize,
}

impl UsedLimits {
    /// Returns the name of a limit that is exceeded.
    fn exceeded(self, limits: &CallLimits) -> Option<&'static str> {
        let uses = [
            ("host-calls", self.host_calls > limits.host_calls),
            ("http-calls", self.http_calls > limits.http_calls),
            ("http-bytes", self.http_bytes > limits.http_bytes),
            ("storage", self.storage_bytes > limits.storage_bytes),
        ];
        uses.into_iter().find(|(_, is_over)| *is_over).map(|(name, _)| name)
    }
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
        self.spend(|used| used.host_calls += 1)?;
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
                *self.stopped.borrow_mut() = Some(died());
                Err(died())
            }
            _ => Ok(done),
        }
    }

    /// Counts use of the limits. Stops the call beyond a limit.
    pub(super) fn spend(&self, count: impl FnOnce(&mut UsedLimits)) -> Result<(), Failure> {
        let mut used = self.used.get();
        count(&mut used);
        self.used.set(used);
        let Some(name) = used.exceeded(&self.limits.get()) else { return Ok(()) };
        self.record(format!("limit {name}"));
        let stopped = Failure::internal(format!("the call was stopped at its limit {name}"));
        *self.stopped.borrow_mut() = Some(stopped.clone());
        Err(stopped)
    }

    /// Counts records and keys that the next commit checks again.
    pub(super) fn count_reads(&self, reads: usize) {
        self.reads.set(self.reads.get().saturating_add(reads));
    }

    /// Returns the number of reads since the last commit.
    pub(super) fn reads(&self) -> usize {
        self.reads.get()
    }

    /// Ends a segment: its reads are not checked again.
    pub(super) fn forget_reads(&self) {
        self.reads.set(0);
    }

    /// Returns the limits of each call.
    pub(super) fn limits(&self) -> CallLimits {
        self.limits.get()
    }

    /// Sets the limits of each call.
    pub(super) fn set_limits(&self, limits: CallLimits) {
        self.limits.set(limits);
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

    /// Fails if the process has died, or the call was stopped at a limit.
    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        self.stopped.borrow().clone().map_or(Ok(()), Err)
    }

    /// Starts the next call, in the next process if the process has died.
    pub(super) fn revive(&self) {
        *self.stopped.borrow_mut() = None;
        self.used.set(UsedLimits::default());
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
