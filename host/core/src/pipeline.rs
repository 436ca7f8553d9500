//! THE LIFE OF A REQUEST.
//!
//! [`once`] is the whole of it, step by step; each step is a call that returns here. On a conflict
//! it runs again from the start, unless something outside may have been changed. Whatever goes
//! wrong, a response leaves and nothing half-done stays.

mod answer;
mod audit_trail;
mod destination;
mod permitted_request;

use crate::api::{self, PublicEndpoint};
use crate::core::Core;
use crate::permit::Permit;
use crate::policies::acl::{Acl, Question};
use crate::tokens::{self, Caller};
use audit_trail::{AuditTrail, Met};
use bulkhead_sandbox::Effect;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::fields;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use bulkhead_wire::route;
pub(crate) use destination::unsupported;
use destination::{Destination, Place};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Runs of a request that meets conflicts.
const RUNS: u32 = 8;
/// Body of a route that says nothing else.
const BODY_LIMIT: u64 = 1 << 20;

/// Serves one request, of which the table of the `host` says whether it is the host's.
pub(crate) async fn handle(
    core: &Arc<Core>,
    request: &Request,
    host: Result<Option<api::Found>, Failure>,
) -> Response {
    // 1. Where does it go? Kept to ourselves until policy has spoken (decision P11).
    let destination = destination::find(core, request, host);
    let renamed = api::canonical(request);
    let request = renamed.as_ref().unwrap_or(request);

    // 2. Who calls? Asked once, however often the request runs, and before its unit of work begins:
    //    a token that is renewed meanwhile is no reason to run again. Whatever writes asks once
    //    more, in its commit.
    let caller = tokens::authenticate(core, request.token.as_ref(), request.remote).await;

    // 3. to 6. What is served and what is refused leave the same trail.
    let (found, known) = (destination.as_ref(), caller.as_ref());
    let public = found.ok().and_then(|destination| destination.public(core));
    let mut trail =
        AuditTrail::of(Met { core, request, destination: found.ok(), caller: known.ok() });
    let served = match (public, known) {
        (Some(public), Ok(_)) => open(core, request, public, known.ok(), &mut trail).await,
        // It asks for no token: one that does not hold is as good as none.
        (Some(public), Err(refused)) if refused.kind == Kind::PermissionDenied => {
            open(core, request, public, None, &mut trail).await
        }
        (None, Ok(caller)) => served(core, request, found, caller, &mut trail).await,
        (_, Err(failure)) => Err(failure.clone()),
    };

    // 7. The answer, as far as it is recorded. A token without uses left ends with its last
    //    request.
    let response = trail.leave(served).await;
    if let Ok(caller) = &caller {
        tokens::leave(core, caller).await;
    }
    response
}

/// Serves an endpoint that asks for no token.
async fn open(
    core: &Arc<Core>,
    request: &Request,
    endpoint: PublicEndpoint<'_>,
    caller: Option<&Caller>,
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    trail.enter(operation(request.verb, false)).await?;
    api::serve_public(core, endpoint, request, caller).await
}

/// Runs a request, and runs it again on a conflict while nothing outside was changed.
async fn served(
    core: &Arc<Core>,
    request: &Request,
    destination: Result<&Destination, &Failure>,
    caller: &Caller,
    trail: &mut AuditTrail<'_>,
) -> Result<Response, Failure> {
    let mut run = 1;
    loop {
        let mut effect = Effect::Pure;
        let mut this = Run { trail: &mut *trail, effect: &mut effect, is_first: run == 1 };
        match once(core, request, destination, caller, &mut this).await {
            Err(failure)
                if failure.kind == Kind::Conflict && effect < Effect::Effect && run < RUNS =>
            {
                tokio::time::sleep(Duration::from_millis(u64::from(run * run))).await;
                run += 1;
            }
            served => return served,
        }
    }
}

/// What a run tells of itself.
struct Run<'a, 'b> {
    trail: &'a mut AuditTrail<'b>,
    /// What it did to the world.
    effect: &'a mut Effect,
    is_first: bool,
}

/// One run, as `docs/architecture.md` §3 numbers the steps.
async fn once(
    core: &Arc<Core>,
    request: &Request,
    destination: Result<&Destination, &Failure>,
    caller: &Caller,
    run: &mut Run<'_, '_>,
) -> Result<Response, Failure> {
    let acl = core.policies.acl(&core.store, &caller.record.policies).await?;

    // 3. Fields in canonical names, and create told from update by what exists.
    let destination = match destination {
        Ok(destination) => destination,
        Err(nothing) => return Err(refuse_unknown(&acl, request, nothing.clone())),
    };
    let mut unit = match &destination.place {
        Place::Host(_) => core.store.begin(),
        Place::Mount(_, mount) => mount.begin(&core.store),
    };
    let route = destination
        .route(core)
        .ok_or_else(|| Failure::internal("the route table changed under a request"))?;
    let folded = fields::fold(route, &request.fields, &destination.captures);
    let creates = creates(&mut unit, destination, route).await;

    // 4. Policy, which yields the permit. It sees the raw fields only where they do not fold, which
    //    is told to nobody who may not call.
    let sent = sent(destination, folded.as_ref().ok(), &request.fields);
    let question = Question {
        path: &request.path,
        operation: operation(request.verb, creates.as_ref().is_ok_and(|creates| *creates)),
        sudo: route.sudo,
        fields: &sent,
        schema: &route.fields,
    };
    let permit = Permit::ask(&acl, &question)?;
    run.trail.permit(&permit);
    let (mut folded, creates) = (folded?, creates?);
    check_body(route, request)?;
    if request.verb == Verb::Write {
        fields::complete(route, &mut folded.values, creates || route.existence.is_none())?;
    }

    // 5. The request is recorded, or goes no further.
    run.trail.enter(operation(request.verb, creates)).await?;

    // 6. The endpoint itself, then one commit, then the answer.
    let is_first = run.is_first;
    let permitted = PermittedRequest {
        core,
        request,
        destination,
        route,
        caller,
        permit,
        folded,
        creates,
        is_first,
    };
    //    Each on the heap: a request's future is moved several times, and would be as large as its
    //    largest endpoint.
    match &destination.place {
        Place::Host(endpoint) => Box::pin(permitted.host(*endpoint, unit, run.effect)).await,
        Place::Mount(_, mount) if route.list.is_some() => {
            Box::pin(permitted.list(mount, unit)).await
        }
        Place::Mount(_, mount) => Box::pin(permitted.component(mount, unit, run.effect)).await,
    }
}

