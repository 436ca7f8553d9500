//! Plain HTTP requests for a component: conversion into a [`RawRequest`] and back.
//!
//! These requests pass the same limits as all others, but have no token, fields or envelope for
//! this server. A request that waits for a change is abandoned when its client disconnects, because
//! hyper then drops the future.
//!
//! This file prevents an unauthenticated caller from making the server hold large bodies: a body of
//! more than 64 KiB is received only if the component knows the caller.

use crate::answer_body::UnsentBody;
use crate::answerer::RequestAnswerer;
use crate::body;
use crate::body_budget::BodyMemory;
use crate::client_concurrency::CountedRequest;
use crate::compression::{self, ContentCoding};
use crate::config::ListenerConfig;
use crate::headers;
use crate::http::{HttpFrontend, HttpReply, RequestArrival};
use crate::target;
use bulkhead_access::random;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::response::ResponseBytes;
use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, HeaderName, HeaderValue, TRANSFER_ENCODING, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
use std::sync::Arc;

impl<A: RequestAnswerer> HttpFrontend<A> {
    /// Returns the plain HTTP place of a request, if any. On a mount's own listener every request
    /// has a place.
    pub(crate) fn raw_place(&self, head: &Parts) -> Option<RawBasePath> {
        match &self.own_mount {
            Some(mount) => Some(self.answerer.own_raw_place(mount)),
            None => {
                let path = head.uri.path();
                let place = self.answerer.raw_place(path.strip_prefix("/v1/")?)?;
                // Rows are looked up by the canonical path, so that no other spelling bypasses a
                // row. An invalid path has no place here and is refused as an API path.
                let target = target::read(&Method::GET, path, None).ok()?;
                (!self.answerer.is_row(&target.path)).then_some(place)
            }
        }
    }

