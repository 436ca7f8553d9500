//! One call: an instance with its scope, limits and deadline, entered once, then dropped.
//!
//! Whatever the guest does ends here as a [`Done`]: an answer, or a failure that names the plugin,
//! its version and the cause. A trap fails one call; the mount lives on. A mount that asked for it
//! keeps the instance of a call that answered; one that failed in any other way, or whose call was
//! dropped half-way, is dropped with it.

use crate::bindings::contract::{self, Answer, Call, Lease, Mount, Outcome, Renewal};
use crate::compartment::Compartment;
use crate::component::{Engine, Identity};
use crate::cpu_permits::Turn;
use crate::grants::Grants;
use crate::host_services::{HostServices, Level};
use crate::instance::Live;
use crate::instance_cache::{InstanceShelf, Reuse};
use crate::limits::{self, Exceeded, Limits};
use crate::secrets::SecretSet;
use crate::state::{CallState, Ungranted};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::Trap;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Lift, Lower, ResourceTableError,
};

/// What one call may use, and until when. Cheap to clone: a nested call gets one of its own.
#[derive(Clone)]
pub struct Scope {
    /// The mount that it is for, with its limits.
    pub compartment: Arc<Compartment>,
    /// What it may do beyond its own storage.
    pub grants: Arc<Grants>,
    /// Where its instance comes from. Nested calls have fresh ones.
    pub reuse: Reuse,
    /// When it is stopped.
    pub deadline: Instant,
    /// Places that admission gave: a database plugin may be entered from two on.
    pub places: u32,
    /// Core, as this call sees it.
    pub services: Arc<dyn HostServices>,
    /// Shared with nested calls.
    pub tree: Arc<CallTree>,
}