/// Everything that is known of a permitted request.
struct PermittedRequest<'a> {
    core: &'a Arc<Core>,
    request: &'a Request,
    destination: &'a Destination,
    route: &'a Route,
    caller: &'a Caller,
    permit: Permit,
    folded: fields::Folded,
    creates: bool,
    /// Not run again after a conflict.
    is_first: bool,
}

/// Does this write make an object that does not exist? Read in the unit, so that it is checked
/// again.
async fn creates(
    unit: &mut Unit,
    destination: &Destination,
    route: &Route,
) -> Result<bool, Failure> {
    let Some(pattern) = &route.existence else { return Ok(false) };
    let key = route::fill(pattern, &destination.captures);
    let address = match &destination.place {
        Place::Host(_) => Address::new(Space::Core, key),
        Place::Mount(_, mount) => Address::new(Space::Data, format!("{}/{key}", mount.record.uuid)),
    };
    Ok(unit.get(&address).await?.is_none())
}

/// What the caller sent, also what no endpoint reads, without what the path carried: policies name
/// parameters, not paths, twice.
fn sent(
    destination: &Destination,
    folded: Option<&fields::Folded>,
    raw: &Map<String, Value>,
) -> Map<String, Value> {
    let captured = |name: &String| destination.captures.iter().any(|(capture, _)| capture == name);
    let values = folded.map_or(raw, |folded| &folded.values);
    let unknown = folded
        .into_iter()
        .flat_map(|folded| &folded.unknown)
        .filter_map(|name| raw.get_key_value(name));
    let sent = values.iter().filter(|(name, _)| !captured(name)).chain(unknown);
    sent.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn operation(verb: Verb, creates: bool) -> Operation {
    match verb {
        Verb::Read => Operation::Read,
        Verb::Write if creates => Operation::Create,
        Verb::Write => Operation::Update,
        Verb::Patch => Operation::Patch,
        Verb::Delete => Operation::Delete,
        Verb::List => Operation::List,
    }
}

/// That nothing is there is told only to those who might have been served.
fn refuse_unknown(acl: &Acl, request: &Request, nothing: Failure) -> Failure {
    let ask = |operation| {
        let question = Question {
            path: &request.path,
            operation,
            sudo: false,
            fields: &request.fields,
            schema: &[],
        };
        Permit::ask(acl, &question)
    };
    let asked = ask(operation(request.verb, false));
    let asked =
        if request.verb == Verb::Write { asked.or_else(|_| ask(Operation::Create)) } else { asked };
    asked.err().unwrap_or(nothing)
}

/// Refuses a body that is longer than the route takes, or bytes where it takes fields, or the other
/// way round.
pub(crate) fn check_body(route: &Route, request: &Request) -> Result<(), Failure> {
    match (route.raw, &request.raw) {
        (false, Some(_)) => {
            let message = "this path takes fields and not a component's bytes; send them as JSON";
            return Err(Failure::new(Kind::UnsupportedMediaType, message));
        }
        (true, None) => {
            return Err(Failure::invalid(
                "this path takes a component's bytes as its body, and its fields as query parameters: send the file \
                 itself, with Content-Type: application/wasm; files are not fetched from a plugin directory or a \
                 registry (command, oci_image), and components have neither args nor env",
            ));
        }
        (true, Some(_)) | (false, None) => {}
    }
    let body_bytes = request.body_bytes;
    let limit = if route.body_limit == 0 { BODY_LIMIT } else { route.body_limit };
    if body_bytes <= limit {
        return Ok(());
    }
    let message = format!("the body has {body_bytes} bytes; this path takes at most {limit}");
    Err(Failure::new(Kind::TooLarge, message))
}

/// Warnings about what the caller sent and nobody read.
fn unread(folded: &fields::Folded) -> Vec<String> {
    let mut warnings = Vec::new();
    if !folded.unknown.is_empty() {
        let names = folded.unknown.join(" ");
        warnings.push(format!("Endpoint ignored these unrecognized parameters: [{names}]"));
    }
    if !folded.overridden.is_empty() {
        let names = folded.overridden.join(" ");
        warnings.push(format!(
            "Endpoint replaced the value of these parameters with the values captured from its path: [{names}]"
        ));
    }
    warnings
}

/// JSON text of an object.
fn object_text(values: &Map<String, Value>) -> Result<String, Failure> {
    serde_json::to_string(values).map_err(|error| Failure::internal(error.to_string()))
}
