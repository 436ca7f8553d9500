//! THE LIFE OF A REQUEST.
//!
//! [`handle`] and [`attempt`] list all steps in order; each step is a call that returns here. After
//! a conflict the request is attempted again in turn, unless something outside may have been
//! changed. A failed request also gets a response and leaves nothing half-done.

mod admission;
mod answer;
mod audit_trail;
mod component_call;
mod destination;
mod field_rights;
mod host_endpoint;
mod login_lockout;
mod mount_listing;
mod operation;
mod permitted_request;
mod policy_check;
mod raw;
mod wrapping;

pub(crate) use policy_check::permits_head;
pub(crate) use raw::{handle_raw, identify_raw};

use crate::endpoints::{self, FoundEndpoint, HostTable, PublicEndpoint, PublicRequest};
use audit_trail::{AuditTrail, TrailSubject};
use bulkhead_access::identity::EntityContext;
use bulkhead_access::policies::acl::Acl;
use bulkhead_access::request_metrics::{OperationClass, RequestOutcome};
use bulkhead_access::tokens::Caller;
use bulkhead_core::lifecycle::CallAttempts;
use bulkhead_core::{CallerRights, Core};
use bulkhead_sandbox::SideEffect;
use bulkhead_store::{QueueTicket, Unit};
use bulkhead_trace::scope::{describe_request, in_step};
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::fields;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use destination::{Destination, ServingCode};
use field_rights::FieldRequest;
use operation::{creates_object, object_address, operation};
use permitted_request::{PermittedRequest, note_client};
use serde_json::{Map, Value};
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::Instant;

/// Serves one request. `found` is the result of the look-up in the host's `table`.
pub(crate) async fn handle(
    core: &Arc<Core>,
    table: &HostTable,
    request: &Request,
    found: Result<Option<FoundEndpoint<'_>>, Failure>,
) -> Response {
    let begun = Instant::now();
    // 1. The caller is authenticated once, however often the request is attempted, and before the
    //    unit of work begins: a token renewed meanwhile is not a conflict of the request. The
    //    commit of a writing request checks the token again. An endpoint that needs no token takes
    //    no use of the token.
    let (token, remote) = (request.token.as_ref(), request.remote);
    let caller = match needs_no_token(&found) {
        true => core.tokens.identify(token, remote).await,
        false => core.tokens.authenticate(token, remote).await,
    };

    // Nothing of a request over a rate limit is looked at, and such a request is recorded only if
    // an operator wants the record.
    let is_unauthenticated = caller.as_ref().is_err_and(is_unauthenticated);
    let over_the_rate =
        match admission::admit(core, (&request.path, remote), is_unauthenticated).await {
            Ok(recorded) => recorded,
            Err(unrecorded) => return refuse_unrecorded(core, request, begun, &unrecorded),
        };

    let entity = caller.as_ref().map_or("", |caller| &caller.record.entity_id);
    let _in_flight = core.requests.enter(request, &request.path, core.store.now(), entity);

    // 2. The request finds its endpoint or mount, and enters the mount. The caller is not told
    //    whether the destination exists before policy allows the path (decision P11).
    let entered = destination::enter(core, request, found).await;
    let renamed = endpoints::canonical(request);
    let request = renamed.as_ref().unwrap_or(request);

    // 3. to 6. Served requests and refused requests leave the same audit trail.
    let (destination, authenticated) = (entered.as_ref().map(|(found, _)| found), caller.as_ref());
    let mut trail = AuditTrail::begin(TrailSubject {
        core,
        table,
        request,
        destination: destination.ok(),
        caller: authenticated.ok(),
        hidden_segments: &[],
    });
    let served = match over_the_rate.as_ref().or(request.refusal.as_ref()) {
        Some(refusal) => Err(refusal.clone()),
        None => dispatch(core, table, request, (destination, authenticated), &mut trail).await,
    };

    // 7. The response, wrapped if the request asks for wrapping, unless the response cannot be
    //    recorded. A token without uses left ends with its last request.
    let served = wrapping::wrap_if_asked(core, request, &trail, served).await;
    let response = trail.leave(served).await;
    if let Ok(caller) = &caller {
        core.tokens.finish_request(caller).await;
        note_client(core, caller, &response);
    }
    count(core, begun, traffic_class(destination.ok(), request), response)
}

/// Refuses a request of which nothing is recorded: over a rate limit, or on a node that does not
/// follow the other nodes.
fn refuse_unrecorded(
    core: &Core,
    request: &Request,
    begun: Instant,
    failure: &Failure,
) -> Response {
    count(core, begun, traffic_class(None, request), Response::failed(failure))
}

/// Counts a served request, which began at `begun`, for its mount and operation.
fn count(
    core: &Core,
    begun: Instant,
    (mount, operation): (&str, OperationClass),
    response: Response,
) -> Response {
    let outcome = RequestOutcome::of_status(response.status);
    core.traffic.note(mount, (operation, outcome), Some(begun.elapsed()));
    describe_request(mount, operation.word());
    response
}

