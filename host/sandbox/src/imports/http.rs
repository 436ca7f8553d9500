//! The `http` import: grant, vetted address, and an exchange in a separate task. Every request is
//! an effect, except GET, HEAD and POSTs that the component marks as safe. A component with a wrong
//! mark harms only its own mount: the call may be retried.
//!
//! This file prevents a plugin from reaching a server that the mount was not granted, and from
//! exceeding the mount's share. The name is checked before its resolution, and each address after.
//! This file prevents the pod's token from reaching another server than the pod's cluster, too: the
//! host adds the token only after the URL was compared with the environment, and no component sees
//! the token.

use crate::bindings::secrets_engine::bulkhead::plugin::http as contract;
use crate::call_tree::SideEffect;
use crate::contract::Failure;
use crate::effect::{self, EffectFailure};
use crate::limits::{self, ExceededLimit};
use crate::secrets::SecretSet;
use crate::state::{CallState, refusal};
use crate::target_calls::TargetInterface;
use bulkhead_outbound::addresses::{AllowedAddresses, Origin};
use bulkhead_outbound::ambient::AmbientSources;
use bulkhead_outbound::connections::ConnectionPermit;
use bulkhead_outbound::http::{
    self, ByteMeter, ConnectionReuse, HttpAnswer, HttpExchange, HttpFault, HttpHeader, HttpPoolKey,
    HttpRequest, HttpTls, Uri,
};
use bulkhead_wire::failure::{Failure as Refused, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use contract::{Host, Response};

use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The only identity that a request may use.
const POD: &str = "pod";

/// A request as the component asks for it.
struct AskedRequest {
    request: HttpRequest,
    /// Milliseconds; 0: the maximum.
    timeout: u32,
    /// The identity in whose name the request is sent.
    identity: Option<String>,
}

impl From<contract::Request> for AskedRequest {
    fn from(plugin_request: contract::Request) -> Self {
        let contract::Request { timeout, identity, .. } = plugin_request;
        let header = |contract::Header { name, value }| HttpHeader { name, value };
        let tls = |tls: contract::Tls| HttpTls {
            root_certificates: tls.root_certificates,
            client_certificate: tls.client_certificate,
            client_key: tls.client_key,
            server_name: tls.server_name,
        };
        let request = HttpRequest {
            method: plugin_request.method,
            url: plugin_request.url,
            headers: plugin_request.headers.into_iter().map(header).collect(),
            body: plugin_request.body,
            tls: plugin_request.tls.map(tls),
            secrets: plugin_request.secrets,
            safe: plugin_request.safe,
        };
        Self { request, timeout, identity }
    }
}

/// The server of a request, and the addresses to which the name may resolve.
struct HttpTarget {
    origin: Origin,
    asked: Uri,
    reach: AllowedAddresses,
}

impl Host for CallState {
    async fn send(
        &mut self,
        request: contract::Request,
    ) -> wasmtime::Result<Result<Response, Failure>> {
        let (request, target) = check_request(self, request)?;
        let meter = ByteMeter::new(&self.context.tree.http_bytes, self.limits().http_bytes);
        let done = match target {
            Ok(target) => send(self, target, request, &meter).await,
            Err(refused) => Err(refused),
        };
        if let Ok(response) = &done {
            self.spans.note_status(response.status);
        }
        self.note_target(TargetInterface::Http, done.is_ok());
        if meter.is_over() {
            return Err(ExceededLimit::size("http-bytes", self.limits().http_bytes).into());
        }
        Ok(done)
    }
}

/// Counts the host call and the request, and checks the grant of the origin.
fn check_request(
    state: &mut CallState,
    request: contract::Request,
) -> wasmtime::Result<(AskedRequest, Result<HttpTarget, Failure>)> {
    state.enter_target(TargetInterface::Http)?;
    let most = state.limits().http_calls;
    if state.context.tree.count_http_call() > most {
        return Err(ExceededLimit::count("http-calls", most).into());
    }
    let plugin_request = AskedRequest::from(request);
    state.charge(http::secrets(&plugin_request.request).map(str::len).sum())?;
    http::secrets(&plugin_request.request)
        .for_each(|secret| state.context.tree.secrets.add(secret));
    let (origin, uri) = match http::parse_url(&plugin_request.request.url) {
        Ok(parsed) => parsed,
        Err(why) => {
            let refused = report(state, "unknown", &Refused::invalid(why));
            return Ok((plugin_request, Err(refused)));
        }
    };
    let target = match vet(state, &plugin_request, &origin) {
        Ok(reach) => Ok(HttpTarget { origin, asked: uri, reach }),
        Err(refused) => Err(report(state, &origin.to_string(), &refused)),
    };
    Ok((plugin_request, target))
}

/// Returns the addresses to which the origin may resolve: by the origin's own grant, or by the
/// grant of the pod's cluster.
fn vet(
    state: &CallState,
    request: &AskedRequest,
    origin: &Origin,
) -> Result<AllowedAddresses, Refused> {
    let (grants, own) = (&state.context.grants, &state.resources.own_addresses);
    match request.identity.as_deref() {
        None => grants.reach_of_origin(origin, own),
        Some(POD) => {
            let reach = grants.reach_of_pod(own)?;
            let pod = state.resources.ambient.pod()?.ok_or_else(|| {
                let message = "this server is not a pod: the environment names no cluster";
                Refused::new(FailureKind::PreconditionFailed, message)
            })?;
            pod.check(origin).map(|()| reach)
        }
        Some(other) => Err(Refused::invalid(format!(
            "there is no request identity {}; give pod, or none",
            quoted(other)
        ))),
    }
}

async fn send(
    state: &mut CallState,
    target: HttpTarget,
    request: AskedRequest,
    meter: &ByteMeter,
) -> Result<Response, Failure> {
    let (origin, reach) = (target.origin.to_string(), target.reach.clone());
    let done = exchange(state, target, request, meter).await;
    done.map(response_of).map_err(|refused| match refused {
        SendFailure::Refused(refused) => report(state, &origin, &refused),
        SendFailure::Fault(HttpFault::Ungranted(address, what)) => {
            report(state, &origin, &reach.refusal(address, what))
        }
        SendFailure::Fault(fault) => {
            let failure = fault.failure();
            // A body that is too large would be too large again, so the kind differs from transient
            // failures.
            let is_too_large = fault == HttpFault::TooLarge;
            let kind = if is_too_large { FailureKind::TooLarge } else { failure.kind };
            let message = format!("{origin}: {}", failure.message);
            report(state, &origin, &Refused { kind, message, ..failure })
        }
    })
}

/// Reason for the lack of an answer.
enum SendFailure {
    Refused(Refused),
    Fault(HttpFault),
}

impl From<HttpFault> for SendFailure {
    fn from(fault: HttpFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refused> for SendFailure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<String> for SendFailure {
    fn from(why: String) -> Self {
        Self::Refused(Refused::invalid(why))
    }
}

async fn exchange(
    state: &mut CallState,
    target: HttpTarget,
    plugin_request: AskedRequest,
    meter: &ByteMeter,
) -> Result<HttpAnswer, SendFailure> {
    let HttpTarget { origin, asked: uri, reach } = target;
    let AskedRequest { mut request, timeout, identity } = plugin_request;
    let is_safe = http::is_safe(&request)?;
    let until = exchange_deadline(state, timeout);
    if identity.is_some() {
        let (resources, tree) = (Arc::clone(&state.resources), Arc::clone(&state.context.tree));
        add_pod_identity(&resources.ambient, &tree.secrets, &mut request).await?;
    }
    let outbound = &state.resources.outbound;
    // The pod's cluster is in the pod's own network, so no proxy is used.
    let proxy = outbound.proxy_to(&origin).filter(|_| identity.is_none());
    let tls = request.tls.as_ref();
    let secured = http::tls_settings(&state.resources.tls, &origin, tls)?;
    let keeping = is_safe.then(|| ConnectionReuse {
        kept: Arc::clone(&state.resources.kept),
        purpose: HttpPoolKey::of(state.context.compartment.mount(), &origin, tls),
    });
    let mut request = http::prepare(&origin, uri, request)?;
    let connection = acquire_connection(state, until).await?;
    state.begin_exchange(|| origin.to_string());
    if state.context.grants.passes_trace_to(&origin)
        && let Some(parent) = state.spans.context_for_target(state.context.trace.as_ref())
    {
        http::set_trace_context(&mut request, &parent);
    }
    let meter = meter.clone();
    let exchange =
        HttpExchange { origin, reach, proxy, secured, until, meter, connection, keeping };
    let work = http::exchange(exchange, request);
    if is_safe {
        state.context.tree.mark_effect(SideEffect::Safe);
        // A separate task, because TLS and HTTP need more stack than a call has. The task ends with
        // the call.
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        return match tasks.join_next().await {
            Some(Ok(done)) => Ok(done?),
            _ => Err(HttpFault::CutShort.into()),
        };
    }
    Ok(effect::run(&state.context, work).await.map_err(unanswered_effect)??)
}

/// Adds the pod's token and its cluster's authority, read from their files now, unless the
/// component gave its own. The caller has checked the destination.
async fn add_pod_identity(
    ambient: &AmbientSources,
    secrets: &SecretSet,
    request: &mut HttpRequest,
) -> Result<(), Refused> {
    if !request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("authorization")) {
        let token = ambient.pod_token().await?;
        secrets.add(&token);
        let (name, value) = ("authorization".to_owned(), format!("Bearer {token}"));
        request.headers.push(HttpHeader { name, value });
    }
    let tls = request.tls.get_or_insert_with(HttpTls::default);
    if tls.root_certificates.is_none() {
        tls.root_certificates = Some(ambient.pod_authority().await?);
    }
    Ok(())
}

fn unanswered_effect(unheard: EffectFailure) -> SendFailure {
    SendFailure::Refused(match unheard {
        EffectFailure::NoTime => Refused::new(
            FailureKind::TimedOut,
            "too little time is left in this call to begin a change",
        ),
        EffectFailure::TimedOut => return HttpFault::TimedOut.into(),
        EffectFailure::NotBegun => {
            Refused::new(FailureKind::Unreachable, "the request was not sent")
        }
        EffectFailure::NoAnswer => {
            Refused::new(FailureKind::Unreachable, "the answer to a change was lost")
        }
    })
}

/// Waits for a connection within the limits of the mount and the process.
async fn acquire_connection(
    state: &mut CallState,
    until: Instant,
) -> Result<ConnectionPermit, HttpFault> {
    let patience = until.min(Instant::now() + limits::CONNECTION_WAIT_TIMEOUT);
    let compartment = Arc::clone(&state.context.compartment);
    let all = Arc::clone(&state.resources.process.connections);
    timeout_at(patience, compartment.acquire_connection(all))
        .await
        .ok()
        .flatten()
        .ok_or(HttpFault::Busy)
}

/// Returns the latest end of the exchange.
fn exchange_deadline(state: &CallState, timeout: u32) -> Instant {
    let duration = Duration::from_millis(timeout.into());
    let time =
        if duration.is_zero() { limits::EFFECT_TIME } else { duration.min(limits::EFFECT_TIME) };
    state.context.deadline.min(Instant::now() + time)
}

fn response_of(answered: HttpAnswer) -> Response {
    let headers = answered
        .headers
        .into_iter()
        .map(|(name, value)| contract::Header { name, value })
        .collect();
    Response { status: answered.status, headers, body: answered.body.into(), ext: Vec::new() }
}

/// Returns the failure for the plugin, and logs the failure for the operator. Neither contains the
/// path or the query.
fn report(state: &CallState, origin: &str, refused: &Refused) -> Failure {
    let pairs = [
        ("target".to_owned(), state.scrub(origin)),
        ("cause".to_owned(), refused.kind.code().to_owned()),
        ("detail".to_owned(), state.scrub(&refused.message)),
    ];
    state.context.services.log(LogLevel::Warn, &state.plugin, "http-failed", &pairs);
    let message = state.scrub_for_caller(&refused.message);
    refusal(&Refused { message, ..refused.clone() })
}