    /// Serves a plain HTTP request.
    pub(crate) async fn serve_raw<B>(
        &self,
        head: Parts,
        body: B,
        arrival: RequestArrival,
        place: RawBasePath,
    ) -> HttpReply
    where
        B: Body<Data = Bytes>,
    {
        let terms = ReplyTerms::of(&head);
        let received = Box::pin(self.receive_raw(&head, body, arrival, place)).await;
        // A waiting request keeps only the headers that its component reads.
        drop(head);
        let (mut reply, is_last) = match received {
            Ok(ReceivedRequest { request, memory, counted }) => {
                let client = Client::of(request.remote.0);
                // The body of a refused request may be unread.
                let is_last = terms.is_chunked || request.refusal.is_some();
                let response = Box::pin(self.answerer.clone().answer_raw(request)).await;
                drop(memory);
                let reply = into_reply(&terms, response, client);
                (reply.map(|body| body.counted_by(counted)), is_last)
            }
            // The rest of an unread body could be taken for the next request of the connection.
            Err(failure) => {
                let client = Client::of(arrival.origin.address().ip());
                (into_reply(&terms, RawResponse::failed(&failure), client), true)
            }
        };
        if is_last && terms.version < Version::HTTP_2 {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    /// Receives the request. A body that cannot be received becomes the refusal of the request,
    /// which the audit log records.
    async fn receive_raw<B>(
        &self,
        head: &Parts,
        body: B,
        arrival: RequestArrival,
        place: RawBasePath,
    ) -> Result<ReceivedRequest, Failure>
    where
        B: Body<Data = Bytes>,
    {
        headers::check_size(&head.headers)?;
        headers::check_server(head)?;
        headers::refuse_of_plain_http(&head.headers)?;
        let remote = self.config.proxies.client(arrival.origin, &head.headers)?;
        let is_counted = self.trusts(arrival.origin) || head.version >= Version::HTTP_2;
        let counted =
            is_counted.then(|| self.concurrency.admit(remote.ip())).transpose()?.map(Arc::new);
        let path = head.uri.path();
        let path = path.strip_prefix(place.base.as_str()).unwrap_or_default().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        // A header that is not text is kept with replaced bytes: an unreadable token is different
        // from no token.
        let headers = head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let is_tracing = self.answerer.is_tracing();
        let mut request = RawRequest {
            id: random::uuid()?,
            method: head.method.as_str().to_owned(),
            canonical_path: target::plain_path(&path)?,
            path,
            query,
            headers: headers.collect(),
            audited_headers: headers::audited(&head.headers, &self.answerer.audited_headers()),
            body: Vec::new(),
            refusal: None,
            remote: (remote.ip(), remote.port()),
            trace_parent: is_tracing.then(|| headers::trace_parent(&head.headers)).flatten(),
            place,
        };
        let identified = async {
            self.answerer.identify_raw(request.clone()).await.is_ok_and(|is_known| is_known)
        };
        self.check_streams(arrival, identified).await?;
        let mut memory = self.body_budget.begin(remote.ip());
        let received = match target::check_parameters(&request.query) {
            Ok(()) => self.receive_raw_body(head, body, &request, &mut memory).await?,
            Err(refusal) => Err(refusal),
        };
        match received {
            Ok(body) => request.body = body,
            Err(refusal) => request.refusal = Some(refusal),
        }
        Ok(ReceivedRequest { request, memory, counted })
    }

    /// Receives the body of a request: 64 KiB, or the limit of its place if the component knows the
    /// caller. Returns the refusal of a body that cannot be received.
    ///
    /// # Errors
    /// 429 over the rate limit for unauthenticated callers, which is sent without an audit record.
    async fn receive_raw_body<B>(
        &self,
        head: &Parts,
        body: B,
        request: &RawRequest,
        memory: &mut BodyMemory,
    ) -> Result<Result<Vec<u8>, Failure>, Failure>
    where
        B: Body<Data = Bytes>,
    {
        if body.is_end_stream() {
            return Ok(Ok(Vec::new()));
        }
        self.answerer.check_raw(request.remote.0).await?;
        let mut body_max = self.config.body_max.min(request.place.body_limit);
        if body_max > body::MAX_PUBLIC_BODY && body::may_exceed_public(&body) {
            match self.answerer.identify_raw(request.clone()).await {
                Ok(true) => {}
                Ok(false) => body_max = body::MAX_PUBLIC_BODY,
                Err(failure) if failure.kind == FailureKind::RateLimited => return Err(failure),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let config = ListenerConfig { body_max, ..self.config.clone() };
        Ok(body::read_body(&head.headers, body, &config, memory).await)
    }
}

/// A request, the memory reserved for its body, and its place in the concurrency limit.
struct ReceivedRequest {
    request: RawRequest,
    memory: BodyMemory,
    counted: Option<Arc<CountedRequest>>,
}

/// The part of a request's head that decides the form of the answer.
struct ReplyTerms {
    coding: Option<ContentCoding>,
    is_chunked: bool,
    version: Version,
}

impl ReplyTerms {
    fn of(head: &Parts) -> Self {
        Self {
            coding: compression::requested_coding(&head.headers),
            is_chunked: head.headers.contains_key(TRANSFER_ENCODING),
            version: head.version,
        }
    }
}

/// Converts an answer into HTTP, compressed if the client accepts compression.
fn into_reply(terms: &ReplyTerms, response: RawResponse, client: Client) -> HttpReply {
    let RawResponse { status, headers, body } = response;
    let coding = terms.coding.filter(|_| !body.is_empty());
    let content = match coding {
        Some(coding) => ResponseBytes::Own(coding.compress(&body)),
        None => ResponseBytes::Shared(body),
    };
    let body = UnsentBody::new(content, client);
    let mut reply = hyper::Response::new(body);
    // The core allows only valid statuses and headers.
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let sent = reply.headers_mut();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            sent.append(name, value);
        }
    }
    sent.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    sent.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(coding) = coding {
        sent.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.word()));
    }
    reply
}
