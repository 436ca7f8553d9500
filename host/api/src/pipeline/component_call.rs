//! Serving a permitted request by a call of its component.

use super::answer;
use super::login_lockout::LoginAttempt;
use super::operation::operation;
use super::permitted_request::PermittedRequest;
use bulkhead_access::log::cause;
use bulkhead_access::quotas::LeaseSlot;
use bulkhead_core::Core;
use bulkhead_core::host_services::{CallServices, LeasePath};
use bulkhead_core::leases::{self, LeaseReservation};
use bulkhead_core::mounts::{Mount, MountRecord};
use bulkhead_sandbox::contract::{self, AnswerPayload, ComponentAnswer};
use bulkhead_sandbox::{
    CallOutcome, CallPriority, CallScope, CallTree, HostServices, MountLimits, SideEffect,
    SlotRequest,
};
use bulkhead_store::Unit;
use bulkhead_trace::scope::in_step;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::fields;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The deadline of a call, in both clocks.
#[derive(Clone, Copy)]
struct CallDeadline {
    instant: Instant,
    /// Milliseconds of store time.
    store_time: u64,
}

/// The outcome of a call.
struct ComponentOutcome {
    answer: Result<Response, Failure>,
    /// True if a lease is stored, or a reservation that due work must still end. After a commit
    /// with an unknown outcome the store accepts no further commits.
    leaves_leases: bool,
}

