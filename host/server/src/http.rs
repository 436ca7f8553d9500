//! Conversion between HTTP and the core's [`Request`] and [`Response`]: headers, token, and the
//! admitted part of the body, which the request's head decides (see [`crate::body`]).
//!
//! This file prevents a client that disconnects early from cutting its request short: the work
//! continues without the client, see [`DetachOnDrop`].

use crate::answer_body::UnsentBody;
use crate::answer_budget::AnswerBudget;
use crate::answerer::RequestAnswerer;
use crate::body::{self, BodyContent, BodyHead};
use crate::body_budget::{BodyBudget, BodyMemory};
use crate::client_concurrency::{ClientConcurrency, CountedRequest};
use crate::config::ListenerConfig;
use crate::detach_on_drop::{DetachOnDrop, PanickedFuture};
use crate::headers::{self, STATE};
use crate::proxies::ConnectionOrigin;
use crate::target::{self, RequestTarget};
use bulkhead_access::random;
use bulkhead_api::BodyAdmission;
use bulkhead_wire::client::Client;
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::request::{METRICS_PATH, MetricsTerms, Request, RequestHead};
use bulkhead_wire::response::Response;

use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER,
    TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of simultaneous requests on an HTTP/2 connection for callers without a valid
/// token. Clients behind a trusted proxy are counted separately.
const MAX_PUBLIC_STREAMS: u64 = 16;

/// Retry delay after a request over that maximum, in milliseconds.
const RETRY_STREAM_AFTER: u64 = 1_000;

/// The connection of a request, and the number of requests in flight on that connection.
#[derive(Clone, Copy)]
pub(crate) struct RequestArrival {
    /// Origin of the connection.
    pub(crate) origin: ConnectionOrigin,
    /// Number of the connection's requests, including this request, that are being served or whose
    /// answers are not fully sent.
    pub(crate) requests: u64,
}

/// The HTTP front end that serves the requests of all connections of a listener.
pub(crate) struct HttpFrontend<A> {
    pub(crate) answerer: Arc<A>,
    pub(crate) config: ListenerConfig,
    /// The mount that owns the listener.
    pub(crate) own_mount: Option<MountPath>,
    pub(crate) body_budget: Arc<BodyBudget>,
    answer_budget: Arc<AnswerBudget>,
    pub(crate) concurrency: Arc<ClientConcurrency>,
    /// Each request's task holds a clone, so that the receiver learns when the last task has ended.
    work: mpsc::Sender<()>,
}

/// An answer as hyper sends it.
pub(crate) type HttpReply = hyper::Response<UnsentBody>;

/// A request, the memory reserved for its body, and its place in the client's concurrency limit if
/// its connection does not count for the limit.
struct ParsedRequest {
    request: Request,
    memory: Option<BodyMemory>,
    counted: Option<Arc<CountedRequest>>,
}

/// The content of a request and the memory reserved for the content.
struct ReceivedContent {
    verb: Verb,
    content: BodyContent,
    wrap_ttl: Option<u64>,
    memory: Option<BodyMemory>,
}

/// Checks the headers about the form of request and answer. Returns the lifetime of the wrapping
/// token.
fn check_headers(
    headers: &HeaderMap,
    verb: Verb,
    audited: &BTreeMap<String, bool>,
) -> Result<Option<u64>, Failure> {
    headers::refuse_unserved(headers, audited)?;
    (verb == Verb::Patch).then(|| headers::check_patch(headers)).transpose()?;
    headers::wrap_ttl(headers)
}

impl<A: RequestAnswerer> HttpFrontend<A> {
    /// Creates a front end for `answerer` with the limits of `config`. The receiver of `work` ends
    /// when the front end and every request are gone.
    pub(crate) fn new(answerer: Arc<A>, config: ListenerConfig, work: mpsc::Sender<()>) -> Self {
        let body_budget = BodyBudget::new(config.body_max);
        let concurrency = ClientConcurrency::new(config.connections_per_address);
        let answer_budget = Arc::default();
        let own_mount = config.own_mount.clone();
        Self { answerer, config, own_mount, body_budget, answer_budget, concurrency, work }
    }

    /// Returns whether `peer` is a trusted proxy, which carries the requests of many clients.
    pub(crate) fn trusts(&self, peer: ConnectionOrigin) -> bool {
        self.config.proxies.is_proxy(peer)
    }

    /// Budget for answers that clients have not read yet.
    pub(crate) fn answer_budget(&self) -> &Arc<AnswerBudget> {
        &self.answer_budget
    }

