//! A call into a component: an instance with context, limits and deadline, entered once, then
//! dropped.
//!
//! A call ends as a [`CallOutcome`]: an answer, or a failure that names the plugin, its version and
//! the cause. A trap fails a single call; the mount goes on. If the mount reuses instances, an
//! instance that answered or refused may be kept. After a trap, or if the call was cut or dropped
//! half-way, the instance is dropped.

use crate::bindings::auth_method::exports::bulkhead::plugin::auth::AuthAnswer;
use crate::bindings::secrets_engine::bulkhead::plugin::types;
use crate::call_tree::CallTree;
use crate::closing::{CallInterruption, CallKind};
use crate::compartment::Compartment;
use crate::context::CallContext;
use crate::contract::{
    self, AnswerPayload, Call, ComponentAnswer, Context, HeldLogin, Lease, Login, Renewal,
};
use crate::grants::Grants;
use crate::host_services::HostServices;
use crate::instance::LiveInstance;
use crate::instance_cache::{InstanceCache, InstanceReuse};
use crate::limits::{self, ExceededLimit, MountLimits};
use crate::load::{ComponentExports, EntryPoint, MountablePlugin};
use crate::outcome::{self, EntryResult, StopCause, Termination};
use crate::secrets::SecretSet;
use crate::state::CallState;
use crate::structure::World;
use bulkhead_store::{Store, Unit};
use bulkhead_trace::scope;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{ComponentNamedList, Lift, Lower};

/// Permissions and deadline of a call, and the source of the instance.
#[derive(Clone)]
pub struct CallScope {
    /// The mount of the call, with the mount's limits.
    pub compartment: Arc<Compartment>,
    /// Acts that the call may do beyond the mount's storage.
    pub grants: Arc<Grants>,
    /// Source of the instance. Nested calls have fresh instances.
    pub reuse: InstanceReuse,
    /// Time at which the call is stopped.
    pub deadline: Instant,
    /// Slots that admission gave. A call may enter a database plugin only with two or more.
    pub slots: u32,
    /// Core's services for this call.
    pub services: Arc<dyn HostServices>,
    /// State that nested calls share.
    pub tree: Arc<CallTree>,
}

impl CallScope {
    /// Returns the part that imports see: imports do not see how the instance is reused.
    fn into_context(self) -> CallContext {
        let Self { compartment, grants, reuse: _, deadline, slots, services, tree } = self;
        let trace = scope::current_span();
        CallContext { compartment, grants, deadline, slots, services, tree, trace }
    }
}

/// The end of a call. The unit of work comes back; after a failure, the caller drops the unit.
pub struct CallOutcome<T> {
    /// The unit of work, with the plugin's buffered writes.
    pub unit: Unit,
    /// The answer, or the failure.
    pub result: Result<T, Failure>,
    /// The end of the component's own part, even if its answer was not fit to leave.
    pub ended: Termination,
}

