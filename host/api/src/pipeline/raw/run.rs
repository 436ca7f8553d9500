//! A run of a component for a request of plain HTTP.
//!
//! This file prevents a request from running after the client has gone: a run that has changed
//! nothing ends with the client, and a run waiting for an instance gives up its turn.

use super::exchange::{handed_on, named_caller};
use bulkhead_audit::subject::ComponentCaller;
use bulkhead_core::Core;
use bulkhead_core::host_services::CallServices;
use bulkhead_core::lifecycle::CallAttempts;
use bulkhead_core::mounts::Mount;
use bulkhead_core::permit::Permit;
use bulkhead_sandbox::contract::{RawHeader, RawReply, RawRequest as ContractRequest};
use bulkhead_sandbox::{
    CallPriority, CallScope, CallTree, CallerPresence, HostServices, MountLimits, SideEffect,
    SlotPermit, SlotRequest,
};
use bulkhead_store::QueueTicket;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::raw::RawRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The reason for a run, as the contract words it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunReason {
    /// The component tells whether it knows the caller; the body has not been received.
    Identify,
    First,
    Changed,
    Elapsed,
}

impl RunReason {
    fn word(self) -> &'static str {
        match self {
            Self::Identify => "identify",
            Self::First => "first",
            Self::Changed => "changed",
            Self::Elapsed => "elapsed",
        }
    }
}

/// A run to be made.
pub(super) struct PlannedRun<'a> {
    pub(super) core: &'a Arc<Core>,
    /// The mount. Path and version may have changed since the request came.
    pub(super) uuid: &'a str,
    pub(super) request: &'a RawRequest,
    pub(super) reason: RunReason,
    /// The client that waits for the run.
    pub(super) presence: &'a CallerPresence,
}

/// A run that the component answered.
pub(super) struct CompletedRun {
    pub(super) mount: Arc<Mount>,
    pub(super) reply: RawReply,
    /// The caller, if the component named the caller.
    pub(super) caller: Option<ComponentCaller>,
}

impl PlannedRun<'_> {
    /// Runs the component that currently serves the mount, and runs the component again after a
    /// conflict as long as nothing outside was changed.
    ///
    /// # Errors
    /// 404 if the mount was disabled or moved. 503 if the client disconnected.
    pub(super) async fn complete(&self) -> Result<CompletedRun, Failure> {
        let Self { core, uuid, .. } = *self;
        let gone = || Failure::new(FailureKind::NotFound, "the mount was disabled or moved");
        let (mount, _inside) = core.mounts.enter_by_uuid(uuid).await.ok_or_else(gone)?;
        let until = Instant::now() + time_limit(core, &mount);
        let mut attempts = CallAttempts::for_caller(core, until);
        loop {
            let mut effect = SideEffect::Pure;
            let call = RunAttempt { run: self, mount: &mount, until };
            let served = Box::pin(call.make(attempts.begin_attempt(), &mut effect)).await;
            if effect >= SideEffect::Effect || !attempts.continue_after(&served).await {
                return served.map(|(reply, caller)| CompletedRun { mount, reply, caller });
            }
        }
    }
}

fn time_limit(core: &Core, mount: &Mount) -> Duration {
    let usual = core.process.settings.request_timeout;
    [mount.compartment.limits().deadline, MountLimits::CEILING.deadline]
        .into_iter()
        .flatten()
        .fold(usual, Duration::min)
}

/// The failure for a request without a client. No caller receives the failure.
pub(super) fn disconnected_failure() -> Failure {
    Failure::new(FailureKind::Unavailable, "the client disconnected").recordable()
}

/// A single attempt at a run.
struct RunAttempt<'a> {
    run: &'a PlannedRun<'a>,
    mount: &'a Arc<Mount>,
    until: Instant,
}

impl RunAttempt<'_> {
    async fn make(
        &self,
        turn: &QueueTicket,
        effect: &mut SideEffect,
    ) -> Result<(RawReply, Option<ComponentCaller>), Failure> {
        let Self { run: PlannedRun { core, request, presence, .. }, mount, until } = *self;
        let mut unit = mount.begin(&core.store).with_ticket(turn);
        mount.fence(&core.store, &mut unit).await?;
        core.load_plugin(mount).await?;
        let pass = mount.may_call()?;
        let _admission = self.admit().await?;
        let services = CallServices::new(core, mount, None, "");
        let access = mount.plugin.description().raw.clone().unwrap_or_default();
        let client = Client::of(request.remote.0);
        let tree = Arc::new(CallTree::of(client).bound_to((*presence).clone()));
        let headers = handed_on(&access, request);
        for header in headers.iter().filter(|header| access.secret_headers.contains(&header.name)) {
            let value = header.value.trim();
            tree.secrets.add_sensitive_field(value.rsplit(' ').next().unwrap_or(value));
        }
        let opened = core.mounts.open(mount, &Permit::for_raw(&access));
        let scope = CallScope {
            compartment: opened.compartment,
            grants: opened.grants,
            reuse: opened.reuse,
            deadline: until,
            slots: 1,
            services: Arc::clone(&services) as Arc<dyn HostServices>,
            tree: Arc::clone(&tree),
        };
        let mut done = opened.engine.serve(scope, unit, &self.contract_request(headers)).await;
        mount.note_end(&*core.log, pass, done.ended);
        *effect = tree.effect();
        if *effect == SideEffect::Effect {
            done.unit.mark_effectful();
        }
        let settled = match done.result {
            Ok(reply) => done.unit.commit().await.map(|_| reply).map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        services.release_guards().await;
        settled.map(|reply| {
            let caller = named_caller(&reply, &tree.secrets);
            (reply, caller)
        })
    }

    /// Waits for a slot for an instance, as long as the client waits.
    async fn admit(&self) -> Result<SlotPermit, Failure> {
        let PlannedRun { core, request, presence, .. } = self.run;
        let wanted = SlotRequest {
            compartment: &self.mount.compartment,
            slots: 1,
            priority: CallPriority::Foreground,
            caller: Some(Client::of(request.remote.0)),
            deadline: self.until,
        };
        tokio::select! {
            biased;
            admitted = core.sandbox.admit(wanted) => admitted,
            () = presence.wait_for_end() => Err(disconnected_failure()),
        }
    }

    /// Returns the request in the types of the contract.
    fn contract_request(&self, headers: Vec<RawHeader>) -> ContractRequest {
        let Self { run: PlannedRun { core, request, reason, .. }, mount, until } = *self;
        let left = until.saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        ContractRequest {
            id: request.id.clone(),
            method: request.method.clone(),
            base: request.place.base.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            headers,
            body: request.body.clone(),
            run: reason.word().to_owned(),
            deadline: core.store.now().saturating_add(left),
            remote_address: request.remote.0.to_string(),
            mount: mount.for_plugin(core.lifetimes, None),
            ext: Vec::new(),
        }
    }
}
