//! The `http` import: grant, vetted address, one exchange in a task of its own, and everything but
//! GET, HEAD and POSTs that are marked safe an effect. A component that marks what changes
//! something harms its own mount alone: its call may be run again.
//!
//! The attack this file stops: a plugin that reaches a server which its mount was not granted, or
//! reaches for more than its share. The name is asked before it is resolved, and each address
//! after. And the pod's token at another server than its cluster: it is added here, once the URL
//! was held against the environment, and no component sees it.

use crate::bindings::secrets_engine::bulkhead::plugin::http::{
    Header, Host, Request, Response, Tls,
};
use crate::call_tree::Effect;
use crate::compartment::Connection;
use crate::contract::Failure;
use crate::effect::{self, Unheard};
use crate::grants::{self, Origin, Reach};
use crate::host_services::Level;
use crate::http::{self, Answered, Exchange, HttpFault, Keeping, Meter, Purpose};
use crate::limits::{self, Exceeded};
use crate::secrets::SecretSet;
use crate::state::{CallState, refusal};
use crate::surroundings::Surroundings;
use bulkhead_wire::failure::{Failure as Refused, Kind, quoted};
use hyper::Uri;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The one identity in whose name a request may be sent.
const POD: &str = "pod";

/// Where a request goes, and to which addresses that may lead.
struct Target {
    origin: Origin,
    asked: Uri,
    reach: Reach,
}

impl Host for CallState {
    async fn send(&mut self, request: Request) -> wasmtime::Result<Result<Response, Failure>> {
        let asked = ask(self, &request)?;
        let meter = Meter::new(&self.context.tree, self.limits().http_bytes);
        let done = match asked {
            Ok(target) => send(self, target, request, &meter).await,
            Err(refused) => Err(refused),
        };
        if meter.is_over() {
            return Err(Exceeded::size("http-bytes", self.limits().http_bytes).into());
        }
        Ok(done)
    }
}

/// Counts the host call and the request, and asks the grant of its origin.
fn ask(state: &mut CallState, request: &Request) -> wasmtime::Result<Result<Target, Failure>> {
    state.enter()?;
    let most = state.limits().http_calls;
    if state.context.tree.count_http_call() > most {
        return Err(Exceeded::count("http-calls", most).into());
    }
    state.charge(http::secrets(request).map(str::len).sum())?;
    http::secrets(request).for_each(|secret| state.context.tree.secrets.add(secret));
    let (origin, asked) = match http::parse_url(&request.url) {
        Ok(parsed) => parsed,
        Err(why) => return Ok(Err(report(state, "unknown", &Refused::invalid(why)))),
    };
    Ok(match vet(state, request, &origin) {
        Ok(reach) => Ok(Target { origin, asked, reach }),
        Err(refused) => Err(report(state, &origin.to_string(), &refused)),
    })
}

/// To which addresses the origin may lead: by its own grant, or by that of the pod's cluster.
fn vet(state: &CallState, request: &Request, origin: &Origin) -> Result<Reach, Refused> {
    let (grants, own) = (&state.context.grants, &state.resources.own_addresses);
    match request.identity.as_deref() {
        None => grants.reach_of_origin(origin, own),
        Some(POD) => {
            let reach = grants.reach_of_pod(own)?;
            let pod = state.resources.surroundings.pod()?.ok_or_else(|| {
                let message = "this server is no pod: its environment names no cluster";
                Refused::new(Kind::PreconditionFailed, message)
            })?;
            pod.check(origin).map(|()| reach)
        }
        Some(other) => Err(Refused::invalid(format!(
            "there is no identity {} to send a request in the name of; give pod, or none",
            quoted(other)
        ))),
    }
}

async fn send(
    state: &mut CallState,
    target: Target,
    request: Request,
    meter: &Meter,
) -> Result<Response, Failure> {
    let (origin, reach) = (target.origin.to_string(), target.reach.clone());
    let done = exchange(state, target, request, meter).await;
    done.map(response_of).map_err(|refused| match refused {
        Unsent::Refused(refused) => report(state, &origin, &refused),
        Unsent::Fault(HttpFault::Ungranted(address, what)) => {
            report(state, &origin, &grants::ungranted_address(&reach, address, what))
        }
        Unsent::Fault(fault) => {
            let failure = fault.failure();
            // What would be answered alike is told apart from what may pass.
            let is_too_large = fault == HttpFault::TooLarge;
            let kind = if is_too_large { Kind::TooLarge } else { failure.kind };
            let message = format!("{origin}: {}", failure.message);
            report(state, &origin, &Refused { kind, message, ..failure })
        }
    })
}

/// Why there is no answer.
enum Unsent {
    Refused(Refused),
    Fault(HttpFault),
}