    /// Serves a request.
    pub(crate) async fn serve<B>(
        &self,
        request: hyper::Request<B>,
        arrival: RequestArrival,
    ) -> HttpReply
    where
        B: Body<Data = Bytes>,
    {
        let (head, body) = request.into_parts();
        if let Some(place) = self.raw_place(&head) {
            let method = head.method.clone();
            let reply = Box::pin(self.serve_raw(head, body, arrival, place)).await;
            return without_forbidden_body(reply, &method);
        }
        let (mut reply, is_last) = match self.parse(&head, body, arrival).await {
            // A proxy in front may have seen the end of a chunked body at another place (request
            // smuggling), so the connection is not used again.
            Ok(parsed) => {
                let (counted, client) = (parsed.counted.clone(), Client::of(parsed.request.remote));
                // The body of a refused request may be unread.
                let is_last = head.headers.contains_key(TRANSFER_ENCODING)
                    || parsed.request.refusal.is_some();
                let reply = into_reply(self.answer(parsed).await, client);
                (reply.map(|body| body.counted_by(counted)), is_last)
            }
            // The rest of an unread body could be taken for the next request of the connection.
            Err(failure) => {
                let client = Client::of(arrival.origin.address().ip());
                (into_reply(Response::failed(&failure), client), true)
            }
        };
        // HTTP/2 frames its requests, so that only older versions need the close.
        if is_last && head.version < Version::HTTP_2 {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        without_forbidden_body(reply, &head.method)
    }

    async fn parse<B>(
        &self,
        head: &Parts,
        body: B,
        arrival: RequestArrival,
    ) -> Result<ParsedRequest, Failure>
    where
        B: Body<Data = Bytes>,
    {
        headers::check_size(&head.headers)?;
        headers::check_server(head)?;
        let remote = self.config.proxies.client(arrival.origin, &head.headers)?;
        // The connections of a proxy are not counted, even if the proxy itself is the client.
        let is_counted = self.trusts(arrival.origin) || head.version >= Version::HTTP_2;
        let counted =
            is_counted.then(|| self.concurrency.admit(remote.ip())).transpose()?.map(Arc::new);
        let RequestTarget { verb, path } =
            target::read(&head.method, head.uri.path(), head.uri.query())?;
        let token = headers::token(&head.headers)?;
        // From here on a malformed query or body becomes a request with a refusal, which the audit
        // log records. The rate limits below are not recorded.
        let (asking, wrap_ttl) = (token.as_ref(), None);
        let asks = RequestHead { verb, path: &path, token: asking, remote: remote.ip(), wrap_ttl };
        self.check_streams(arrival, self.answerer.has_token(&asks)).await?;
        let ReceivedContent { verb, content, wrap_ttl, memory } =
            self.receive(head, &asks, body).await?;
        let BodyContent { fields, raw, file, bytes: body_bytes, is_unread, refusal } = content;
        let (remote, remote_port) = (remote.ip(), remote.port());
        let metrics = self.metrics_terms(&path, arrival.origin, &head.headers);
        let is_tracing = self.answerer.is_tracing();
        let trace_parent = is_tracing.then(|| headers::trace_parent(&head.headers)).flatten();
        let request = Request {
            id: random::uuid()?,
            verb,
            path,
            token,
            fields,
            raw,
            file,
            body_bytes,
            is_unread,
            refusal,
            audited_headers: headers::audited(&head.headers, &self.answerer.audited_headers()),
            wrap_ttl,
            remote,
            remote_port,
            metrics,
            trace_parent,
            required_states: headers::required_states(&head.headers),
        };
        Ok(ParsedRequest { request, memory, counted })
    }

    /// Returns the terms of a request for metrics; the usual terms for every other path.
    fn metrics_terms(
        &self,
        path: &str,
        origin: ConnectionOrigin,
        headers: &HeaderMap,
    ) -> MetricsTerms {
        if path != METRICS_PATH {
            return MetricsTerms::default();
        }
        MetricsTerms {
            needs_no_token: self.config.opens_metrics_to(origin),
            prefers_text: headers::prefers_metrics_text(headers),
        }
    }

    /// Refuses a request that exceeds the stream limit for callers without a valid token. Looks at
    /// the token only if the connection exceeds the limit.
    ///
    /// # Errors
    /// 429, with a retry delay.
    pub(crate) async fn check_streams(
        &self,
        arrival: RequestArrival,
        has_token: impl Future<Output = bool>,
    ) -> Result<(), Failure> {
        let is_within = arrival.requests <= MAX_PUBLIC_STREAMS || self.trusts(arrival.origin);
        if is_within || has_token.await {
            return Ok(());
        }
        let message = format!(
            "this connection has {MAX_PUBLIC_STREAMS} requests at this moment, the maximum without \
             a token; wait for an answer, then send this request again"
        );
        Err(Failure {
            retry_after: Some(RETRY_STREAM_AFTER),
            ..Failure::new(FailureKind::RateLimited, message)
        })
    }

    /// Receives the query and the body of a request.
    ///
    /// # Errors
    /// As [`body::receive`].
    async fn receive<B>(
        &self,
        head: &Parts,
        asks: &RequestHead<'_>,
        body: B,
    ) -> Result<ReceivedContent, Failure>
    where
        B: Body<Data = Bytes>,
    {
        let verb = asks.verb;
        let checked = check_headers(&head.headers, verb, &self.answerer.audited_headers());
        let queried = checked.and_then(|wrap_ttl| {
            let (verb, fields) = target::query(verb, head.uri.query())?;
            Ok((verb, fields, wrap_ttl))
        });
        let (verb, fields, wrap_ttl) = match queried {
            Ok(queried) => queried,
            Err(refusal) => {
                let content = BodyContent::from_refusal(refusal, 0);
                return Ok(ReceivedContent { verb, content, wrap_ttl: None, memory: None });
            }
        };
        // Most reads and deletes have no body. Some clients send one, which is read as that of a
        // write.
        if body.is_end_stream() && !matches!(verb, Verb::Write | Verb::Patch) {
            let content = BodyContent { fields, ..BodyContent::default() };
            return Ok(ReceivedContent { verb, content, wrap_ttl, memory: None });
        }
        let mut memory = self.body_budget.begin(asks.remote);
        let asks = RequestHead { verb, wrap_ttl, ..*asks };
        let admitted = match body.is_end_stream() {
            true => BodyAdmission::Whole,
            false => self.answerer.admit_body(&asks).await,
        };
        let head = BodyHead { parts: head, verb };
        let content = body::receive(head, fields, body, &self.config, admitted, &mut memory);
        let content = Box::pin(content).await?;
        Ok(ReceivedContent { verb, content, wrap_ttl, memory: Some(memory) })
    }

    async fn answer(&self, parsed: ParsedRequest) -> Response {
        let ParsedRequest { request, memory, counted } = parsed;
        let (answerer, work) = (Arc::clone(&self.answerer), self.work.clone());
        let answered = DetachOnDrop::new(Box::pin(async move {
            let response = answerer.answer(request).await;
            drop((work, memory, counted));
            response
        }));
        // The panic hook has already logged the panic without its text (see log.rs).
        answered
            .await
            .unwrap_or_else(|PanickedFuture| Response::failed(&Failure::internal("internal error")))
    }
}

/// Removes the body that the request's method or the status forbids. hyper removes such a body in
/// HTTP/1.1 but sends it in HTTP/2, where clients take the body for a connection error.
fn without_forbidden_body(reply: HttpReply, method: &Method) -> HttpReply {
    let has_none = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&reply.status());
    if !has_none && *method != Method::HEAD {
        return reply;
    }
    let length = reply.body().len();
    let mut reply = reply.map(UnsentBody::without_bytes);
    if let Some(length) = length.filter(|_| !has_none) {
        reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    reply
}

/// Converts an answer to `client` into HTTP.
fn into_reply(response: Response, client: Client) -> HttpReply {
    let (retry_after, max_age) = (response.retry_after, response.max_age());
    let state = response.state.as_deref().and_then(|state| HeaderValue::from_str(state).ok());
    let (status, content_type, content) = response.into_content();
    // A component sometimes supplies both values. If the values are invalid, the client gets an
    // internal error.
    let (Ok(status), Ok(content_type)) =
        (StatusCode::from_u16(status), HeaderValue::from_str(&content_type))
    else {
        let why = "the answer has an impossible status or content type";
        return into_reply(Response::failed(&Failure::internal(why)), client);
    };
    let mut reply = hyper::Response::new(UnsentBody::new(content, client));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, cache_control(max_age));
    if let Some(milliseconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    }
    if let Some(state) = state {
        headers.insert(STATE, state);
    }
    reply
}

/// Returns the Cache-Control value: `no-store`, because answers hold secrets, unless the answer
/// names a maximum age.
fn cache_control(max_age: Option<u64>) -> HeaderValue {
    let text = max_age.map(|seconds| format!("max-age={seconds}"));
    text.and_then(|text| HeaderValue::try_from(text).ok())
        .unwrap_or(HeaderValue::from_static("no-store"))
}

#[cfg(test)]
mod tests;