impl MountablePlugin {
    /// Serves a request.
    pub fn handle<'a>(
        &'a self,
        scope: CallScope,
        unit: Unit,
        call: &'a Call,
    ) -> impl Future<Output = CallOutcome<ComponentAnswer>> + Send + 'a {
        let (tree, compartment) = (Arc::clone(&scope.tree), Arc::clone(&scope.compartment));
        tree.secrets.set_caller_words(call);
        let grants = Arc::clone(&scope.grants);
        let entered = match self.entry_point(|exports| Some(exports.handle)) {
            None => WorldCall::Neither(Box::new(unit)),
            Some(entry) if self.world() == World::AuthMethod => {
                let entry = (CallKind::Request, entry);
                WorldCall::AuthMethod(self.enter::<_, AuthAnswer>(scope, unit, entry, (call,)))
            }
            Some(entry) => {
                let entry = (CallKind::Request, entry);
                WorldCall::Engine(self.enter::<_, types::Answer>(scope, unit, entry, (call,)))
            }
        };
        async move {
            let done = match entered {
                WorldCall::Engine(entered) => entered.await.and_then(|said| Ok(said.into())),
                WorldCall::AuthMethod(entered) => entered.await.and_then(|said| Ok(said.into())),
                WorldCall::Neither(unit) => self.cannot_enter(*unit),
            };
            done.and_then(|answer| {
                let limits = compartment.limits();
                check_answer(answer, &tree.secrets, limits).map_err(|exceeded| {
                    let cause = StopCause::of(&exceeded);
                    outcome::stopped_failure(&self.identity, &cause, &grants, &compartment)
                })
            })
        }
    }

    /// Answers a request of plain HTTP, or parks the request.
    pub async fn serve(
        &self,
        scope: CallScope,
        unit: Unit,
        request: &contract::RawRequest,
    ) -> CallOutcome<contract::RawReply> {
        let Some(serve) = self.entry_point(|exports| exports.serve) else {
            return self.cannot_enter(unit);
        };
        let (compartment, grants) = (Arc::clone(&scope.compartment), Arc::clone(&scope.grants));
        let served = self.enter(scope, unit, (CallKind::Request, serve), (request,)).await;
        served.and_then(|reply: contract::RawReply| {
            let limits = compartment.limits();
            check_reply(&reply, limits).map_err(|exceeded| {
                let cause = StopCause::of(&exceeded);
                outcome::stopped_failure(&self.identity, &cause, &grants, &compartment)
            })?;
            Ok(reply)
        })
    }

    /// Runs the timer that was scheduled under `key`.
    pub async fn wake(
        &self,
        scope: CallScope,
        unit: Unit,
        context: &Context,
        key: &str,
        attempt: u32,
    ) -> CallOutcome<()> {
        let Some(wake) = self.entry_point(|exports| Some(exports.wake)) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, (CallKind::Wake, wake), (context, key, attempt)).await
    }

    /// Migrates stored data from schema `from` to the component's schema.
    pub async fn migrate(
        &self,
        scope: CallScope,
        unit: Unit,
        context: &Context,
        from: u32,
    ) -> CallOutcome<()> {
        let Some(migrate) = self.entry_point(|exports| Some(exports.migrate)) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, (CallKind::Migration, migrate), (context, from)).await
    }

    /// Renews a lease.
    pub async fn renew(
        &self,
        scope: CallScope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> CallOutcome<Renewal> {
        let Some(renew) = self.entry_point(ComponentExports::renew) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, (CallKind::Lease, renew), (context, lease, increment)).await
    }

    /// Revokes the secret of a lease.
    pub async fn revoke(
        &self,
        scope: CallScope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        reason: &str,
    ) -> CallOutcome<()> {
        let Some(revoke) = self.entry_point(ComponentExports::revoke) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, (CallKind::Lease, revoke), (context, lease, reason)).await
    }

    /// Proves again that a login is valid. Bounds the size of the answer.
    pub async fn renew_login(
        &self,
        scope: CallScope,
        unit: Unit,
        context: &Context,
        held_login: &HeldLogin,
        increment: u64,
    ) -> CallOutcome<Login> {
        let Some(renew_login) = self.entry_point(ComponentExports::renew_login) else {
            return self.cannot_enter(unit);
        };
        let (compartment, grants) = (Arc::clone(&scope.compartment), Arc::clone(&scope.grants));
        let entry = (CallKind::Request, renew_login);
        let renewed = self.enter(scope, unit, entry, (context, held_login, increment)).await;
        renewed.and_then(|login: Login| {
            let limits = compartment.limits();
            if contract::login_size(&login) <= limits.answer_bytes {
                return Ok(login);
            }
            let exceeded = ExceededLimit::size("answer", limits.answer_bytes);
            let cause = StopCause::of(&exceeded);
            Err(outcome::stopped_failure(&self.identity, &cause, &grants, &compartment))
        })
    }

    /// Returns the alias that a login would be for, without proof.
    pub async fn alias_lookahead(
        &self,
        scope: CallScope,
        unit: Unit,
        call: &Call,
    ) -> CallOutcome<Option<String>> {
        let Some(alias_lookahead) = self.entry_point(ComponentExports::alias_lookahead) else {
            return self.cannot_enter(unit);
        };
        scope.tree.secrets.set_caller_words(call);
        self.enter(scope, unit, (CallKind::Request, alias_lookahead), (call,)).await
    }

    /// Ends a call before an instance was entered: the code has no such export, or is not linked.
    fn cannot_enter<T>(&self, unit: Unit) -> CallOutcome<T> {
        let title = self.identity.title();
        let failure = match self.is_linked() {
            true => Failure::internal(format!("{title} is of a world without this call")),
            false => Failure::new(FailureKind::Unavailable, format!("{title} is not loaded yet")),
        };
        CallOutcome { unit, result: Err(failure), ended: Termination::Refused }
    }

    /// Enters an instance through one export. Only the types of that export are checked: checking
    /// all types, as generated bindings do, costs as much as the call.
    ///
    /// Scope and unit move to the heap, into the call's state, before the future exists: otherwise
    /// each enclosing future would reserve room for both.
    fn enter<'a, P, T>(
        &'a self,
        scope: CallScope,
        unit: Unit,
        entry: (CallKind, EntryPoint<'a>),
        parameters: P,
    ) -> impl Future<Output = CallOutcome<T>> + Send + 'a
    where
        P: ComponentNamedList + Lower + Send + Sync + 'a,
        T: Lift + Send + Sync + 'static,
    {
        let tree = Arc::clone(&scope.tree);
        // On the heap, because each enclosing future is moved before it runs.
        let call = Box::pin(self.call(scope, unit, entry, parameters));
        // The measured time includes freeing the guest's memory, which takes time, too.
        async move { tree.cpu_meter.measure(call).await }
    }

    fn call<'a, P, T>(
        &'a self,
        scope: CallScope,
        unit: Unit,
        (kind, entry): (CallKind, EntryPoint<'a>),
        parameters: P,
    ) -> impl Future<Output = CallOutcome<T>> + Send + 'a
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
            None => LiveInstance::new(state),
        };
        async move {
            // On the heap, because the enclosing future is moved several times before it runs.
            let work = Box::pin(async {
                let permits = &self.sandbox.resources.process.cpu_permits;
                tree.cpu_meter.admit(permits, &compartment).await;
                let instance = live.instance(entry.pre).await?;
                let function = instance.get_typed_func::<P, (Result<T, contract::Failure>,)>(
                    &mut live.store,
                    entry.export,
                )?;
                let (result,) = function.call_async(&mut live.store, parameters).await?;
                Ok(result)
            });
            let work = async {
                tokio::select! {
                    biased;
                    done = work => Ok(done),
                    cut = self.sandbox.resources.closing.wait_for_interruption(
                        (compartment.mount(), kind),
                        &tree,
                    ) => Err(cut),
                    () = tree.wait_for_abandonment() => Err(CallInterruption::Abandoned),
                }
            };
            let outcome = tokio::time::timeout_at(until, work).await;
            let outcome = outcome.unwrap_or_else(|late| Err(late.into()));
            finish(live, cache, outcome, &self.sandbox.store)
        }
    }
}

