//! Conversion of a request's body into fields, a form or raw bytes.
//!
//! This file prevents 4 attacks:
//! - endless bodies;
//! - bodies sent a byte at a time;
//! - more bodies than there is memory, counted by parsed size, which may be 100 times the size on
//!   the wire;
//! - callers without a token that make the server parse more than the few fields of an endpoint
//!   without a token.

use crate::body_budget::BodyMemory;
use crate::config::ListenerConfig;
use crate::file_body::{self, FileBodyTimeouts};
use crate::{headers, target};
use bulkhead_api::{BodyAdmission, FileReceptions};
use bulkhead_wire::description::Verb;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::{RawBody, ReceivedFile};
use bulkhead_wire::{json, size};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use hyper::http::request::Parts;
use serde_json::{Map, Value};
use std::pin::pin;
use std::time::Duration;

/// Multiple of the body limit up to which an oversized body is still read: a client that is still
/// sending does not see the answer.
const DRAIN_FACTOR: u64 = 2;
/// Minimum of that drain limit, in bytes, for listeners with a small body limit.
const DRAIN_LEAST: u64 = 4 << 20;

/// Maximum time for a body to arrive, unless `request_timeout` is shorter.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Maximum size of a body, in bytes, at an endpoint that requires no token, and of plain HTTP for
/// callers whom the component does not know.
pub(crate) const MAX_PUBLIC_BODY: u64 = 64 << 10;

/// The parsed content of a request.
#[derive(Default)]
pub(crate) struct BodyContent {
    pub(crate) fields: Map<String, Value>,
    /// The body, if it consists of raw bytes.
    pub(crate) raw: Option<RawBody>,
    /// The body, if it is stored in a file.
    pub(crate) file: Option<ReceivedFile>,
    /// Number of body bytes received from the wire.
    pub(crate) bytes: u64,
    /// The body was discarded.
    pub(crate) is_unread: bool,
    /// The reason why the content could not be read.
    pub(crate) refusal: Option<Failure>,
}

impl BodyContent {
    /// Content of a refused request, after `bytes` bytes of the body arrived.
    pub(crate) fn from_refusal(refusal: Failure, bytes: u64) -> Self {
        Self { bytes, refusal: Some(refusal), ..Self::default() }
    }
}

/// The head of a request whose body is received.
#[derive(Clone, Copy)]
pub(crate) struct BodyHead<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) verb: Verb,
}

/// Receives the body of a request of any verb, reads the part that is `admitted`, within `memory`,
/// and joins its fields with the fields of the query. A body that does not arrive or cannot be
/// parsed (400), is too large (413) or finds no memory (429, 503) becomes the refusal of its
/// request.
///
/// # Errors
/// The failure of [`BodyAdmission::Refused`], which is sent without an audit record.
pub(crate) async fn receive<B>(
    head: BodyHead<'_>,
    queried: Map<String, Value>,
    body: B,
    config: &ListenerConfig,
    admitted: BodyAdmission,
    memory: &mut BodyMemory,
) -> Result<BodyContent, Failure>
where
    B: Body<Data = Bytes>,
{
    let (mut bytes, headers) = (0, &head.parts.headers);
    let received = match admitted {
        BodyAdmission::Whole => {
            let body = read_body(headers, body, config, memory).await;
            body.and_then(|body| {
                bytes = length(&body);
                join_query(head, queried, read_content(head, body, memory)?)
            })
        }
        BodyAdmission::Fields(names) => {
            let body_max = config.body_max.min(MAX_PUBLIC_BODY);
            let config = ListenerConfig { body_max, ..config.clone() };
            let body = read_body(headers, body, &config, memory).await;
            body.and_then(|body| {
                bytes = length(&body);
                join_query(head, queried, read_members(headers, body, &names)?)
            })
        }
        BodyAdmission::File(receptions) => receive_file(head.parts, body, &receptions).await,
        BodyAdmission::Nothing => discard(head.parts, body, config).await,
        BodyAdmission::Discarded => Ok(discard_any(head.parts, body, config).await),
        BodyAdmission::Refused(failure) => return Err(*failure),
    };
    Ok(received.unwrap_or_else(|refusal| BodyContent::from_refusal(refusal, bytes)))
}

/// Receives a body into a file, for any content type.
async fn receive_file<B>(
    head: &Parts,
    body: B,
    receptions: &FileReceptions,
) -> Result<BodyContent, Failure>
where
    B: Body<Data = Bytes>,
{
    target::refuse_query(head.uri.query())?;
    let received = file_body::receive(body, receptions, FileBodyTimeouts::default());
    let (file, bytes) = received.await?;
    Ok(BodyContent { file: Some(file), bytes, ..BodyContent::default() })
}

/// Joins the fields `queried` of a read, list or delete with the fields of the body. The query of a
/// write is refused, unless the body is a component: then the fields have no other place.
fn join_query(
    head: BodyHead<'_>,
    queried: Map<String, Value>,
    content: BodyContent,
) -> Result<BodyContent, Failure> {
    let BodyHead { parts, verb } = head;
    let fields = match verb {
        Verb::Read | Verb::List | Verb::Delete => target::join_fields(queried, content.fields)?,
        Verb::Write if content.raw.is_some() => {
            target::parameters(parts.uri.query().unwrap_or_default())?
        }
        Verb::Write | Verb::Patch => {
            target::refuse_query(parts.uri.query())?;
            content.fields
        }
    };
    Ok(BodyContent { fields, ..content })
}

/// Receives a body without reading its content.
async fn discard<B>(head: &Parts, body: B, config: &ListenerConfig) -> Result<BodyContent, Failure>
where
    B: Body<Data = Bytes>,
{
    // A client that sends `Expect` is refused before the client sends the body.
    let asks = head.headers.contains_key(EXPECT);
    let bytes = if asks { 0 } else { discard_body(body, config).await? };
    Ok(BodyContent { bytes, is_unread: true, ..BodyContent::default() })
}

