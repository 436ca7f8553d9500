//! Plain HTTP requests for a component: conversion into a [`RawRequest`] and back.
//!
//! These requests pass the same limits as all others, but have no token, fields or envelope for
//! this server. A request that waits for a change is abandoned when its client disconnects, because
//! hyper then drops the future.

use crate::answer_body::UnsentBody;
use crate::body;
use crate::compression;
use crate::config::ListenerConfig;
use crate::headers;
use crate::http::{HttpFrontend, HttpReply, RequestAnswerer, RequestArrival};
use crate::target;
use bulkhead_access::random;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::response::ResponseBytes;
use hyper::body::{Body, Bytes};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, HeaderName, HeaderValue, TRANSFER_ENCODING, VARY,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};

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
        head: &Parts,
        body: B,
        arrival: RequestArrival,
        place: RawBasePath,
    ) -> HttpReply
    where
        B: Body<Data = Bytes>,
    {
        let received = Box::pin(self.receive_raw(head, body, arrival, place)).await;
        let (response, client, is_last) = match received {
            Ok((request, held)) => {
                let client = Client::of(request.remote.0);
                let response = Box::pin(self.answerer.clone().answer_raw(request)).await;
                drop(held);
                (response, client, head.headers.contains_key(TRANSFER_ENCODING))
            }
            // The rest of an unread body could be taken for the next request of the connection.
            Err(failure) => {
                let client = Client::of(arrival.origin.address().ip());
                (RawResponse::failed(&failure), client, true)
            }
        };
        let mut reply = into_reply(head, response, client);
        if is_last && head.version < Version::HTTP_2 {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    /// Receives the request. The second value holds its memory and its place in the concurrency
    /// limit.
    async fn receive_raw<B>(
        &self,
        head: &Parts,
        body: B,
        arrival: RequestArrival,
        place: RawBasePath,
    ) -> Result<(RawRequest, impl Send), Failure>
    where
        B: Body<Data = Bytes>,
    {
        headers::check_size(&head.headers)?;
        headers::check_server(head)?;
        let remote = self.config.proxies.client(arrival.origin, &head.headers)?;
        let is_counted = self.trusts(arrival.origin) || head.version >= Version::HTTP_2;
        let counted = is_counted.then(|| self.concurrency.admit(remote.ip())).transpose()?;
        let body_max = self.config.body_max.min(place.body_limit);
        let config = ListenerConfig { body_max, ..self.config.clone() };
        let mut memory = self.body_budget.begin(remote.ip());
        let body = match body.is_end_stream() {
            true => Vec::new(),
            false => body::read_body(&head.headers, body, &config, &mut memory).await?,
        };
        let path = head.uri.path();
        let path = path.strip_prefix(place.base.as_str()).unwrap_or_default().to_owned();
        // A header that is not text is kept with replaced bytes: an unreadable token is different
        // from no token.
        let headers = head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let request = RawRequest {
            id: random::uuid()?,
            method: head.method.as_str().to_owned(),
            path,
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            body,
            remote: (remote.ip(), remote.port()),
            place,
        };
        Ok((request, (memory, counted)))
    }
}

/// Converts an answer into HTTP, compressed if the client accepts compression.
fn into_reply(head: &Parts, response: RawResponse, client: Client) -> HttpReply {
    let RawResponse { status, headers, body } = response;
    let coding = compression::requested_coding(&head.headers).filter(|_| !body.is_empty());
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
