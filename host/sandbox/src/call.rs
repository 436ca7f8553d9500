//! One call: a fresh instance with its scope, limits and deadline, entered once, then dropped.
//!
//! Whatever the guest does ends here as a [`Done`]: an answer, or a failure that names the plugin, its
//! version and the cause. A trap fails one call; the mount lives on.

use crate::bindings::contract::{self, Answer, Call, Lease, Mount, Outcome, Renewal};
use crate::component::Engine;
use crate::engine::Sandbox;
use crate::grants::Grants;
use crate::limits::{self, Limits};
use crate::neighbours::{Level, Neighbours};
use crate::secrets::SecretSet;
use crate::state::CallState;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Lift, Lower};
use wasmtime::{Store, Trap, UpdateDeadline};

/// What one call may use, and until when. Cheap to clone: a nested call gets one of its own.
#[derive(Clone)]
pub struct Scope {
    /// The mount's uuid: the prefix of its rows.
    pub mount: String,
    /// What it may do beyond its own storage.
    pub grants: Arc<Grants>,
    /// Its limits.
    pub limits: Limits,
    /// When it is stopped.
    pub deadline: Instant,
    /// Core, as this call sees it.
    pub neighbours: Arc<dyn Neighbours>,
    /// Shared with nested calls.
    pub root: Arc<Root>,
}

impl Scope {
    /// Time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What a root call and its nested calls share.
#[derive(Default)]
pub struct Root {
    /// Never in a text that leaves.
    pub secrets: SecretSet,
    effect: AtomicU8,
}

impl Root {
    pub(crate) fn mark(&self, effect: Effect) {
        self.effect.fetch_max(effect as u8, Ordering::Relaxed);
    }

    /// The strongest mark of the imports that ran.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self.effect.load(Ordering::Relaxed) {
            0 => Effect::Pure,
            1 => Effect::Safe,
            _ => Effect::Effect,
        }
    }
}

/// What an import did to the world. Only [`Effect::Effect`] ends automatic re-runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Effect {
    /// Nothing outside the unit of work.
    Pure = 0,
    /// Something was read outside.
    Safe = 1,
    /// Something may have been changed outside.
    Effect = 2,
}

/// How a call ended. The unit of work comes back in either case; after a failure it is to be dropped.
pub struct Done<T> {
    /// With what the plugin buffered.
    pub unit: Unit,
    /// The answer, or why there is none.
    pub result: Result<T, Failure>,
}