/// Either of two futures, one for each world; or the unit of a call that enters no component.
enum WorldCall<E, A> {
    Engine(E),
    AuthMethod(A),
    Neither(Box<Unit>),
}

impl<T> CallOutcome<T> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Result<U, Failure>) -> CallOutcome<U> {
        CallOutcome { unit: self.unit, result: self.result.and_then(next), ended: self.ended }
    }
}

/// Takes the unit of work back and converts the outcome into a result.
fn finish<T>(
    live: LiveInstance,
    cache: Option<Arc<InstanceCache>>,
    outcome: EntryResult<T>,
    store: &Arc<Store>,
) -> CallOutcome<T> {
    let answered = matches!(outcome, Ok(Ok(_)));
    let mut state = match cache {
        Some(cache) if answered => cache.keep(live),
        _ => live.store.into_data(),
    };
    let ended = outcome::classify_termination(&state, &outcome);
    let result = outcome::settle(&state, outcome);
    state.spans.end_call(result.is_ok());
    let unit = state.unit.take().unwrap_or_else(|| store.begin());
    CallOutcome { unit, result, ended }
}

/// Checks the answer against the limits and scrubs the warnings.
fn check_answer(
    mut answer: ComponentAnswer,
    secrets: &SecretSet,
    limits: &MountLimits,
) -> Result<ComponentAnswer, ExceededLimit> {
    let size = match &answer.outcome {
        AnswerPayload::Data(data) => data.len(),
        AnswerPayload::Secret(secret) => secret.data.len().saturating_add(secret.internal.len()),
        AnswerPayload::Raw(raw) => raw.body.len().saturating_add(raw.content_type.len()),
        AnswerPayload::Login(login) => contract::login_size(login),
        AnswerPayload::Nothing => 0,
    };
    let pairs = answer.ext.iter().flat_map(|(name, value)| [name, value]);
    let texts = answer.warnings.iter().chain(pairs);
    let size = texts.fold(size, |size, text| size.saturating_add(text.len()));
    if size > limits.answer_bytes {
        return Err(ExceededLimit::size("answer", limits.answer_bytes));
    }
    if answer.warnings.len() > limits::WARNINGS {
        return Err(ExceededLimit::count("warnings", limits::WARNINGS));
    }
    for warning in &mut answer.warnings {
        *warning = secrets.scrub_for_caller(warning, limits::TEXT_BYTES);
    }
    Ok(answer)
}

/// Checks the reply against the limits.
fn check_reply(reply: &contract::RawReply, limits: &MountLimits) -> Result<(), ExceededLimit> {
    let headers = reply.headers.iter();
    let head = headers.map(|header| header.name.len().saturating_add(header.value.len()));
    if reply.headers.len() > limits::REPLY_HEADERS {
        return Err(ExceededLimit::count("headers", limits::REPLY_HEADERS));
    }
    let pairs = reply.ext.iter().map(|(name, value)| name.len().saturating_add(value.len()));
    if head.chain(pairs).fold(0, usize::saturating_add) > limits::REPLY_HEAD_BYTES {
        return Err(ExceededLimit::size("headers", limits::REPLY_HEAD_BYTES));
    }
    if reply.body.len() > limits.answer_bytes {
        return Err(ExceededLimit::size("answer", limits.answer_bytes));
    }
    if reply.park.as_ref().is_some_and(|park| park.keys.len() > limits::PARK_KEYS) {
        return Err(ExceededLimit::count("parked keys", limits::PARK_KEYS));
    }
    Ok(())
}
