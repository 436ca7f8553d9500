//! From an HTTP request to a [`Request`] and from a [`Response`] back: sizes, times, headers,
//! token.
//!
//! The attacks this file stops: bodies without end or in drops, more of them than there is memory
//! (see [`BodyBudget`]), and a client that hangs up halfway: what began for it goes on without it,
//! see [`DetachOnDrop`].

use crate::body_budget::{BodyBudget, BodyMemory};
use crate::client_concurrency::{ClientConcurrency, CountedRequest};
use crate::config::ListenerConfig;
use crate::detach_on_drop::{DetachOnDrop, Panicked};
use crate::{headers, target};
use bulkhead_core::Service;
use bulkhead_core::random;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::json;
use bulkhead_wire::request::{RawBody, Request};
use bulkhead_wire::response::Response;
use bulkhead_wire::size;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue,
    RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Of a body that is too large so many times the limit is read all the same: a client that is still
/// sending does not see the answer.
const DRAIN: u64 = 2;

/// How long a body may take to arrive, unless `request_timeout` is shorter.
const BODY_TIME: Duration = Duration::from_secs(30);

/// What stands behind the listener.
pub(crate) trait Answerer: Send + Sync + 'static {
    /// Answers one request; never fails, because failures are answers.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Response> + Send;
}

impl Answerer for Service {
    async fn answer(self: Arc<Self>, request: Request) -> Response {
        self.handle(request).await
    }
}

/// Serves requests of every connection of a listener.
pub(crate) struct HttpFrontend<A> {
    answerer: Arc<A>,
    config: ListenerConfig,
    body_budget: Arc<BodyBudget>,
    concurrency: Arc<ClientConcurrency>,
    /// Each request's task holds a clone, so that the receiver learns when the last has ended.
    work: mpsc::Sender<()>,
}

/// What goes out.
pub(crate) type Reply = hyper::Response<Full<Bytes>>;

/// A request, the memory that its body takes while it is worked on, and its count where it came
/// through a proxy.
struct ParsedRequest {
    request: Request,
    memory: Option<BodyMemory>,
    counted: Option<CountedRequest>,
}

impl<A: Answerer> HttpFrontend<A> {
    /// A frontend of `answerer` that lets in what `config` allows. The receiver of `work` ends
    /// when this and every request is gone.
    pub(crate) fn new(answerer: Arc<A>, config: ListenerConfig, work: mpsc::Sender<()>) -> Self {
        let body_budget = BodyBudget::new(config.body_max);
        let concurrency = ClientConcurrency::new(config.connections_per_address);
        Self { answerer, config, body_budget, concurrency, work }
    }

