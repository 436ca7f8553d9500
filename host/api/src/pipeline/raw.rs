//! THE LIFE OF A REQUEST OF PLAIN HTTP, authenticated by the component itself.
//!
//! The request passes the steps of every request (`pipeline.rs`) in the same order, without a token
//! of the host and without policy; `tests/tidy/pipelines.rs` compares both lists. A component can
//! park a request: the waiting request holds no instance, no admission and no place in the mount,
//! and runs again when a watched key is written (see [`bulkhead_access::parking`]).
//!
//! This file prevents a component from learning tokens of the host, and from controlling the host's
//! connection. The component receives only the headers named in its description, and can set only
//! headers that concern the answer. The host cannot verify the component's tokens, so a caller
//! counts as unauthenticated until the component names the caller.

mod exchange;
mod run;
mod shown_path;
mod waiting;

use super::admission;
use super::audit_trail::{AuditTrail, TrailSubject};
use super::destination::{Destination, ServingCode};
use super::operation::operation;
use super::permitted_request::count_request;
use crate::endpoints::HostTable;
use bulkhead_access::parking::PlaceClaim;
use bulkhead_access::request_metrics::{OperationClass, RequestOutcome};
use bulkhead_access::sealing::InFlight;
use bulkhead_core::Core;
use bulkhead_core::lifecycle;
use bulkhead_core::mounts::{Mount, MountPhase};
use bulkhead_sandbox::CallerPresence;
use bulkhead_trace::scope::describe_request;
use bulkhead_wire::client::Client;
use bulkhead_wire::description::RawAccess;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::raw::{RawRequest, RawResponse};
use bulkhead_wire::response::{Response, ResponseBody};
use exchange::{as_recorded, handed_on, respond};
use run::{PlannedRun, RunReason, disconnected_failure};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use waiting::{WaitingGroup, group_name, held_bytes, keep_unsealed};

/// Maximum time that a run may park the request.
const LONGEST_WAIT: Duration = Duration::from_secs(660);

/// Serves one request of plain HTTP.
pub(crate) async fn handle_raw(
    core: Arc<Core>,
    table: &HostTable,
    request: RawRequest,
    in_flight: InFlight,
    presence: CallerPresence,
) -> RawResponse {
    // 1. The client's limits, before anything of the request is looked at. Every caller counts as
    //    unauthenticated until the component names the caller.
    let remote = request.remote.0;
    let path = format!("{}{}", request.place.mount, request.canonical_path);
    let over_the_rate = match admission::admit(&core, (&path, remote), true).await {
        Ok(recorded) => recorded,
        Err(unrecorded) => return count(&core, None, RawResponse::failed(&unrecorded)),
    };

    // 2. The mount, and its component's description.
    let found = find(&core, &request);
    let access = access_of(&found);
    let hidden = shown_path::hidden_segments(&access.paths, &request.path);
    let recorded = as_recorded(&request, &access);
    let shown = shown_path::without_hidden(&recorded.path, &hidden);
    let _listed = core.requests.enter(&recorded, &shown, core.store.now(), "");
    let destination = found.as_ref().ok().map(|mount| Destination {
        place: ServingCode::Raw(Arc::clone(mount)),
        captures: Vec::new(),
    });

    // 5. The request is recorded, or ends here.
    let mut trail = AuditTrail::begin(TrailSubject {
        core: &core,
        table,
        request: &recorded,
        destination: destination.as_ref(),
        caller: None,
        hidden_segments: &hidden,
    });
    let refusal = over_the_rate.or_else(|| recorded.refusal.clone());
    let mut admitted = refusal.map_or(found, Err);
    if admitted.is_ok() {
        let entered = Box::pin(trail.enter(operation(recorded.verb, false))).await;
        admitted = entered.and(admitted);
    }

    // 6. The component, and 7. the answer. A waiting request is as large as the largest part of the
    //    future that is not boxed.
    let served = match admitted {
        Ok(mount) => {
            let request = Arc::new(with_passed_headers(request, &access));
            let exchange = PlainExchange { core: &core, mount, request, presence };
            Box::pin(exchange.serve(in_flight, &mut trail)).await
        }
        Err(refusal) => Err(refusal),
    };
    if is_accepted(&access, &trail, &served) {
        admission::give_back(&core, remote);
    }
    let answer = Box::pin(leave(trail, served)).await;
    count(&core, destination.as_ref(), answer)
}

/// Counts a served request for its mount.
fn count(core: &Core, destination: Option<&Destination<'_>>, answer: RawResponse) -> RawResponse {
    let mount = destination.map_or("", Destination::mount);
    let outcome = RequestOutcome::of_status(answer.status);
    core.traffic.note(mount, (OperationClass::Plain, outcome), None);
    describe_request(mount, OperationClass::Plain.word());
    answer
}

/// Returns the request with only the headers that a run reads: a waiting request holds no others.
fn with_passed_headers(request: RawRequest, access: &RawAccess) -> RawRequest {
    let headers = handed_on(access, &request).into_iter();
    let headers = headers.map(|header| (header.name, header.value)).collect();
    RawRequest { headers, ..request }
}

