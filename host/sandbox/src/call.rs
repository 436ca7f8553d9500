//! A call into a component: an instance with context, limits and deadline, entered once, then
//! dropped.
//!
//! A call ends as a [`Done`]: an answer, or a failure that names the plugin, its version and the
//! cause. A trap fails a single call; the mount goes on. If the mount reuses instances, an instance
//! that answered or refused may be kept. After a trap, or if the call was cut or dropped half-way,
//! the instance is dropped.

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
use crate::load::{Engine, EntryPoint, Exports};
use crate::outcome::{self, Cause, Ended, Entered};
use crate::secrets::SecretSet;
use crate::state::CallState;
use crate::structure::World;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{ComponentNamedList, Lift, Lower};

/// Permissions and deadline of a call, and the source of the instance.
#[derive(Clone)]
pub struct Scope {
    /// The mount of the call, with the mount's limits.
    pub compartment: Arc<Compartment>,
    /// Acts that the call may do beyond the mount's storage.
    pub grants: Arc<Grants>,
    /// Source of the instance. Nested calls have fresh instances.
    pub reuse: Reuse,
    /// Time at which the call is stopped.
    pub deadline: Instant,
    /// Slots that admission gave. A call may enter a database plugin only with two or more.
    pub slots: u32,
    /// Core's services for this call.
    pub services: Arc<dyn HostServices>,
    /// State that nested calls share.
    pub tree: Arc<CallTree>,
}

impl Scope {
    /// Returns the part that imports see: imports do not see how the instance is reused.
    fn into_context(self) -> CallContext {
        let Self { compartment, grants, reuse: _, deadline, slots, services, tree } = self;
        CallContext { compartment, grants, deadline, slots, services, tree }
    }
}

/// The end of a call. The unit of work comes back in either case; after a failure, the caller drops
/// the unit.
pub struct Done<T> {
    /// The unit of work, with the plugin's buffered writes.
    pub unit: Unit,
    /// The answer, or the failure.
    pub result: Result<T, Failure>,
    /// The end of the component's own part, even if its answer was not fit to leave.
    pub ended: Ended,
}

