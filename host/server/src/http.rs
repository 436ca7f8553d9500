//! From an HTTP request to a [`Request`] and from a [`Response`] back: headers, token, and what of
//! the body is read, which the head decides (see [`crate::body`]).
//!
//! The attack this file stops: a client that hangs up halfway. What began for it goes on without
//! it, see [`DetachOnDrop`].

use crate::answer_body::AnswerBody;
use crate::body::{self, Content};
use crate::body_budget::{BodyBudget, BodyMemory};
use crate::client_concurrency::{ClientConcurrency, CountedRequest};
use crate::config::ListenerConfig;
use crate::detach_on_drop::{DetachOnDrop, Panicked};
use crate::headers;
use crate::target::{self, Target};
use bulkhead_core::random;
use bulkhead_core::{BodyAdmission, Service};
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::{Head, Request};
use bulkhead_wire::response::Response;

use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What stands behind the listener.
pub(crate) trait Answerer: Send + Sync + 'static {
    /// Answers one request; never fails, because failures are answers.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Response> + Send;

    /// What of the body of a request is read.
    fn admit_body(&self, head: &Head<'_>) -> impl Future<Output = BodyAdmission> + Send;
}

impl Answerer for Service {
    async fn answer(self: Arc<Self>, request: Request) -> Response {
        self.handle(request).await
    }

    async fn admit_body(&self, head: &Head<'_>) -> BodyAdmission {
        Self::admit_body(self, head).await
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
pub(crate) type Reply = hyper::Response<AnswerBody>;

/// A request, the memory that its body takes while it is worked on, and its count where its
/// connection does not count for it.
struct ParsedRequest {
    request: Request,
    memory: Option<BodyMemory>,
    counted: Option<Arc<CountedRequest>>,
}

/// What came with a request, and the memory that it takes.
struct Received {
    verb: Verb,
    content: Content,
    memory: Option<BodyMemory>,
}

impl<A: Answerer> HttpFrontend<A> {
    /// A frontend of `answerer` that lets in what `config` allows. The receiver of `work` ends
    /// when this and every request is gone.
    pub(crate) fn new(answerer: Arc<A>, config: ListenerConfig, work: mpsc::Sender<()>) -> Self {
        let body_budget = BodyBudget::new(config.body_max);
        let concurrency = ClientConcurrency::new(config.connections_per_address);
        Self { answerer, config, body_budget, concurrency, work }
    }

    /// Whether `peer` stands for many clients.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.config.proxies.trusts(peer)
    }

    /// Serves one request that came over a connection with `peer`.
    pub(crate) async fn serve<B>(&self, request: hyper::Request<B>, peer: SocketAddr) -> Reply
    where
        B: Body<Data = Bytes>,
    {
        let (head, body) = request.into_parts();
        let (mut reply, is_last) = match self.parse(&head, body, peer).await {
            // A proxy in front may have seen the end of such a body somewhere else.
            Ok(parsed) => {
                let counted = parsed.counted.clone();
                // That of one that is refused may be unread.
                let is_last = head.headers.contains_key(TRANSFER_ENCODING)
                    || parsed.request.refusal.is_some();
                let reply = into_reply(self.answer(parsed).await);
                (reply.map(|body| body.counted_by(counted)), is_last)
            }
            // Its body may be unread: what follows on this connection could be taken for a
            // request.
            Err(failure) => (into_reply(Response::failed(&failure)), true),
        };
        // HTTP/2 keeps its requests apart.
        if is_last && head.version < Version::HTTP_2 {
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
        let is_counted = remote.ip() != peer.ip() || head.version >= Version::HTTP_2;
        let counted =
            is_counted.then(|| self.concurrency.admit(remote.ip())).transpose()?.map(Arc::new);
        let Target { verb, path } = target::read(&head.method, head.uri.path())?;
        let token = headers::token(&head.headers)?;
        // From here on it is known who asks for what: a refusal leaves its lines in the audit.
        let asks = Head { verb, path: &path, token: token.as_ref(), remote: remote.ip() };
        let Received { verb, content, memory } = self.receive(head, &asks, body).await?;
        let Content { fields, raw, bytes: body_bytes, is_unread, refusal } = content;
        let (remote, remote_port) = (remote.ip(), remote.port());
        let request = Request {
            id: random::uuid()?,
            verb,
            path,
            token,
            fields,
            raw,
            body_bytes,
            is_unread,
            refusal,
            remote,
            remote_port,
        };
        Ok(ParsedRequest { request, memory, counted })
    }

    /// Receives what comes with a request beside its path and its token.
    ///
    /// # Errors
    /// As [`body::receive`].
    async fn receive<B>(&self, head: &Parts, asks: &Head<'_>, body: B) -> Result<Received, Failure>
    where
        B: Body<Data = Bytes>,
    {
        let verb = asks.verb;
        let mut checked = headers::refuse_unserved(&head.headers);
        if verb == Verb::Patch {
            checked = checked.and_then(|()| headers::check_patch(&head.headers));
        }
        let queried = checked.and_then(|()| target::query(verb, head.uri.query()));
        let (verb, fields) = match queried {
            Ok(queried) => queried,
            Err(refusal) => {
                return Ok(Received { verb, content: Content::refused(refusal, 0), memory: None });
            }
        };
        match verb {
            Verb::Write | Verb::Patch => {
                let mut memory = self.body_budget.begin(asks.remote);
                let admitted = match body.is_end_stream() {
                    true => BodyAdmission::Whole,
                    false => self.answerer.admit_body(asks).await,
                };
                let content =
                    body::receive((head, verb), body, &self.config, admitted, &mut memory);
                Ok(Received { verb, content: Box::pin(content).await?, memory: Some(memory) })
            }
            // clients send bodies with reads and deletes, and mean nothing by it
            Verb::Read | Verb::List | Verb::Delete => {
                let content = Content { fields, ..Content::default() };
                Ok(Received { verb, content, memory: None })
            }
        }
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

/// Puts an answer into HTTP. hyper leaves the body out where the request was a HEAD.
fn into_reply(response: Response) -> Reply {
    let (retry_after, max_age) = (response.retry_after, response.max_age());
    let (status, content_type, bytes) = response.into_bytes();
    // Both come from a component at times, whose nonsense is a fault of ours towards the client.
    let (Ok(status), Ok(content_type)) =
        (StatusCode::from_u16(status), HeaderValue::from_str(&content_type))
    else {
        return into_reply(Response::failed(&Failure::internal(
            "the answer has an impossible status or content type",
        )));
    };
    let mut reply = hyper::Response::new(AnswerBody::new(Bytes::from(bytes)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, cache_control(max_age));
    if let Some(milliseconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    }
    reply
}

/// Nothing is kept on its way but what says so itself: answers hold secrets.
fn cache_control(max_age: Option<u64>) -> HeaderValue {
    let text = max_age.map(|seconds| format!("max-age={seconds}"));
    text.and_then(|text| HeaderValue::try_from(text).ok())
        .unwrap_or(HeaderValue::from_static("no-store"))
}

#[cfg(test)]
mod tests;