/// Admission to the pool of instances, taken once a root call and held until it ends.
pub struct Admission(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Sandbox {
    /// Waits for room for `instances` instances (two for routes that reach a database plugin, so that
    /// a nested call never waits for an instance that its own caller holds).
    ///
    /// # Errors
    /// `unavailable` when there is none until `deadline`.
    pub async fn admit(&self, instances: u32, deadline: Instant) -> Result<Admission, Failure> {
        let room = Arc::clone(&self.runtime.admission).acquire_many_owned(instances);
        match tokio::time::timeout_at(deadline, room).await {
            Ok(Ok(permit)) => Ok(Admission(permit)),
            Ok(Err(_)) | Err(_) => {
                Err(Failure::new(Kind::Unavailable, "all plugin instances are busy; try again later"))
            }
        }
    }
}

impl Engine {
    /// Serves one request.
    pub async fn handle(&self, scope: Scope, unit: Unit, call: &Call) -> Done<Answer> {
        let (root, limits) = (Arc::clone(&scope.root), scope.limits);
        let done = self.enter(scope, unit, self.exports.handle, (call,)).await;
        done.map(|answer| fit_to_leave(answer, &root.secrets, limits))
    }

    /// Runs what was scheduled under `key`.
    pub async fn wake(&self, scope: Scope, unit: Unit, key: &str, attempt: u32) -> Done<()> {
        self.enter(scope, unit, self.exports.wake, (key, attempt)).await
    }

    /// Brings stored data from schema `from` to the component's.
    pub async fn migrate(&self, scope: Scope, unit: Unit, from: u32) -> Done<()> {
        self.enter(scope, unit, self.exports.migrate, (from,)).await
    }

    /// Prolongs the thing behind a lease.
    pub async fn renew(&self, scope: Scope, unit: Unit, lease: &Lease, increment: u64, mount: &Mount) -> Done<Renewal> {
        self.enter(scope, unit, self.exports.renew, (lease, increment, mount)).await
    }

    /// Ends the thing behind a lease.
    pub async fn revoke(&self, scope: Scope, unit: Unit, lease: &Lease, reason: &str) -> Done<()> {
        self.enter(scope, unit, self.exports.revoke, (lease, reason)).await
    }

    /// Enters a fresh instance through one export. Only that export's types are checked: checking all of
    /// them, as generated bindings do, costs as much as the call.
    async fn enter<P, T>(&self, scope: Scope, unit: Unit, export: ComponentExportIndex, parameters: P) -> Done<T>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        T: Lift + Send + Sync + 'static,
    {
        let until = scope.deadline;
        let mut store = new_store(CallState::new(&self.sandbox, scope, Arc::clone(&self.identity), Some(unit)));
        let work = async {
            let instance = self.pre.instantiate_async(&mut store).await?;
            let function = instance.get_typed_func::<P, (Result<T, contract::Failure>,)>(&mut store, export)?;
            let (result,) = function.call_async(&mut store, parameters).await?;
            Ok(result)
        };
        let outcome = tokio::time::timeout_at(until, work).await;
        finish(store, outcome)
    }
}

impl<T> Done<T> {
    fn map<U>(self, next: impl FnOnce(T) -> Result<U, Failure>) -> Done<U> {
        Done { unit: self.unit, result: self.result.and_then(next) }
    }
}

/// A store with every limit set. Epochs do not interrupt a host call that waits, so callers bound the
/// whole call by its deadline as well.
pub(crate) fn new_store(state: CallState) -> Store<CallState> {
    let deadline = state.scope.deadline;
    let sandbox = Arc::clone(&state.sandbox);
    let mut store = Store::new(&sandbox.runtime.engine, state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(limits::HOST_CALL_FUEL_BYTES);
    store.set_max_component_handles(limits::HANDLES);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        if Instant::now() >= deadline {
            return Ok(UpdateDeadline::Interrupt);
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

type Entered<T> = Result<wasmtime::Result<Result<T, contract::Failure>>, tokio::time::error::Elapsed>;

/// Takes the unit of work back and turns whatever happened into a result.
fn finish<T>(store: Store<CallState>, outcome: Entered<T>) -> Done<T> {
    let mut state = store.into_data();
    let result = settle(&state, outcome);
    let unit = state.unit.take().unwrap_or_else(|| state.sandbox.store.begin());
    Done { unit, result }
}

/// The result of a call into a component, as a failure that may leave the process.
pub(crate) fn settle<T>(state: &CallState, outcome: Entered<T>) -> Result<T, Failure> {
    let title = state.plugin.title();
    let result = match outcome {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(refused))) => Err(scrubbed(state, &refused)),
        Ok(Err(trap)) => Err(of_trap(state, &trap)),
        Err(_) => Err(Failure::new(Kind::TimedOut, format!("{title} ran past its deadline and was stopped"))),
    };
    if state.conflict {
        return Err(Failure::new(Kind::Conflict, "another request changed the same data; try again"));
    }
    result
}

fn scrubbed(state: &CallState, refused: &contract::Failure) -> Failure {
    Failure {
        kind: Kind::of_code(&refused.code),
        message: state.scrub(&refused.message),
        retry_after: refused.retry_after,
    }
}

/// A trap, told without guest memory: its cause to the caller, its frames to the operator's log.
fn of_trap(state: &CallState, trap: &wasmtime::Error) -> Failure {
    let title = state.plugin.title();
    let frames = state.scrub(&format!("{trap:#}"));
    let pairs = [("trap".to_owned(), frames)];
    state.scope.neighbours.log(Level::Error, &title, "plugin-trapped", &pairs);
    let mebibytes = state.memory.limit >> 20;
    match trap.downcast_ref::<Trap>() {
        _ if state.memory.exhausted => Failure::internal(format!(
            "{title} ran out of its {mebibytes} MiB of memory; the request was stopped and its writes dropped"
        )),
        Some(Trap::Interrupt) => Failure::new(Kind::TimedOut, format!("{title} ran past its deadline and was stopped")),
        Some(Trap::StackOverflow) => Failure::internal(format!("{title} overflowed its stack and was stopped")),
        _ => Failure::internal(format!("{title} failed and was stopped; the server's log has the trap")),
    }
}

/// The answer within its limits, its warnings scrubbed.
fn fit_to_leave(mut answer: Answer, secrets: &SecretSet, limits: Limits) -> Result<Answer, Failure> {
    let size = match &answer.outcome {
        Outcome::Data(data) => data.len(),
        Outcome::Secret(secret) => secret.data.len().saturating_add(secret.internal.len()),
        Outcome::Raw(raw) => raw.body.len(),
        Outcome::Nothing => 0,
    };
    if size > limits.answer_bytes || answer.warnings.len() > limits::WARNINGS {
        return Err(Failure::internal("the plugin's answer is larger than its limit and was dropped"));
    }
    for warning in &mut answer.warnings {
        *warning = secrets.scrub(warning, limits::TEXT_BYTES);
    }
    Ok(answer)
}