impl Engine {
    /// Serves a request.
    pub fn handle<'a>(
        &'a self,
        scope: Scope,
        unit: Unit,
        call: &'a Call,
    ) -> impl Future<Output = Done<Answer>> + Send + 'a {
        let (tree, compartment) = (Arc::clone(&scope.tree), Arc::clone(&scope.compartment));
        tree.secrets.hear(call);
        let grants = Arc::clone(&scope.grants);
        let entered = match self.entry_point(|exports| Some(exports.handle)) {
            None => OfEither::Neither(Box::new(unit)),
            Some(entry) if self.world() == World::AuthMethod => {
                OfEither::AuthMethod(self.enter::<_, AuthAnswer>(scope, unit, entry, (call,)))
            }
            Some(entry) => {
                OfEither::Engine(self.enter::<_, types::Answer>(scope, unit, entry, (call,)))
            }
        };
        async move {
            let done = match entered {
                OfEither::Engine(entered) => entered.await.and_then(|said| Ok(said.into())),
                OfEither::AuthMethod(entered) => entered.await.and_then(|said| Ok(said.into())),
                OfEither::Neither(unit) => self.cannot_enter(*unit),
            };
            done.and_then(|answer| {
                let limits = compartment.limits();
                check_answer(answer, &tree.secrets, limits).map_err(|exceeded| {
                    outcome::stopped(&self.identity, &Cause::of(&exceeded), &grants, limits)
                })
            })
        }
    }

    /// Answers a request of plain HTTP, or parks the request.
    pub async fn serve(
        &self,
        scope: Scope,
        unit: Unit,
        request: &contract::RawRequest,
    ) -> Done<contract::RawReply> {
        let Some(serve) = self.entry_point(|exports| exports.serve) else {
            return self.cannot_enter(unit);
        };
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

    /// Runs the timer that was scheduled under `key`.
    pub async fn wake(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        key: &str,
        attempt: u32,
    ) -> Done<()> {
        let Some(wake) = self.entry_point(|exports| Some(exports.wake)) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, wake, (context, key, attempt)).await
    }

    /// Migrates stored data from schema `from` to the component's schema.
    pub async fn migrate(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        from: u32,
    ) -> Done<()> {
        let Some(migrate) = self.entry_point(|exports| Some(exports.migrate)) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, migrate, (context, from)).await
    }

    /// Renews a lease.
    pub async fn renew(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        increment: u64,
    ) -> Done<Renewal> {
        let Some(renew) = self.entry_point(Exports::renew) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, renew, (context, lease, increment)).await
    }

    /// Revokes the secret of a lease.
    pub async fn revoke(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        lease: &Lease,
        reason: &str,
    ) -> Done<()> {
        let Some(revoke) = self.entry_point(Exports::revoke) else {
            return self.cannot_enter(unit);
        };
        self.enter(scope, unit, revoke, (context, lease, reason)).await
    }

    /// Proves again that a login is valid. Bounds the size of the answer.
    pub async fn renew_login(
        &self,
        scope: Scope,
        unit: Unit,
        context: &Context,
        held: &HeldLogin,
        increment: u64,
    ) -> Done<Login> {
        let Some(renew_login) = self.entry_point(Exports::renew_login) else {
            return self.cannot_enter(unit);
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

    /// Returns the alias that a login would be for, without proof.
    pub async fn alias_lookahead(
        &self,
        scope: Scope,
        unit: Unit,
        call: &Call,
    ) -> Done<Option<String>> {
        let Some(alias_lookahead) = self.entry_point(Exports::alias_lookahead) else {
            return self.cannot_enter(unit);
        };
        scope.tree.secrets.hear(call);
        self.enter(scope, unit, alias_lookahead, (call,)).await
    }

    /// Ends a call before an instance was entered: components of this world do not serve it, or
    /// the code is not linked.
    fn cannot_enter<T>(&self, unit: Unit) -> Done<T> {
        let title = self.identity.title();
        let failure = match self.is_linked() {
            true => Failure::internal(format!("{title} is of a world without this call")),
            false => Failure::new(Kind::Unavailable, format!("{title} is not loaded yet")),
        };
        Done { unit, result: Err(failure), ended: Ended::Refused }
    }

    /// Enters an instance through one export. Only the types of that export are checked: checking
    /// all types, as generated bindings do, costs as much as the call.
    ///
    /// Scope and unit move to the heap, into the call's state, before the future exists: otherwise
    /// each enclosing future would reserve room for both.
    fn enter<'a, P, T>(
        &'a self,
        scope: Scope,
        unit: Unit,
        entry: EntryPoint<'a>,
        parameters: P,
    ) -> impl Future<Output = Done<T>> + Send + 'a
    where
        P: ComponentNamedList + Lower + Send + Sync + 'a,
        T: Lift + Send + Sync + 'static,
    {
        let tree = Arc::clone(&scope.tree);
        let call = self.call(scope, unit, entry, parameters);
        // The measured time includes the work after the guest's last instruction: freeing much
        // memory takes time, too.
        async move { tree.cpu_meter.measure(call).await }
    }

    fn call<'a, P, T>(
        &'a self,
        scope: Scope,
        unit: Unit,
        entry: EntryPoint<'a>,
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
                    () = self.sandbox.resources.closing.cut(&tree) => Err(Cut::Sealed),
                }
            };
            let outcome = tokio::time::timeout_at(until, work).await;
            let outcome = outcome.unwrap_or_else(|late| Err(late.into()));
            finish(live, cache, outcome)
        }
    }
}

/// Either of two futures, because the two worlds have different answer types; or the unit of a call
/// that enters no component.
enum OfEither<E, A> {
    Engine(E),
    AuthMethod(A),
    Neither(Box<Unit>),
}

impl<T> Done<T> {
    fn and_then<U>(self, next: impl FnOnce(T) -> Result<U, Failure>) -> Done<U> {
        Done { unit: self.unit, result: self.result.and_then(next), ended: self.ended }
    }
}

/// Takes the unit of work back and converts the outcome into a result.
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

/// Checks the answer against the limits and scrubs the warnings.
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
    let pairs = answer.ext.iter().flat_map(|(name, value)| [name, value]);
    let texts = answer.warnings.iter().chain(pairs);
    let size = texts.fold(size, |size, text| size.saturating_add(text.len()));
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

/// Checks the reply against the limits.
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