/// Receives the beginning of a body of any size without reading the content. The failure of the
/// request is another one, so that a body that is too long or too slow is not reported.
async fn discard_any<B>(head: &Parts, body: B, config: &ListenerConfig) -> BodyContent
where
    B: Body<Data = Bytes>,
{
    let discarded = discard(head, body, config).await;
    discarded.unwrap_or_else(|_| BodyContent { is_unread: true, ..BodyContent::default() })
}

/// Reads a body: JSON, a form, or a component's bytes.
fn read_content(
    head: BodyHead<'_>,
    body: Vec<u8>,
    memory: &mut BodyMemory,
) -> Result<BodyContent, Failure> {
    let (bytes, headers) = (length(&body), &head.parts.headers);
    if head.verb != Verb::Patch && is_component(headers, &body) {
        return Ok(BodyContent { raw: Some(RawBody::new(body)), bytes, ..BodyContent::default() });
    }
    let fields = if headers::is_form(headers, &body) {
        read_form(&body)?
    } else {
        memory.grow_to_parsed(json::parsed_size(&body))?;
        json::object(&body).map_err(Failure::invalid)?
    };
    Ok(BodyContent { fields, bytes, ..BodyContent::default() })
}

/// Reads the members `names` of a body and skips all others.
fn read_members(
    headers: &HeaderMap,
    body: Vec<u8>,
    names: &[String],
) -> Result<BodyContent, Failure> {
    let bytes = length(&body);
    if is_component(headers, &body) {
        return Ok(BodyContent { raw: Some(RawBody::new(body)), bytes, ..BodyContent::default() });
    }
    let fields = if headers::is_form(headers, &body) {
        let mut fields = read_form(&body)?;
        fields.retain(|name, _| names.contains(name));
        fields
    } else {
        json::members(&body, names).map_err(Failure::invalid)?
    };
    Ok(BodyContent { fields, bytes, ..BodyContent::default() })
}

fn read_form(body: &[u8]) -> Result<Map<String, Value>, Failure> {
    let form = std::str::from_utf8(body)
        .map_err(|_| Failure::invalid("the form in the body is not UTF-8"))?;
    target::parameters(form)
}

/// Returns whether the body is WebAssembly, by content type or by magic number. No JSON and no form
/// begins with that magic number.
fn is_component(headers: &HeaderMap, bytes: &[u8]) -> bool {
    let declared =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let declared = declared.split(';').next().unwrap_or_default().trim();
    declared.eq_ignore_ascii_case("application/wasm") || bytes.starts_with(b"\0asm")
}

/// Returns whether a body may have more bytes than are read without a known caller. A body without
/// a declared length may have any number.
pub(crate) fn may_exceed_public(body: &impl Body) -> bool {
    body.size_hint().upper().is_none_or(|most| most > MAX_PUBLIC_BODY)
}

pub(crate) async fn read_body<B>(
    headers: &HeaderMap,
    body: B,
    config: &ListenerConfig,
    memory: &mut BodyMemory,
) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A client that sends `Expect` is refused before the client sends the body.
    if headers.contains_key(EXPECT) && declared.is_some_and(|size| size > config.body_max) {
        return Err(body_too_large(config.body_max));
    }
    // An oversized body gets no memory: its bytes are read and discarded, so that the client sees
    // the answer.
    memory.grow_to(declared.filter(|size| *size <= config.body_max).unwrap_or_default())?;
    in_time(config, collect_body(body, config.body_max, memory)).await
}

/// Awaits `arriving` until the body timeout.
async fn in_time<T>(
    config: &ListenerConfig,
    arriving: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let within = BODY_TIME.min(config.request_time);
    let late =
        || Failure::invalid(format!("the body did not arrive within {} s", within.as_secs()));
    tokio::time::timeout(within, arriving).await.map_err(|_| late())?
}

pub(crate) async fn collect_body<B>(
    body: B,
    most: u64,
    memory: &mut BodyMemory,
) -> Result<Vec<u8>, Failure>
where
    B: Body<Data = Bytes>,
{
    let mut content = Vec::new();
    let received = for_each_chunk(body, most, |received, chunk| {
        if received <= most {
            memory.grow_to(received)?;
            content.extend_from_slice(chunk);
        } else {
            content = Vec::new();
        }
        Ok(())
    });
    if received.await? > most { Err(body_too_large(most)) } else { Ok(content) }
}

/// Reads and discards a body, so that its sender sees the answer. Returns the length.
async fn discard_body<B>(body: B, config: &ListenerConfig) -> Result<u64, Failure>
where
    B: Body<Data = Bytes>,
{
    let received = in_time(config, for_each_chunk(body, config.body_max, |_, _| Ok(()))).await?;
    if received > config.body_max { Err(body_too_large(config.body_max)) } else { Ok(received) }
}

/// Hands each chunk of a body to `take`, with the number of bytes received so far. Returns the
/// length of the body, or the bytes received when the drain limit is exceeded.
async fn for_each_chunk<B>(
    body: B,
    most: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut received: u64 = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::invalid("the body ended too early"))?;
        // Trailers are not used.
        let Ok(chunk) = frame.into_data() else { continue };
        received = received.saturating_add(length(&chunk));
        take(received, &chunk)?;
        if received > most.saturating_mul(DRAIN_FACTOR).max(DRAIN_LEAST) {
            break;
        }
    }
    Ok(received)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn body_too_large(most: u64) -> Failure {
    Failure::new(
        FailureKind::TooLarge,
        format!("request body too large: the most is {}", size::show(most)),
    )
}