impl PermittedRequest<'_> {
    /// Serves a route of the component's table with one call, in a fresh or a reused instance.
    pub(super) async fn call_component(
        self,
        mount: &Arc<Mount>,
        unit: Unit,
        effect: &mut SideEffect,
    ) -> Result<Response, Failure> {
        if self.route.leases {
            self.known_caller()?.may_hold_leases()?;
        }
        self.count(mount)?;
        self.give_way(&unit)?;
        let place = self.place_for_a_lease(mount).await?;
        let entered = self.enter_component(mount, unit, effect).await;
        let leaves_leases = entered.as_ref().is_ok_and(|settled| settled.leaves_leases);
        if let Some(place) = place.filter(|_| !leaves_leases) {
            place.give_back();
        }
        entered?.answer
    }

    /// Calls the component.
    ///
    /// # Errors
    /// The reason if the component was not entered.
    async fn enter_component(
        &self,
        mount: &Arc<Mount>,
        unit: Unit,
        effect: &mut SideEffect,
    ) -> Result<ComponentOutcome, Failure> {
        self.core.load_plugin(mount).await?;
        let pass = mount.may_call()?;
        let deadline = self.deadline(mount);
        let slots = if self.route.nested { 2 } else { 1 };
        let wanted = SlotRequest {
            compartment: &mount.compartment,
            slots,
            priority: CallPriority::Foreground,
            caller: Some(Client::of(self.request.remote)),
            deadline: deadline.instant,
        };
        let _admission = self.core.sandbox.admit(wanted).await?;
        let leases = self.route.leases.then(|| self.lease_path(deadline));
        let lease_path = leases.transpose()?;
        let services =
            CallServices::new(self.core, mount, lease_path, self.entity_context.entity_id());
        let tree = self.call_tree();
        let opened = self.core.mounts.open(mount, &self.permit);
        let scope = CallScope {
            compartment: opened.compartment,
            grants: opened.grants,
            reuse: opened.reuse,
            deadline: deadline.instant,
            slots,
            services: Arc::clone(&services) as Arc<dyn HostServices>,
            tree: Arc::clone(&tree),
        };
        let call = self.contract_call(mount, deadline)?;
        let engine = opened.engine;
        let login = LoginAttempt::of(self, mount, engine, &scope);
        if let Some(login) = &login {
            Box::pin(login.refuse_locked(&call)).await?;
        }
        let mut done = engine.handle(scope, unit, &call).await;
        mount.note_end(&*self.core.log, pass, done.ended);
        if let Some(login) = &login {
            done.result = Box::pin(login.count_result(&call, done.result)).await;
        }
        *effect = tree.effect();
        if *effect == SideEffect::Effect {
            done.unit.mark_effectful();
        }
        // On the heap: the future of a call is moved several times before the call begins.
        let settled = Box::pin(self.settle(mount, done, services.take_reserved(), deadline)).await;
        services.release_guards().await;
        Ok(settled)
    }

    /// Reserves a place in the mount's lease quota, if the route can make a lease.
    async fn place_for_a_lease(&self, mount: &Mount) -> Result<Option<LeaseSlot>, Failure> {
        if !self.route.leases {
            return Ok(None);
        }
        let MountRecord { uuid, .. } = &mount.record;
        let below = mount.record.below(&self.request.path);
        self.core.quotas.admit(&self.core.store, uuid, below).await
    }

    /// Commits the component's answer and builds the response. Reservations that the commit did not
    /// confirm are undone.
    async fn settle(
        &self,
        mount: &Arc<Mount>,
        done: CallOutcome<ComponentAnswer>,
        mut reserved: Vec<LeaseReservation>,
        deadline: CallDeadline,
    ) -> ComponentOutcome {
        let checkpointed = done.unit.checkpoints() > 0;
        let (answer, is_lease) = match done.result {
            Ok(answered) => {
                let is_secret = matches!(answered.outcome, AnswerPayload::Secret(_));
                let confirmed = answer::confirmed_tag(&answered).map(str::to_owned);
                let ends = deadline.store_time;
                let commit = answer::commit(self, mount, done.unit, answered, &reserved, ends);
                let answer = in_step("commit", commit).await;
                reserved.retain(|one| answer.is_err() || confirmed.as_deref() != Some(one.tag()));
                let is_lease = is_secret && answer.is_ok();
                (answer, is_lease)
            }
            Err(failure) => (Err(failure), false),
        };
        let mut leaves_leases = is_lease;
        if checkpointed && !reserved.is_empty() {
            leaves_leases |= !Box::pin(undo_unconfirmed(self.core, &reserved)).await;
        }
        ComponentOutcome { answer, leaves_leases }
    }

    /// Begins the tree of calls. The tree knows the secret fields of the request.
    pub(super) fn call_tree(&self) -> Arc<CallTree> {
        let tree = Arc::new(CallTree::of(Client::of(self.request.remote)));
        for secret in fields::secrets(&self.route.fields, &self.folded.values) {
            tree.secrets.add_sensitive_field(secret);
        }
        tree
    }

    /// Returns the deadline of the call, counted from the first attempt at its request.
    fn deadline(&self, mount: &Mount) -> CallDeadline {
        let time = self.time_limit(mount);
        let instant = self.began + time;
        let left = instant.saturating_duration_since(Instant::now());
        let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        CallDeadline { instant, store_time: self.core.store.now().saturating_add(milliseconds) }
    }

    /// Returns the time limit of the call: the limit of the route or else of the server, capped by
    /// the limit of the mount.
    fn time_limit(&self, mount: &Mount) -> Duration {
        let usual = self.core.process.settings.request_timeout;
        let time =
            if self.route.deadline == 0 { usual } else { Duration::from_secs(self.route.deadline) };
        // The author of a plugin sets the route's limit, and may set any number.
        [mount.compartment.limits().deadline, MountLimits::CEILING.deadline]
            .into_iter()
            .flatten()
            .fold(time, Duration::min)
    }

    fn lease_path(&self, deadline: CallDeadline) -> Result<LeasePath, Failure> {
        let (path, caller) = (self.request.path.clone(), self.known_caller()?.clone());
        Ok(LeasePath { path, caller, deadline: deadline.store_time })
    }

    /// Returns the call in the types of the contract.
    fn contract_call(
        &self,
        mount: &Mount,
        deadline: CallDeadline,
    ) -> Result<contract::Call, Failure> {
        let now = self.core.store.now();
        let left = self.caller.and_then(|caller| caller.record.remaining_seconds(now));
        Ok(contract::Call {
            id: self.request.id.clone(),
            operation: operation(self.request.verb, self.creates).word().to_owned(),
            route: self.route.path.clone(),
            captures: self.destination.captures.clone(),
            fields: object_text(&self.folded.values)?,
            deadline: deadline.store_time,
            caller: self.contract_caller(mount),
            mount: mount.for_plugin(self.core.lifetimes, left),
            ext: Vec::new(),
        })
    }

    /// Returns the caller as seen by the plugin. The id identifies the token on this mount only,
    /// and is empty without a token.
    fn contract_caller(&self, mount: &Mount) -> contract::Caller {
        let hash = self.caller.map(|caller| {
            let named = format!("{} {}", mount.record.uuid, caller.hash);
            self.core.store.keyed_hash("caller", named.as_bytes())
        });
        let display_name = self.caller.map(|caller| caller.record.display_name.clone());
        contract::Caller {
            entity: self.entity_context.entity_id().to_owned(),
            display_name: display_name.unwrap_or_default(),
            id: hash.unwrap_or_default(),
            capabilities: self.permit.capabilities().to_vec(),
            remote_address: self.request.remote.to_string(),
            ext: Vec::new(),
        }
    }
}

/// Lets due work undo the reservations that a call did not confirm; a confirmed reservation no
/// longer exists. Returns true if all reservations were withdrawn, so that nothing is left to undo.
async fn undo_unconfirmed(core: &Core, reserved: &[LeaseReservation]) -> bool {
    if let Err(failure) = leases::undo_reservations(&core.store, reserved).await {
        // Nothing is lost: the reservation is due by itself, a minute after its call's deadline.
        core.log.line(LogLevel::Warn, "undo-delayed", &[cause(&failure)]);
        return false;
    }
    reserved.iter().all(LeaseReservation::is_withdrawn)
}

/// Returns an object as JSON text.
fn object_text(values: &Map<String, Value>) -> Result<String, Failure> {
    serde_json::to_string(values).map_err(|error| Failure::internal(error.to_string()))
}