/// Returns the mount and the operation for which a request counts.
fn traffic_class<'a>(
    destination: Option<&'a Destination<'_>>,
    request: &Request,
) -> (&'a str, OperationClass) {
    let operation = match request.verb {
        _ if destination.is_some_and(Destination::is_login) => OperationClass::Login,
        Verb::Read | Verb::List => OperationClass::Read,
        Verb::Write | Verb::Patch | Verb::Delete => OperationClass::Write,
    };
    (destination.map_or("", Destination::mount), operation)
}

/// Serves a request as the endpoint demands: without a token, or if the caller's policies allow the
/// request.
async fn dispatch(
    core: &Arc<Core>,
    table: &HostTable,
    request: &Request,
    (destination, authenticated): (Result<&Destination<'_>, &Failure>, Result<&Caller, &Failure>),
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    let is_open_row = destination.is_ok_and(Destination::is_open_row);
    let public = destination.ok().and_then(Destination::public);
    // The body of a caller without permission was not read either, and policy has to refuse.
    let takes_file = destination.is_ok_and(Destination::takes_file);
    match (public, authenticated) {
        // The body was not read, so that the request is incomplete.
        (Some(_), _) | (_, Ok(_)) if request.is_unread && !takes_file => {
            Err(endpoints::unread_failure())
        }
        (Some(endpoint), Ok(caller)) => {
            Box::pin(serve_public(core, table, request, endpoint, Some(caller), trail)).await
        }
        // The endpoint needs no token: an invalid token counts as none.
        (Some(endpoint), Err(refused)) if is_unauthenticated(refused) => {
            Box::pin(serve_public(core, table, request, endpoint, None, trail)).await
        }
        (None, authentication) if is_open_row => {
            Box::pin(serve_open_row(core, request, destination, authentication, trail)).await
        }
        (None, Ok(caller)) => {
            Box::pin(wrapping::assert_room(core, request, caller)).await?;
            attempt_with_retries(core, request, destination, Some(caller), trail).await
        }
        (_, Err(failure)) => Err(match destination {
            // Everybody knows the path, and only the method is wrong.
            Err(unknown) if is_wrong_method(unknown) && table.is_open(&request.path) => {
                unknown.clone()
            }
            _ => refuse_token(request, failure),
        }),
    }
}

/// Reports whether a path is known and does not answer the method of the request.
fn is_wrong_method(unknown: &Failure) -> bool {
    unknown.kind == FailureKind::UnsupportedOperation
}

fn needs_no_token(found: &Result<Option<FoundEndpoint<'_>>, Failure>) -> bool {
    matches!(found, Ok(Some(found)) if found.endpoint.route.unauthenticated)
}

/// Returns the failure for a caller without a valid token; a wrapping token is named as such.
fn refuse_token(request: &Request, failure: &Failure) -> Failure {
    let is_sent = request.token.as_ref().is_some_and(|token| !token.expose().is_empty());
    let names_another = request.is_unread || request.fields.contains_key("token");
    if is_unauthenticated(failure)
        && endpoints::is_opened_by_caller(&request.path)
        && is_sent
        && !names_another
    {
        return endpoints::not_wrapping();
    }
    failure.clone()
}

/// Reports whether a failed authentication means a caller without a valid token.
fn is_unauthenticated(refused: &Failure) -> bool {
    refused.kind == FailureKind::PermissionDenied
}

/// Serves an endpoint that needs no token.
async fn serve_public(
    core: &Arc<Core>,
    table: &HostTable,
    request: &Request,
    endpoint: PublicEndpoint<'_>,
    caller: Option<&Caller>,
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    if caller.is_none() {
        endpoints::refuse_wrapping(request)?;
    }
    let fields = endpoints::read_public_fields(endpoint, request)?;
    trail.enter(operation(request.verb, false)).await?;
    let public_request = PublicRequest { endpoint, request, fields: &fields };
    endpoints::serve_without_a_token(core, table, public_request, caller).await
}

/// Serves a route of a mount that needs no token, and ignores a token in the request. A caller
/// without a valid token gets the rate-limit budget back if the request succeeds.
async fn serve_open_row(
    core: &Arc<Core>,
    request: &Request,
    destination: Result<&Destination<'_>, &Failure>,
    authentication: Result<&Caller, &Failure>,
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    if request.is_unread {
        return Err(endpoints::unread_failure());
    }
    let served = attempt_with_retries(core, request, destination, None, trail).await;
    if served.is_ok() && authentication.is_err_and(is_unauthenticated) {
        admission::give_back(core, request.remote);
    }
    served
}

/// Returns the rights and the entity of the caller; none for a route that needs no token.
async fn rights_of(
    core: &Core,
    caller: Option<&Caller>,
) -> Result<(Option<Arc<Acl>>, EntityContext), Failure> {
    let Some(caller) = caller else { return Ok((None, EntityContext::default())) };
    let CallerRights { acl, entity } = core.rights_of(&caller.record).await?;
    Ok((Some(acl), entity))
}

/// Attempts a request, and repeats the attempt after a conflict unless something outside changed.
async fn attempt_with_retries(
    core: &Arc<Core>,
    request: &Request,
    destination: Result<&Destination<'_>, &Failure>,
    caller: Option<&Caller>,
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let mut attempts =
        CallAttempts::for_caller(core, began + core.process.settings.request_timeout);
    let mut is_first = true;
    loop {
        let mut effect = SideEffect::Pure;
        let (trail, turn) = (&mut *trail, attempts.begin_attempt());
        let mut progress = AttemptProgress { trail, effect: &mut effect, is_first, began, turn };
        let served = attempt(core, request, destination, caller, &mut progress).await;
        if effect >= SideEffect::Effect || !attempts.continue_after(&served).await {
            return served;
        }
        is_first = false;
    }
}

/// The state that an attempt reports to the retry loop.
struct AttemptProgress<'a, 'b> {
    trail: &'a mut AuditTrail<'b>,
    /// The effect of the attempt outside of the store.
    effect: &'a mut SideEffect,
    is_first: bool,
    /// Time when the first attempt began.
    began: Instant,
    turn: &'a QueueTicket,
}

/// Makes an attempt; the numbers of the groups are from `docs/architecture.md` §3.
async fn attempt(
    core: &Arc<Core>,
    request: &Request,
    destination: Result<&Destination<'_>, &Failure>,
    caller: Option<&Caller>,
    progress: &mut AttemptProgress<'_, '_>,
) -> Result<Response, Failure> {
    let (acl, entity_context) = rights_of(core, caller).await?;
    progress.trail.record_entity_policies(&entity_context);

    // 3. Fields get their canonical names. A write is a create or an update, depending on whether
    //    its object exists.
    let destination = destination.map_err(|unknown| match &acl {
        Some(acl) => policy_check::refuse_unknown(acl, request, unknown.clone()),
        None => unknown.clone(),
    })?;
    let mut unit = destination.begin_unit(core).with_ticket(progress.turn);
    let route = destination.known_route()?;
    let mut folded = fields::fold_names(route, &request.fields, &destination.captures);
    let object = object_address(destination, route, caller);
    let creates = creates_object(&mut unit, object.as_ref()).await;
    if let (Ok(folded), Ok(creates)) = (&mut folded, &creates) {
        folded.drop_blank(route, *creates);
    }

    // 4. Policy, which yields the permit. Errors in the request are reported only after the policy
    //    check.
    let act = operation(request.verb, creates.as_ref().is_ok_and(|creates| *creates));
    let (act, fields) = (route.asked_as.unwrap_or(act), folded.as_ref().ok());
    let check = policy_check::permit(acl.as_ref(), request, destination, fields, act);
    let permit = in_step("policy", check).await?;
    progress.trail.permit(&permit);
    destination.fence(core, &mut unit).await?;
    let (mut folded, creates) = (folded?, creates?);
    endpoints::check_body(route, request)?;
    let (object, values) = (object.as_ref(), &folded.values);
    let fields = FieldRequest { core, request, destination, object, values, creates };
    fields.check(&mut unit, &permit).await?;
    apply_defaults(route, request, &mut folded.values, creates)?;

    // 5. The request is recorded, or ends here.
    progress.trail.enter(operation(request.verb, creates)).await?;

    // 6. The endpoint itself, then one commit, then the answer.
    let permitted = PermittedRequest {
        core,
        request,
        destination,
        route,
        caller,
        entity_context,
        permit,
        folded,
        object,
        creates,
        is_first: progress.is_first,
        began: progress.began,
    };
    serve(permitted, unit, progress.effect).await
}

/// Completes the fields of a request, which a PATCH leaves as they are.
///
/// # Errors
/// 400 for a missing field or for fields that exclude each other.
fn apply_defaults(
    route: &Route,
    request: &Request,
    values: &mut Map<String, Value>,
    creates: bool,
) -> Result<(), Failure> {
    if request.verb == Verb::Patch {
        return Ok(());
    }
    fields::apply_defaults(route, values, creates || route.existence.is_none())
}

/// Serves a permitted request at the destination. Boxed: a request's future is moved several times,
/// and would otherwise be as large as the largest endpoint.
fn serve<'a>(
    permitted: PermittedRequest<'a>,
    unit: Unit,
    effect: &'a mut SideEffect,
) -> Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send + 'a>> {
    let destination = permitted.destination;
    match &destination.place {
        ServingCode::Host(endpoint) => Box::pin(permitted.serve_by_host(endpoint, unit, effect)),
        ServingCode::Mount(_, mount) if permitted.route.list.is_some() => {
            Box::pin(permitted.list_names(mount))
        }
        ServingCode::Mount(_, mount) => Box::pin(permitted.call_component(mount, unit, effect)),
        // A plain HTTP request has no route, and `known_route` has failed before.
        ServingCode::Raw(_) => Box::pin(async { Err(Failure::internal("plain HTTP has no row")) }),
    }
}
