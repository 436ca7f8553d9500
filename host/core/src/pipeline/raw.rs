//! THE LIFE OF A REQUEST OF PLAIN HTTP, authenticated by the component itself.
//!
//! The request is routed, rate-limited, recorded and admitted like any other request, without a
//! token of the host and without policy. A component can park a request: the waiting request holds
//! no instance, no admission and no place in the mount, and runs again when a watched key is
//! written (see [`crate::parking`]).
//!
//! Prevents a component from learning tokens of the host, and from controlling the host's
//! connection. The component receives only the headers named in its description, and can set only
//! headers that concern the answer.

mod exchange;

use super::audit_trail::{AuditTrail, TrailSubject};
use super::destination::{Destination, ServingCode};
use super::operation::operation;
use super::permitted_request::count_request;
use crate::api::HostTable;
use crate::core::Core;
use crate::host_services::CallServices;
use crate::lifecycle::CallAttempts;
use crate::mounts::{Mount, MountPhase};
use crate::parking::RequestGroup;
use crate::permit::Permit;
use bulkhead_access::sealing::{InFlight, sealed_failure};
use bulkhead_sandbox::contract::{Park, RawHeader, RawReply, RawRequest as ContractRequest};
use bulkhead_sandbox::{
    CallPriority, CallScope, CallTree, HostServices, MountLimits, SideEffect, SlotRequest,
};
use bulkhead_store::QueueTicket;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::raw::{RawRequest, RawResponse};
use bulkhead_wire::response::{Response, ResponseBody};
use exchange::{as_recorded, handed_on, respond};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Maximum time for which a run may park the request.
const LONGEST_WAIT: Duration = Duration::from_secs(660);
/// The reason for a run, as the contract words it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunReason {
    First,
    Changed,
    Elapsed,
}

impl RunReason {
    fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Changed => "changed",
            Self::Elapsed => "elapsed",
        }
    }
}

/// Serves one request of plain HTTP. `gone` resolves when the client disconnects.
pub(crate) async fn handle_raw(
    core: Arc<Core>,
    table: &HostTable,
    request: Arc<RawRequest>,
    in_flight: InFlight,
    gone: oneshot::Receiver<()>,
) -> RawResponse {
    let mount = match find(&core, &request) {
        Ok(mount) => mount,
        Err(failure) => return RawResponse::failed(&failure),
    };
    let remote = request.remote.0;
    if let Err(refused) =
        Box::pin(core.process.unauthenticated_limits.admit(remote, &*core.log)).await
    {
        return RawResponse::failed(&refused);
    }
    let recorded = as_recorded(&request);
    let destination =
        Destination { place: ServingCode::Raw(Arc::clone(&mount)), captures: Vec::new() };
    let mut trail = AuditTrail::begin(TrailSubject {
        core: &core,
        table,
        request: &recorded,
        destination: Some(&destination),
        caller: None,
    });
    // Each part of the future is boxed: a waiting request is as large as the largest part that is
    // not.
    let served = match Box::pin(trail.enter(operation(recorded.verb, false))).await {
        Ok(()) => Box::pin(serve(&core, &mount, &request, in_flight, gone)).await,
        Err(unrecorded) => Err(unrecorded),
    };
    // The component accepted the caller: the rate-limit budget is returned.
    if served.as_ref().is_ok_and(|answer| ![401, 403].contains(&answer.status)) {
        core.process.unauthenticated_limits.give_back(remote);
    }
    Box::pin(leave(trail, served)).await
}

/// Returns the mount if its component answers plain HTTP.
fn find(core: &Core, request: &RawRequest) -> Result<Arc<Mount>, Failure> {
    let path = &request.place.mount;
    let mount = core.mounts.at(path).filter(|mount| {
        mount.record.phase == MountPhase::Serving && mount.plugin.engine.description().raw.is_some()
    });
    mount.ok_or_else(|| {
        core.mounts.unavailable_at(path.as_str()).unwrap_or_else(|| {
            let message = format!("no engine at {path} answers requests of this kind");
            Failure::new(FailureKind::NotFound, message)
        })
    })
}