/// Reports whether the component accepted the caller.
fn is_accepted(
    access: &RawAccess,
    trail: &AuditTrail<'_>,
    served: &Result<RawResponse, Failure>,
) -> bool {
    match access.identifies {
        true => trail.has_component_caller(),
        false => served.as_ref().is_ok_and(|answer| ![401, 403].contains(&answer.status)),
    }
}

/// Returns whether the component knows the caller of a request, before the request's body is
/// received. A caller that the component does not know is counted as unauthenticated.
///
/// # Errors
/// 429 over the rate limit for unauthenticated callers. The failure of the run.
pub(crate) async fn identify_raw(
    core: Arc<Core>,
    request: RawRequest,
    presence: CallerPresence,
) -> Result<bool, Failure> {
    lifecycle::catch_up(&core).await?;
    let mount = find(&core, &request)?;
    if !mount.plugin.description().raw.as_ref().is_some_and(|raw| raw.identifies) {
        return Ok(false);
    }
    admission::admit_unauthenticated(&core, request.remote.0).await?;
    let run = PlannedRun {
        core: &core,
        uuid: &mount.record.uuid,
        request: &request,
        reason: RunReason::Identify,
        presence: &presence,
    };
    let is_known = Box::pin(run.complete()).await?.caller.is_some();
    if is_known {
        admission::give_back(&core, request.remote.0);
    }
    Ok(is_known)
}

/// Returns the mount if its component answers plain HTTP.
fn find(core: &Core, request: &RawRequest) -> Result<Arc<Mount>, Failure> {
    let path = &request.place.mount;
    let mount = core.mounts.at(path).filter(|mount| {
        mount.record.phase == MountPhase::Serving && mount.plugin.description().raw.is_some()
    });
    mount.ok_or_else(|| {
        core.mounts.unavailable_at(path.as_str()).unwrap_or_else(|| {
            let message = format!("no engine at {path} answers requests of this kind");
            Failure::new(FailureKind::NotFound, message)
        })
    })
}

fn access_of(found: &Result<Arc<Mount>, Failure>) -> RawAccess {
    let mount = found.as_ref().ok();
    mount.and_then(|mount| mount.plugin.description().raw.clone()).unwrap_or_default()
}

/// Returns the answer if the answer could be recorded.
async fn leave(trail: AuditTrail<'_>, served: Result<RawResponse, Failure>) -> RawResponse {
    let (answer, response) = match served {
        Ok(answer) => {
            let body = ResponseBody::Raw { content_type: String::new(), bytes: Vec::new() };
            let response = Response::new(answer.status, body);
            (answer, Ok(response))
        }
        Err(failure) => (RawResponse::failed(&failure), Err(failure)),
    };
    let is_failure = response.is_err();
    let recorded = trail.leave(response).await;
    match recorded.body {
        ResponseBody::Errors(errors) if !is_failure || recorded.status != answer.status => {
            let body = Arc::new(errors.join("\n").into_bytes());
            RawResponse { status: recorded.status, headers: Vec::new(), body }
        }
        _ => answer,
    }
}

/// A recorded request with its client.
struct PlainExchange<'a> {
    core: &'a Arc<Core>,
    mount: Arc<Mount>,
    request: Arc<RawRequest>,
    presence: CallerPresence,
}

impl PlainExchange<'_> {
    /// Runs the request, and lets the request wait if the component parks it.
    async fn serve(
        self,
        in_flight: InFlight,
        trail: &mut AuditTrail<'_>,
    ) -> Result<RawResponse, Failure> {
        let Self { core, ref mount, ref request, ref presence } = self;
        count_request(mount)?;
        let uuid = &mount.record.uuid;
        let seen = core.store.change_count(uuid);
        let plan = |reason| PlannedRun { core, uuid, request, reason, presence };
        let first = Box::pin(plan(RunReason::First).complete()).await?;
        drop(in_flight);
        let is_known = first.caller.is_some();
        if let Some(caller) = first.caller {
            trail.name_caller(caller);
        }
        let Some(park) = first.reply.park else { return respond(&first.mount, first.reply) };
        let client = Client::of(request.remote.0);
        let claim = PlaceClaim { client, is_known, bytes: held_bytes(request) };
        let _place = core.parking.take_place(claim)?;
        let wait = Duration::from_millis(park.wait.into()).min(LONGEST_WAIT);
        let until = Instant::now() + wait;
        let name = group_name(core, &first.mount, request);
        let (mut seat, new_group) = core.parking.join(&name, uuid);
        if let Some(group) = new_group {
            let waiting =
                WaitingGroup { core: Arc::clone(core), request: Arc::clone(request), group };
            tokio::spawn(waiting.drive(uuid.clone(), park, seen));
        }
        drop(first.mount);
        tokio::select! {
            answer = seat.answer() => return answer,
            () = tokio::time::sleep_until(until) => {}
            () = presence.wait_for_end() => return Err(disconnected_failure()),
        }
        drop(seat);
        let _in_flight = keep_unsealed(core)?;
        let last = Box::pin(plan(RunReason::Elapsed).complete()).await?;
        respond(&last.mount, last.reply)
    }
}