impl From<HttpFault> for Unsent {
    fn from(fault: HttpFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refused> for Unsent {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<String> for Unsent {
    fn from(why: String) -> Self {
        Self::Refused(Refused::invalid(why))
    }
}

async fn exchange(
    state: &mut CallState,
    target: Target,
    mut request: Request,
    meter: &Meter,
) -> Result<Answered, Unsent> {
    let Target { origin, asked, reach } = target;
    let is_safe = http::is_safe(&request)?;
    let until = until(state, request.timeout);
    if request.identity.is_some() {
        let (resources, tree) = (Arc::clone(&state.resources), Arc::clone(&state.context.tree));
        add_pod_identity(&resources.surroundings, &tree.secrets, &mut request).await?;
    }
    let outbound = &state.resources.outbound;
    // The pod's cluster is where the pod is.
    let proxy = outbound.proxy_to(&origin).filter(|_| request.identity.is_none());
    let tls = request.tls.as_ref();
    let secured = http::secure(&state.resources.tls, &origin, tls)?;
    let keeping = is_safe.then(|| Keeping {
        kept: Arc::clone(&state.resources.kept),
        purpose: Purpose::of(state.context.compartment.mount(), &origin, tls),
    });
    let request = http::prepare(&origin, asked, request)?;
    let connection = acquire_connection(state, until).await?;
    let meter = meter.clone();
    let exchange = Exchange { origin, reach, proxy, secured, until, meter, connection, keeping };
    let work = http::exchange(exchange, request);
    if is_safe {
        state.context.tree.mark(Effect::Safe);
        // A task of its own, because TLS and HTTP go deeper than the stack of a call; it ends with
        // the call.
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        return match tasks.join_next().await {
            Some(Ok(done)) => Ok(done?),
            _ => Err(HttpFault::CutShort.into()),
        };
    }
    Ok(effect::run(&state.context, work).await.map_err(of_unheard)??)
}

/// Adds the pod's token and its cluster's authority, as their files are now, unless the component
/// brought its own. Where it goes was checked before.
async fn add_pod_identity(
    surroundings: &Surroundings,
    secrets: &SecretSet,
    request: &mut Request,
) -> Result<(), Refused> {
    if !request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("authorization")) {
        let token = surroundings.pod_token().await?;
        secrets.add(&token);
        let (name, value) = ("authorization".to_owned(), format!("Bearer {token}"));
        request.headers.push(Header { name, value });
    }
    let tls = request.tls.get_or_insert_with(|| Tls {
        root_certificates: None,
        client_certificate: None,
        client_key: None,
        server_name: None,
        ext: Vec::new(),
    });
    if tls.root_certificates.is_none() {
        tls.root_certificates = Some(surroundings.pod_authority().await?);
    }
    Ok(())
}

fn of_unheard(unheard: Unheard) -> Unsent {
    Unsent::Refused(match unheard {
        Unheard::NoTime => {
            Refused::new(Kind::TimedOut, "too little time is left in this call to begin a change")
        }
        Unheard::TimedOut => return HttpFault::TimedOut.into(),
        Unheard::NotBegun => Refused::new(Kind::Unreachable, "the request was not sent"),
        Unheard::NoAnswer => Refused::new(Kind::Unreachable, "the answer to a change was lost"),
    })
}

/// A connection of those that the mount and the process may have.
async fn acquire_connection(
    state: &mut CallState,
    until: Instant,
) -> Result<Connection, HttpFault> {
    let patience = until.min(Instant::now() + limits::CONNECTION_PATIENCE);
    let compartment = Arc::clone(&state.context.compartment);
    let all = Arc::clone(&state.resources.process.connections);
    timeout_at(patience, compartment.acquire_connection(all))
        .await
        .ok()
        .flatten()
        .ok_or(HttpFault::Busy)
}

/// When the exchange is over at the latest.
fn until(state: &CallState, timeout: u32) -> Instant {
    let asked = Duration::from_millis(timeout.into());
    let time = if asked.is_zero() { limits::EFFECT_TIME } else { asked.min(limits::EFFECT_TIME) };
    state.context.deadline.min(Instant::now() + time)
}

fn response_of(answered: Answered) -> Response {
    let headers =
        answered.headers.into_iter().map(|(name, value)| Header { name, value }).collect();
    Response { status: answered.status, headers, body: answered.body.into(), ext: Vec::new() }
}

/// The failure as the plugin sees it, reported to the operator too. Neither path nor query is in
/// it.
fn report(state: &CallState, origin: &str, refused: &Refused) -> Failure {
    let pairs = [
        ("target".to_owned(), state.scrub(origin)),
        ("cause".to_owned(), refused.kind.code().to_owned()),
        ("detail".to_owned(), state.scrub(&refused.message)),
    ];
    state.context.services.log(Level::Warn, &state.plugin.title(), "http-failed", &pairs);
    let message = state.scrub_for_caller(&refused.message);
    refusal(&Refused { message, ..refused.clone() })
}