/// Returns the answer if the answer could be recorded.
async fn leave(trail: AuditTrail<'_>, served: Result<RawResponse, Failure>) -> RawResponse {
    let (answer, told) = match served {
        Ok(answer) => {
            let body = ResponseBody::Raw { content_type: String::new(), bytes: Vec::new() };
            let told = Response { status: answer.status, body, retry_after: None };
            (answer, Ok(told))
        }
        Err(failure) => (RawResponse::failed(&failure), Err(failure)),
    };
    let is_failure = told.is_err();
    let recorded = trail.leave(told).await;
    match recorded.body {
        ResponseBody::Errors(errors) if !is_failure || recorded.status != answer.status => {
            let body = Arc::new(errors.join("\n").into_bytes());
            RawResponse { status: recorded.status, headers: Vec::new(), body }
        }
        _ => answer,
    }
}

/// Runs the request, and lets the request wait if the component parks it.
async fn serve(
    core: &Arc<Core>,
    mount: &Arc<Mount>,
    request: &Arc<RawRequest>,
    in_flight: InFlight,
    gone: oneshot::Receiver<()>,
) -> Result<RawResponse, Failure> {
    count_request(mount)?;
    let seen = core.store.change_count(&mount.record.uuid);
    let (mount, reply) = Box::pin(run(core, &mount.record.uuid, request, RunReason::First)).await?;
    drop(in_flight);
    let Some(park) = reply.park else { return respond(&mount, reply) };
    let _place = core.parking.take_place(Client::of(request.remote.0))?;
    let wait = Duration::from_millis(park.wait.into()).min(LONGEST_WAIT);
    let until = Instant::now() + wait;
    let name = group_name(core, &mount, request);
    let (mut seat, made) = core.parking.join(&name, &mount.record.uuid);
    if let Some(group) = made {
        let waiting = WaitingGroup { core: Arc::clone(core), request: Arc::clone(request), group };
        tokio::spawn(waiting.drive(mount.record.uuid.clone(), park, seen));
    }
    tokio::select! {
        answer = seat.answer() => return answer,
        () = tokio::time::sleep_until(until) => {}
        _ = gone => return Err(Failure::new(FailureKind::Unavailable, "the client went away")),
    }
    drop(seat);
    let _in_flight = keep_unsealed(core)?;
    let (mount, reply) =
        Box::pin(run(core, &mount.record.uuid, request, RunReason::Elapsed)).await?;
    respond(&mount, reply)
}

/// Returns a name that equal requests of a mount share, and no other request has.
fn group_name(core: &Core, mount: &Mount, request: &RawRequest) -> String {
    let access = mount.plugin.engine.description().raw.clone().unwrap_or_default();
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    };
    add(mount.record.uuid.as_bytes());
    for part in [&request.method, &request.place.base, &request.path, &request.query] {
        add(part.as_bytes());
    }
    for header in handed_on(&access, request) {
        add(header.name.as_bytes());
        add(header.value.as_bytes());
    }
    add(&request.body);
    core.store.keyed_hash("parked", &text)
}

/// A group of equal requests that wait.
struct WaitingGroup {
    core: Arc<Core>,
    request: Arc<RawRequest>,
    group: Arc<RequestGroup>,
}

impl WaitingGroup {
    /// Runs the request again after each change, until it is answered or no caller waits. `seen` is
    /// the change counter of the mount's data before the first run.
    async fn drive(self, uuid: String, park: Park, seen: u64) {
        let Self { core, request, group } = self;
        let full = |keys: &[String]| keys.iter().map(|key| format!("{uuid}/{key}")).collect();
        let mut keys = park.keys;
        let mut watch = core.store.watch(full(&keys));
        let mut is_behind = core.store.change_count(&uuid) != seen;
        loop {
            if !is_behind {
                tokio::select! {
                    () = watch.changed() => {}
                    _ = core.parking.wait_until_idle(&group) => return,
                }
            }
            let seen = core.store.change_count(&uuid);
            core.parking.count_run();
            let answer = match Box::pin(run_again(&core, &uuid, &request)).await {
                Ok((_, RawReply { park: Some(park), .. })) if park.keys == keys => {
                    is_behind = false;
                    continue;
                }
                Ok((_, RawReply { park: Some(park), .. })) => {
                    keys = park.keys;
                    watch = core.store.watch(full(&keys));
                    is_behind = core.store.change_count(&uuid) != seen;
                    continue;
                }
                Ok((mount, reply)) => respond(&mount, reply),
                Err(failure) => Err(failure),
            };
            return core.parking.answer(&group, answer);
        }
    }
}