    /// Serves one request that came over a connection with `peer`.
    pub(crate) async fn serve<B>(&self, request: hyper::Request<B>, peer: SocketAddr) -> Reply
    where
        B: Body<Data = Bytes>,
    {
        let (head, body) = request.into_parts();
        let (mut reply, is_last) = match self.parse(&head, body, peer).await {
            // A proxy in front may have seen the end of such a body somewhere else.
            Ok(parsed) => (
                into_reply(self.answer(parsed).await),
                head.headers.contains_key(TRANSFER_ENCODING),
            ),
            // Its body may be unread: what follows on this connection could be taken for a
            // request.
            Err(failure) => (into_reply(Response::failed(&failure)), true),
        };
        if is_last {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    async fn parse<B>(
        &self,
        head: &Parts,
        body: B,
        peer: SocketAddr,
    ) -> Result<ParsedRequest, Failure>
    where
        B: Body<Data = Bytes>,
    {
        headers::check_size(&head.headers)?;
        headers::check_server(head)?;
        let remote = self.config.proxies.client(peer, &head.headers)?;
        let counted =
            (remote.ip() != peer.ip()).then(|| self.concurrency.admit(remote.ip())).transpose()?;
        let target = target::read(&head.method, head.uri.path(), head.uri.query())?;
        headers::refuse_unserved(&head.headers)?;
        let token = headers::token(&head.headers)?;
        if target.verb == Verb::Patch {
            headers::check_patch(&head.headers)?;
        }
        let (content, body_bytes, memory) = match target.verb {
            Verb::Write | Verb::Patch => {
                let mut memory = self.body_budget.begin(remote.ip());
                let body = read_body(&head.headers, body, &self.config, &mut memory);
                let bytes = Box::pin(body).await?;
                let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                (read_content(head, target.verb, bytes)?, size, Some(memory))
            }
            // clients send bodies with reads and deletes, and mean nothing by it
            Verb::Read | Verb::List | Verb::Delete => {
                (Content { fields: target.fields, raw: None }, 0, None)
            }
        };
        let Content { fields, raw } = content;
        let id = random::uuid()?;
        let (remote, remote_port) = (remote.ip(), remote.port());
        let (verb, path) = (target.verb, target.path);
        let request =
            Request { id, verb, path, token, fields, raw, body_bytes, remote, remote_port };
        Ok(ParsedRequest { request, memory, counted })
    }

    async fn answer(&self, parsed: ParsedRequest) -> Response {
        let ParsedRequest { request, memory, counted } = parsed;
        let (answerer, work) = (Arc::clone(&self.answerer), self.work.clone());
        let answered = DetachOnDrop::new(Box::pin(async move {
            let response = answerer.answer(request).await;
            drop((work, memory, counted));
            response
        }));
        // The panic itself is in the log already, without its text (see log.rs).
        answered
            .await
            .unwrap_or_else(|Panicked| Response::failed(&Failure::internal("internal error")))
    }
}

/// What a request brings along.
struct Content {
    fields: Map<String, Value>,
    /// The body, where that is bytes.
    raw: Option<RawBody>,
}

/// Reads a body: JSON, a form, or a component's bytes. Of the last alone the query is read too,
/// because nothing else can carry its fields; any other write would get fields from where its
/// policies were never asked about them.
fn read_content(head: &Parts, verb: Verb, bytes: Vec<u8>) -> Result<Content, Failure> {
    if verb == Verb::Write && is_component(&head.headers, &bytes) {
        let fields = target::parameters(head.uri.query().unwrap_or_default())?;
        return Ok(Content { fields, raw: Some(RawBody::new(bytes)) });
    }
    let fields = if headers::is_form(&head.headers, &bytes) {
        let form = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::invalid("the form in the body is not UTF-8"))?;
        target::parameters(form)?
    } else {
        json::object(&bytes).map_err(Failure::invalid)?
    };
    Ok(Content { fields, raw: None })
}

/// Whether the body is WebAssembly: it says so, or it begins like it, as no JSON and no form can.
fn is_component(headers: &HeaderMap, bytes: &[u8]) -> bool {
    let declared =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let declared = declared.split(';').next().unwrap_or_default().trim();
    declared.eq_ignore_ascii_case("application/wasm") || bytes.starts_with(b"\0asm")
}

async fn read_body<B>(
    headers: &HeaderMap,
    body: B,
    config: &ListenerConfig,
    memory: &mut BodyMemory,
) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let within = BODY_TIME.min(config.request_time);
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A client that asks first is refused before it sends.
    if headers.contains_key(EXPECT) && declared.is_some_and(|size| size > config.body_max) {
        return Err(body_too_large(config.body_max));
    }
    // What is too large is read to be answered, not kept.
    memory.grow_to(declared.filter(|size| *size <= config.body_max).unwrap_or_default())?;
    let late =
        || Failure::invalid(format!("the body did not arrive within {} s", within.as_secs()));
    tokio::time::timeout(within, collect_body(body, config.body_max, memory))
        .await
        .map_err(|_| late())?
}

async fn collect_body<B>(body: B, most: u64, memory: &mut BodyMemory) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut kept = Vec::new();
    let mut received: u64 = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::invalid("the body ended before it was complete"))?;
        // trailers carry nothing for us
        let Ok(chunk) = frame.into_data() else { continue };
        received = received.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if received <= most {
            memory.grow_to(received)?;
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
        }
        if received > most.saturating_mul(DRAIN) {
            break;
        }
    }
    if received > most { Err(body_too_large(most)) } else { Ok(kept) }
}

fn body_too_large(most: u64) -> Failure {
    Failure::new(
        Kind::TooLarge,
        format!("request body too large: the most is {}", size::show(most)),
    )
}

/// Puts an answer into HTTP. hyper leaves the body out where the request was a HEAD.
fn into_reply(response: Response) -> Reply {
    let retry_after = response.retry_after;
    let (status, content_type, bytes) = response.into_bytes();
    // Both come from a component at times, whose nonsense is a fault of ours towards the client.
    let (Ok(status), Ok(content_type)) =
        (StatusCode::from_u16(status), HeaderValue::from_str(&content_type))
    else {
        return into_reply(Response::failed(&Failure::internal(
            "the answer has an impossible status or content type",
        )));
    };
    let mut reply = hyper::Response::new(Full::new(Bytes::from(bytes)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(milliseconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    }
    reply
}

#[cfg(test)]
mod tests;
