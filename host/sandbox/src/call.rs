//! One call: an instance with its context, limits and deadline, entered once, then dropped.
//!
//! A call ends as a [`Done`]: an answer, or a failure that names the plugin, its version and the
//! cause. A trap fails one call; the mount lives on. A mount that asked for it keeps the instance
//! of a call that answered; one that failed in any other way, or whose call was dropped half-way,
//! is dropped with it.

use crate::bindings::auth_method::exports::bulkhead::plugin::auth::AuthAnswer;
use crate::bindings::secrets_engine::bulkhead::plugin::types;
use crate::call_tree::CallTree;
use crate::closing::Cut;
use crate::compartment::Compartment;
use crate::context::CallContext;
use crate::contract::{self, Answer, Call, Context, HeldLogin, Lease, Login, Outcome, Renewal};
use crate::grants::Grants;
use crate::host_services::HostServices;
use crate::instance::Live;
use crate::instance_cache::{InstanceCache, Reuse};
use crate::limits::{self, Exceeded, Limits};
use crate::load::{Engine, OfWorld};
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
        tree.secrets.hear(call);
        let grants = Arc::clone(&scope.grants);
        let entered = match self.exports.of_world {
            OfWorld::SecretsEngine { .. } => {
                let export = self.exports.handle;
                OfEither::Engine(self.enter::<_, types::Answer>(scope, unit, export, (call,)))
            }
            OfWorld::AuthMethod { .. } => {
                let export = self.exports.handle;
                OfEither::AuthMethod(self.enter::<_, AuthAnswer>(scope, unit, export, (call,)))
            }
        };
        async move {
            let done = match entered {
                OfEither::Engine(entered) => entered.await.and_then(|said| Ok(said.into())),
                OfEither::AuthMethod(entered) => entered.await.and_then(|said| Ok(said.into())),
            };
            done.and_then(|answer| {
                let limits = compartment.limits();
                check_answer(answer, &tree.secrets, limits).map_err(|exceeded| {
                    outcome::stopped(&self.identity, &Cause::of(&exceeded), &grants, limits)
                })
            })
        }
    }

    /// Answers one request of plain HTTP, or says that it is to wait.
    pub async fn serve(
        &self,
        scope: Scope,
        unit: Unit,
        request: &contract::RawRequest,
    ) -> Done<contract::RawReply> {
        let Some(serve) = self.exports.serve else { return self.of_another_world(unit) };
        let (compartment, grants) = (Arc::clone(&scope.compartment), Arc::clone(&scope.grants));
        let served = self.enter(scope, unit, serve, (request,)).await;
        served.and_then(|reply: contract::RawReply| {
            let limits = compartment.limits();
            check_reply(&reply, limits).map_err(|exceeded| {
                outcome::stopped(&self.identity, &Cause::of(&exceeded), &grants, limits)
            })?;
            Ok(reply)
        })
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
        let OfWorld::SecretsEngine { renew, .. } = self.exports.of_world else {
            return self.of_another_world(unit);
        };
        self.enter(scope, unit, renew, (context, lease, increment)).await
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
        let OfWorld::SecretsEngine { revoke, .. } = self.exports.of_world else {
            return self.of_another_world(unit);
        };
        self.enter(scope, unit, revoke, (context, lease, reason)).await
    }

    /// Proves again that a login holds. What it answers is within the limits of an answer.
    pub async fn renew_login(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        held: &HeldLogin,
        increment: u64,
    ) -> Done<Login> {
        let OfWorld::AuthMethod { renew_login, .. } = self.exports.of_world else {
            return self.of_another_world(unit);
        };
        let (compartment, grants) = (Arc::clone(&scope.compartment), Arc::clone(&scope.grants));
        let renewed = self.enter(scope, unit, renew_login, (context, held, increment)).await;
        renewed.and_then(|login: Login| {
            let limits = compartment.limits();
            if contract::login_size(&login) <= limits.answer_bytes {
                return Ok(login);
            }
            let exceeded = Exceeded::size("answer", limits.answer_bytes);
            Err(outcome::stopped(&self.identity, &Cause::of(&exceeded), &grants, limits))
        })
    }

    /// Which alias a login would be for, unproven.
    pub async fn alias_lookahead(
        &self,
        scope: Scope,
        unit: Unit,
        call: &Call,
    ) -> Done<Option<String>> {
        let OfWorld::AuthMethod { alias_lookahead, .. } = self.exports.of_world else {
            return self.of_another_world(unit);
        };
        scope.tree.secrets.hear(call);
        self.enter(scope, unit, alias_lookahead, (call,)).await
    }

    /// The end of a call that no component of this world has, before anything was entered.
    fn of_another_world<T>(&self, unit: Unit) -> Done<T> {
        let message = format!("{} is of a world without this call", self.identity.title());
        Done { unit, result: Err(Failure::internal(message)), ended: Ended::Refused }
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

/// One of two futures, for an answer in the words of either world.
enum OfEither<E, A> {
    Engine(E),
    AuthMethod(A),
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
        Outcome::Login(login) => contract::login_size(login),
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
        *warning = secrets.scrub_for_caller(warning, limits::TEXT_BYTES);
    }
    Ok(answer)
}

/// The reply within its limits.
fn check_reply(reply: &contract::RawReply, limits: &Limits) -> Result<(), Exceeded> {
    let headers = reply.headers.iter();
    let head = headers.map(|header| header.name.len().saturating_add(header.value.len()));
    if reply.headers.len() > limits::REPLY_HEADERS {
        return Err(Exceeded::count("headers", limits::REPLY_HEADERS));
    }
    if head.fold(0, usize::saturating_add) > limits::REPLY_HEAD_BYTES {
        return Err(Exceeded::size("headers", limits::REPLY_HEAD_BYTES));
    }
    if reply.body.len() > limits.answer_bytes {
        return Err(Exceeded::size("answer", limits.answer_bytes));
    }
    if reply.park.as_ref().is_some_and(|park| park.keys.len() > limits::PARK_KEYS) {
        return Err(Exceeded::count("parked keys", limits::PARK_KEYS));
    }
    Ok(())
}
