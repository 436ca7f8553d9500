//! THE LIFE OF A REQUEST.
//!
//! [`once`] is the whole of it, step by step; each step is a call that returns here. On a conflict it
//! runs again from the start, unless something outside may have been changed. Whatever goes wrong, a
//! response leaves and nothing half-done stays.

mod answer;
mod destination;
mod visit;

use crate::core::Core;
use crate::permit::Permit;
use crate::policies::acl::{Acl, Question};
use crate::tokens::{self, Caller};
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

/// Serves one request: runs it, and runs it again on a conflict while nothing outside was changed.
pub(crate) async fn handle(core: &Arc<Core>, request: &Request) -> Response {
    let mut run = 1;
    loop {
        let mut effect = Effect::Pure;
        match once(core, request, &mut effect).await {
            Ok(response) => return response,
            Err(failure) if failure.kind == Kind::Conflict && effect < Effect::Effect && run < RUNS => {
                tokio::time::sleep(Duration::from_millis(u64::from(run * run))).await;
                run += 1;
            }
            Err(failure) => return Response::failed(&failure),
        }
    }
}

/// One run, as architecture §3 numbers the steps. `effect` tells what the run did to the world.
async fn once(core: &Arc<Core>, request: &Request, effect: &mut Effect) -> Result<Response, Failure> {
    // 1. Where does it go? Kept to ourselves until policy has spoken (decision P11).
    let destination = destination::find(core, request);

    // 2. Who calls, and what may they do? Read before the unit of work begins: a token that is renewed meanwhile is no
    //    reason to run again. Whatever writes asks once more, in its commit.
    let caller = tokens::authenticate(&core.store, request.token.as_ref()).await?;
    let acl = core.policies.acl(&core.store, &caller.record.policies).await?;

    // 3. Fields in canonical names, and create told from update by what exists.
    let destination = match destination {
        Ok(destination) => destination,
        Err(nothing) => return Err(refuse_unknown(&acl, request, nothing)),
    };
    let mut unit = match &destination.place {
        Place::Host(_) => core.store.begin(),
        Place::Mount(_, mount) => mount.begin(&core.store),
    };
    let route = destination.route(core).ok_or_else(|| Failure::internal("the route table changed under a request"))?;
    let folded = fields::fold(route, &request.fields, &destination.captures);
    let creates = creates(&mut unit, &destination, route).await;

    // 4. Policy, which yields the permit. It sees the raw fields only where they do not fold, which is
    //    told to nobody who may not call.
    let sent = sent(&destination, folded.as_ref().map_or(&request.fields, |folded| &folded.values));
    let question = Question {
        path: &request.path,
        operation: operation(request.verb, creates.as_ref().is_ok_and(|creates| *creates)),
        sudo: route.sudo,
        fields: &sent,
        schema: &route.fields,
    };
    let permit = Permit::ask(&acl, &question)?;
    let (mut folded, creates) = (folded?, creates?);
    within_limit(route, request.body_bytes)?;
    if request.verb == Verb::Write {
        fields::complete(route, &mut folded.values, creates || route.existence.is_none())?;
    }

    // 5. The endpoint itself, then one commit, then the answer.
    let visit = Visit { core, request, destination: &destination, route, caller: &caller, permit, folded, creates };
    match &destination.place {
        Place::Host(endpoint) => visit.host(*endpoint, unit, effect).await,
        Place::Mount(_, mount) if route.list.is_some() => visit.list(mount, unit).await,
        Place::Mount(_, mount) => visit.component(mount, unit, effect).await,
    }
}

/// Everything that is known of a permitted request.
struct Visit<'a> {
    core: &'a Arc<Core>,
    request: &'a Request,
    destination: &'a Destination,
    route: &'a Route,
    caller: &'a Caller,
    permit: Permit,
    folded: fields::Folded,
    creates: bool,
}

/// Does this write make an object that does not exist? Read in the unit, so that it is checked again.
async fn creates(unit: &mut Unit, destination: &Destination, route: &Route) -> Result<bool, Failure> {
    let (Some(pattern), Place::Mount(_, mount)) = (&route.existence, &destination.place) else {
        return Ok(false);
    };
    let key = format!("{}/{}", mount.record.uuid, route::fill(pattern, &destination.captures));
    Ok(unit.get(&Address::new(Space::Data, key)).await?.is_none())
}

/// What the caller sent, without what the path carried: policies name parameters, not paths, twice.
fn sent(destination: &Destination, values: &Map<String, Value>) -> Map<String, Value> {
    let captured = |name: &String| destination.captures.iter().any(|(capture, _)| capture == name);
    values.iter().filter(|(name, _)| !captured(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
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
        let question = Question { path: &request.path, operation, sudo: false, fields: &request.fields, schema: &[] };
        Permit::ask(acl, &question)
    };
    let asked = ask(operation(request.verb, false));
    let asked = if request.verb == Verb::Write { asked.or_else(|_| ask(Operation::Create)) } else { asked };
    asked.err().unwrap_or(nothing)
}

/// Refuses a body that is longer than the route takes.
pub(crate) fn within_limit(route: &Route, body_bytes: u64) -> Result<(), Failure> {
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