impl Scope {
    /// Time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What a root call and its nested calls share.
#[derive(Default)]
pub struct CallTree {
    /// Never in a text that leaves.
    pub secrets: SecretSet,
    effect: AtomicU8,
    host_calls: AtomicU32,
    held: AtomicUsize,
    written: AtomicUsize,
    http_calls: AtomicU32,
    http_bytes: AtomicUsize,
    pub(crate) turn: Turn,
}

impl CallTree {
    /// Counts a host call. Returns how many there were.
    pub(crate) fn count_host_call(&self) -> u32 {
        self.host_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that the host holds. Returns how many it does.
    pub(crate) fn hold(&self, bytes: usize) -> usize {
        self.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts bytes that the call writes. Returns how many there were.
    pub(crate) fn write(&self, bytes: usize) -> usize {
        self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts an HTTP request. Returns how many there were.
    pub(crate) fn count_http_call(&self) -> u32 {
        self.http_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that HTTP requests sent or received. Returns how many there were.
    pub(crate) fn count_http_bytes(&self, bytes: usize) -> usize {
        self.http_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

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

/// How a call ended. The unit of work comes back in either case; after a failure it is to be
/// dropped.
pub struct Done<T> {
    /// With what the plugin buffered.
    pub unit: Unit,
    /// The answer, or why there is none.
    pub result: Result<T, Failure>,
    /// What the component itself did, whatever became of its answer.
    pub ended: Ended,
}

/// How a component left a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It answered.
    Answered,
    /// It refused, in its own words.
    Refused,
    /// It crashed: it trapped, went over a limit, never ended by itself, or answered what cannot be
    /// read.
    Trapped,
    /// The call ended while the host was at work for it, or for want of what all components share.
    Late,
}

impl Engine {
    /// Serves one request.
    pub fn handle<'a>(
        &'a self,
        scope: Scope,
        unit: Unit,
        call: &'a Call,
    ) -> impl Future<Output = Done<Answer>> + Send + 'a {
        let (tree, compartment) = (Arc::clone(&scope.tree), Arc::clone(&scope.compartment));
        let grants = Arc::clone(&scope.grants);
        let entered = self.enter(scope, unit, self.exports.handle, (call,));
        async move {
            entered.await.map(|answer| {
                let limits = compartment.limits();
                fit_to_leave(answer, &tree.secrets, limits).map_err(|exceeded| {
                    stopped(&self.identity, &Cause::of(&exceeded), &grants, limits)
                })
            })
        }
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
    pub async fn renew(
        &self,
        scope: Scope,
        unit: Unit,
        lease: &Lease,
        increment: u64,
        mount: &Mount,
    ) -> Done<Renewal> {
        self.enter(scope, unit, self.exports.renew, (lease, increment, mount)).await
    }

    /// Ends the thing behind a lease.
    pub async fn revoke(&self, scope: Scope, unit: Unit, lease: &Lease, reason: &str) -> Done<()> {
        self.enter(scope, unit, self.exports.revoke, (lease, reason)).await
    }

    /// Enters an instance through one export. Only that export's types are checked: checking all of
    /// them, as generated bindings do, costs as much as the call.
    ///
    /// Scope and unit move to the heap, where the call's state is, before there is a future: each
    /// future around it would have room for them once more.
    fn enter<'a, P, T>(
        &'a self,
        scope: Scope,
        unit: Unit,
        export: ComponentExportIndex,
        parameters: P,
    ) -> impl Future<Output = Done<T>> + Send + 'a
    where
        P: ComponentNamedList + Lower + Send + Sync + 'a,
        T: Lift + Send + Sync + 'static,
    {
        let tree = Arc::clone(&scope.tree);
        let call = self.call(scope, unit, export, parameters);
        // With what follows the guest's last instruction: to give back much memory takes time as
        // well.
        async move { tree.turn.counted(call).await }
    }

    fn call<'a, P, T>(
        &'a self,
        scope: Scope,
        unit: Unit,
        export: ComponentExportIndex,
        parameters: P,
    ) -> impl Future<Output = Done<T>> + Send + 'a
    where
        P: ComponentNamedList + Lower + Send + Sync + 'a,
        T: Lift + Send + Sync + 'static,
    {
        let (until, tree, compartment) =
            (scope.deadline, Arc::clone(&scope.tree), Arc::clone(&scope.compartment));
        let shelf = scope.reuse.shelf(&self.identity, scope.compartment.mount());
        let state = CallState::new(&self.sandbox, scope, Arc::clone(&self.identity), Some(unit));
        let mut live = match shelf.as_ref().and_then(|shelf| shelf.take()) {
            Some(live) => live.entered_by(state),
            None => Live::new(state),
        };
        async move {
            // On the heap: what holds this future is moved several times before it runs.
            let work = Box::pin(async {
                tree.turn.begin(&self.sandbox.runtime.cpu_permits, &compartment).await;
                let instance = live.instance(&self.pre).await?;
                let function = instance.get_typed_func::<P, (Result<T, contract::Failure>,)>(
                    &mut live.store,
                    export,
                )?;
                let (result,) = function.call_async(&mut live.store, parameters).await?;
                Ok(result)
            });
            let outcome = tokio::time::timeout_at(until, work).await;
            finish(live, shelf, outcome)
        }
    }
}

impl<T> Done<T> {
    fn map<U>(self, next: impl FnOnce(T) -> Result<U, Failure>) -> Done<U> {
        Done { unit: self.unit, result: self.result.and_then(next), ended: self.ended }
    }
}

type Entered<T> =
    Result<wasmtime::Result<Result<T, contract::Failure>>, tokio::time::error::Elapsed>;

/// Takes the unit of work back and turns whatever happened into a result.
fn finish<T>(live: Live, shelf: Option<Arc<InstanceShelf>>, outcome: Entered<T>) -> Done<T> {
    let answered = matches!(outcome, Ok(Ok(_)));
    let mut state = match shelf {
        Some(shelf) if answered => shelf.keep(live),
        _ => live.store.into_data(),
    };
    let ended = ended(&state, &outcome);
    let result = settle(&state, outcome);
    let unit = state.unit.take().unwrap_or_else(|| state.sandbox.store.begin());
    Done { unit, result, ended }
}

fn ended<T>(state: &CallState, outcome: &Entered<T>) -> Ended {
    let is_interrupted =
        |trap: &wasmtime::Error| matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt));
    match outcome {
        Ok(Ok(Ok(_))) => Ended::Answered,
        Ok(Ok(Err(_))) => Ended::Refused,
        Ok(Err(_)) if state.memory.starved => Ended::Late,
        Ok(Err(trap)) if !is_interrupted(trap) => Ended::Trapped,
        // Its time is over: who took it?
        Ok(Err(_)) | Err(_) if state.is_computing => Ended::Trapped,
        Ok(Err(_)) | Err(_) => Ended::Late,
    }
}

/// The result of a call into a component, as a failure that may leave the process.
pub(crate) fn settle<T>(state: &CallState, outcome: Entered<T>) -> Result<T, Failure> {
    let result = match outcome {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(refused))) => Err(scrubbed(state, &refused)),
        Ok(Err(trap)) => Err(of_trap(state, &trap)),
        Err(_) => Err(ran_late(state)),
    };
    if state.conflict {
        return Err(Failure::new(
            Kind::Conflict,
            "another request changed the same data; try again",
        ));
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
    state.scope.services.log(Level::Error, &title, "plugin-trapped", &pairs);
    if state.memory.starved {
        let message =
            format!("{title} was stopped: the memory for plugins is used up; try again later");
        return Failure::new(Kind::Unavailable, message);
    }
    if matches!(trap.downcast_ref::<Trap>(), Some(Trap::Interrupt)) {
        return ran_late(state);
    }
    stopped(&state.plugin, &cause(state, trap), &state.scope.grants, state.limits())
}

