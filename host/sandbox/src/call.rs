//! One call: an instance with its context, limits and deadline, entered once, then dropped.
//!
//! A call ends as a [`Done`]: an answer, or a failure that names the plugin, its version and the
//! cause. A trap fails one call; the mount lives on. A mount that asked for it keeps the instance
//! of a call that answered; one that failed in any other way, or whose call was dropped half-way,
//! is dropped with it.

use crate::call_tree::CallTree;
use crate::closing::Cut;
use crate::compartment::Compartment;
use crate::context::CallContext;
use crate::contract::{self, Answer, Call, Context, Lease, Outcome, Renewal};
use crate::grants::Grants;
use crate::host_services::HostServices;
use crate::instance::Live;
use crate::instance_cache::{InstanceCache, Reuse};
use crate::limits::{self, Exceeded, Limits};
use crate::load::Engine;
use crate::outcome::{self, Cause, Ended, Entered};
use crate::secrets::SecretSet;
use crate::state::CallState;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Lift, Lower};

/// What one call may use, until when, and where its instance comes from.
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
    /// Slots that admission gave: a database plugin may be entered from two on.
    pub slots: u32,
    /// Core, as this call sees it.
    pub services: Arc<dyn HostServices>,
    /// Shared with nested calls.
    pub tree: Arc<CallTree>,
}

impl Scope {
    /// What its imports see: how the instance is reused is no matter of theirs.
    fn into_context(self) -> CallContext {
        let Self { compartment, grants, reuse: _, deadline, slots, services, tree } = self;
        CallContext { compartment, grants, deadline, slots, services, tree }
    }
}

/// How a call ended. The unit of work comes back in either case; after a failure it is to be
/// dropped.
pub struct Done<T> {
    /// With what the plugin buffered.
    pub unit: Unit,
    /// The answer, or why there is none.
    pub result: Result<T, Failure>,
    /// What the component itself did, also where its answer was not fit to leave.
    pub ended: Ended,
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
            entered.await.and_then(|answer| {
                let limits = compartment.limits();
                check_answer(answer, &tree.secrets, limits).map_err(|exceeded| {
                    outcome::stopped(&self.identity, &Cause::of(&exceeded), &grants, limits)
                })
            })
        }
    }

    /// Runs what was scheduled under `key`.
    pub async fn wake(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        key: &str,
        attempt: u32,
    ) -> Done<()> {
        self.enter(scope, unit, self.exports.wake, (context, key, attempt)).await
    }

    /// Brings stored data from schema `from` to the component's.
    pub async fn migrate(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        from: u32,
    ) -> Done<()> {
        self.enter(scope, unit, self.exports.migrate, (context, from)).await
    }

    /// Prolongs the thing behind a lease.
    pub async fn renew(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> Done<Renewal> {
        self.enter(scope, unit, self.exports.renew, (context, lease, increment)).await
    }

    /// Ends the thing behind a lease.
    pub async fn revoke(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        reason: &str,
    ) -> Done<()> {
        self.enter(scope, unit, self.exports.revoke, (context, lease, reason)).await
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
        async move { tree.cpu_meter.measure(call).await }
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
        let cache = scope.reuse.cache(&self.identity, compartment.mount());
        let (context, identity) = (scope.into_context(), Arc::clone(&self.identity));
        let state = CallState::new(&self.sandbox.resources, context, identity, Some(unit));
        let mut live = match cache.as_ref().and_then(|cache| cache.take()) {
            Some(live) => live.begin(state),
            None => Live::new(state),
        };
        async move {
            // On the heap: what holds this future is moved several times before it runs.
            let work = Box::pin(async {
                let permits = &self.sandbox.resources.process.cpu_permits;
                tree.cpu_meter.admit(permits, &compartment).await;
                let instance = live.instance(&self.pre).await?;
                let function = instance.get_typed_func::<P, (Result<T, contract::Failure>,)>(
                    &mut live.store,
                    export,
                )?;
                let (result,) = function.call_async(&mut live.store, parameters).await?;
                Ok(result)
            });
            let work = async {
                tokio::select! {
                    biased;
                    done = work => Ok(done),
                    () = self.sandbox.resources.closing.cut(&tree) => Err(Cut::Sealed),
                }
            };
            let outcome = tokio::time::timeout_at(until, work).await;
            let outcome = outcome.unwrap_or_else(|late| Err(late.into()));
            finish(live, cache, outcome)
        }
    }
}

impl<T> Done<T> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Result<U, Failure>) -> Done<U> {
        Done { unit: self.unit, result: self.result.and_then(next), ended: self.ended }
    }
}

/// Takes the unit of work back and turns what happened into a result.
fn finish<T>(live: Live, cache: Option<Arc<InstanceCache>>, outcome: Entered<T>) -> Done<T> {
    let answered = matches!(outcome, Ok(Ok(_)));
    let mut state = match cache {
        Some(cache) if answered => cache.keep(live),
        _ => live.store.into_data(),
    };
    let ended = outcome::how_it_ended(&state, &outcome);
    let result = outcome::settle(&state, outcome);
    let unit = state.unit.take().unwrap_or_else(|| state.resources.store.begin());
    Done { unit, result, ended }
}

/// The answer within its limits, its warnings scrubbed.
fn check_answer(
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