/// Runs a parked request again, in the current state of its mount.
async fn run_again(
    core: &Arc<Core>,
    uuid: &str,
    request: &RawRequest,
) -> Result<(Arc<Mount>, RawReply), Failure> {
    let _in_flight = keep_unsealed(core)?;
    run(core, uuid, request, RunReason::Changed).await
}

/// Keeps the service from being sealed while a parked request runs.
///
/// # Errors
/// 503 once the service is being sealed.
fn keep_unsealed(core: &Core) -> Result<InFlight, Failure> {
    let in_flight = core.sealing.enter()?;
    if core.sealing.has_begun() { Err(sealed_failure()) } else { Ok(in_flight) }
}

/// Runs the component that currently serves the mount, and runs it again after a conflict as long
/// as nothing outside was changed. Returns the mount with the reply.
///
/// # Errors
/// 404 if the mount was disabled or moved.
async fn run(
    core: &Arc<Core>,
    uuid: &str,
    request: &RawRequest,
    run: RunReason,
) -> Result<(Arc<Mount>, RawReply), Failure> {
    let gone = || Failure::new(FailureKind::NotFound, "the mount was disabled or moved");
    let (mount, _inside) = core.mounts.enter_by_uuid(uuid).await.ok_or_else(gone)?;
    let until = Instant::now() + time_limit(core, &mount);
    let mut attempts = CallAttempts::for_caller(core, until);
    loop {
        let mut effect = SideEffect::Pure;
        let call = RawCall { core, mount: &mount, request, run, until };
        let served = Box::pin(call.attempt(attempts.begin_attempt(), &mut effect)).await;
        if effect >= SideEffect::Effect || !attempts.continue_after(&served).await {
            return served.map(|reply| (mount, reply));
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

/// A single run of a component for a request.
struct RawCall<'a> {
    core: &'a Arc<Core>,
    mount: &'a Arc<Mount>,
    request: &'a RawRequest,
    run: RunReason,
    until: Instant,
}

impl RawCall<'_> {
    async fn attempt(
        &self,
        turn: &QueueTicket,
        effect: &mut SideEffect,
    ) -> Result<RawReply, Failure> {
        let Self { core, mount, .. } = *self;
        let unit = mount.begin(&core.store).with_ticket(turn);
        core.load_plugin(mount).await?;
        let pass = mount.may_call()?;
        let client = Client::of(self.request.remote.0);
        let wanted = SlotRequest {
            compartment: &mount.compartment,
            slots: 1,
            priority: CallPriority::Foreground,
            caller: Some(client),
            deadline: self.until,
        };
        let _admission = core.sandbox.admit(wanted).await?;
        let services = CallServices::new(core, mount, None, "");
        let engine = &mount.plugin.engine;
        let access = engine.description().raw.clone().unwrap_or_default();
        let tree = Arc::new(CallTree::of(client));
        let headers = handed_on(&access, self.request);
        for header in headers.iter().filter(|header| access.secret_headers.contains(&header.name)) {
            let value = header.value.trim();
            tree.secrets.add_sensitive_field(value.rsplit(' ').next().unwrap_or(value));
        }
        let opened = core.mounts.open(mount, &Permit::for_raw(&access));
        let scope = CallScope {
            compartment: opened.compartment,
            grants: opened.grants,
            reuse: opened.reuse,
            deadline: self.until,
            slots: 1,
            services: Arc::clone(&services) as Arc<dyn HostServices>,
            tree: Arc::clone(&tree),
        };
        let mut done = engine.serve(scope, unit, &self.contract_request(headers)).await;
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
        settled
    }

    /// Returns the request in the types of the contract.
    fn contract_request(&self, headers: Vec<RawHeader>) -> ContractRequest {
        let Self { core, mount, request, .. } = *self;
        let left = self.until.saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        ContractRequest {
            id: request.id.clone(),
            method: request.method.clone(),
            base: request.place.base.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            headers,
            body: request.body.clone(),
            run: self.run.word().to_owned(),
            deadline: core.store.now().saturating_add(left),
            remote_address: request.remote.0.to_string(),
            mount: mount.for_plugin(core.lifetimes, None),
            ext: Vec::new(),
        }
    }
}