/// What a component did, as its operator and its author call it.
struct Cause {
    words: String,
    /// The limit that it met, as a grant words it.
    limit: Option<&'static str>,
}

impl Cause {
    fn of(exceeded: &Exceeded) -> Self {
        Self { words: format!("went over its {exceeded}"), limit: Some(exceeded.word) }
    }
}

fn cause(state: &CallState, trap: &wasmtime::Error) -> Cause {
    if let Some(exceeded) = trap.downcast_ref::<Exceeded>() {
        return Cause::of(exceeded);
    }
    if state.memory.exhausted {
        let words = format!("ran out of its {} MiB of memory", state.memory.limit >> 20);
        return Cause { words, limit: Some("memory") };
    }
    if matches!(trap.downcast_ref(), Some(ResourceTableError::Full)) {
        let words = format!("holds more than its {} handles", state.limits().handles);
        return Cause { words, limit: Some("handles") };
    }
    Cause { words: own_fault(trap), limit: None }
}

/// What a component did that no limit bounds.
fn own_fault(trap: &wasmtime::Error) -> String {
    if trap.downcast_ref::<std::str::Utf8Error>().is_some() {
        return "answered text that is not UTF-8".to_owned();
    }
    if let Some(ungranted) = trap.downcast_ref::<Ungranted>() {
        return format!("called an import without its grant: {ungranted}");
    }
    match trap.downcast_ref() {
        Some(Trap::StackOverflow) => "overflowed its stack".to_owned(),
        Some(Trap::UnreachableCodeReached) => "panicked, or ended itself in another way".to_owned(),
        // A stack that the guest keeps in its memory ends where its memory begins.
        Some(Trap::MemoryOutOfBounds) => {
            "reached outside its memory, as where its stack overflows".to_owned()
        }
        Some(trap) => format!("failed with {:?}", trap.to_string()),
        // Its type is not public.
        None if format!("{trap:#}").contains("fuel allocated for hostcalls") => {
            format!("handed over more than {} MiB at once", limits::HOST_CALL_FUEL_BYTES >> 20)
        }
        None => "failed; the server's log says how".to_owned(),
    }
}

/// A call that was stopped for that cause, with the line that raises the limit where there is one.
fn stopped(plugin: &Identity, cause: &Cause, grants: &Grants, limits: &Limits) -> Failure {
    let raised =
        cause.limit.and_then(|limit| limits.raised(limit)).and_then(|line| grants.command(&line));
    let more = raised.map(|command| format!("; to allow more: {command}")).unwrap_or_default();
    let (title, words) = (plugin.title(), &cause.words);
    Failure::internal(format!(
        "{title} {words}; the request was stopped and its writes dropped{more}"
    ))
}

fn ran_late(state: &CallState) -> Failure {
    let title = state.plugin.title();
    Failure::new(Kind::TimedOut, format!("{title} ran past its deadline and was stopped"))
}

/// The answer within its limits, its warnings scrubbed.
fn fit_to_leave(
    mut answer: Answer,
    secrets: &SecretSet,
    limits: &Limits,
) -> Result<Answer, Exceeded> {
    let size = match &answer.outcome {
        Outcome::Data(data) => data.len(),
        Outcome::Secret(secret) => secret.data.len().saturating_add(secret.internal.len()),
        Outcome::Raw(raw) => raw.body.len().saturating_add(raw.content_type.len()),
        Outcome::Nothing => 0,
    };
    let size =
        answer.warnings.iter().fold(size, |size, warning| size.saturating_add(warning.len()));
    if size > limits.answer_bytes {
        return Err(Exceeded::size("answer", limits.answer_bytes));
    }
    if answer.warnings.len() > limits::WARNINGS {
        return Err(Exceeded::count("warnings", limits::WARNINGS));
    }
    for warning in &mut answer.warnings {
        *warning = secrets.scrub(warning, limits::TEXT_BYTES);
    }
    Ok(answer)
}
