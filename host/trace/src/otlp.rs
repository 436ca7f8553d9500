//! Batches of spans as OTLP: the messages of `opentelemetry/proto/trace/v1/trace.proto` and of
//! `collector/trace/v1/trace_service.proto`, as far as this program uses the messages (decision
//! H97).

use crate::record::{AttributeName, AttributeValue, FinishedSpan, SpanKind};
use prost::Message;

/// Media type of the messages.
pub const MEDIA_TYPE: &str = "application/x-protobuf";

/// Name of the service and of the instrumentation scope.
const SERVICE: &str = "bulkhead";
/// Status of a span that failed.
const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<SpanStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct SpanStatus {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "KnownValue", tags = "1, 3")]
    value: Option<KnownValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum KnownValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// Encodes a batch of a server of version `version`.
#[must_use]
pub fn encode(batch: &[FinishedSpan], version: &str) -> Vec<u8> {
    let service = [("service.name", SERVICE), ("service.version", version)];
    let attributes =
        service.map(|(key, value)| pair(key, KnownValue::Text(value.to_owned()))).into();
    let scope = InstrumentationScope { name: SERVICE.to_owned(), version: version.to_owned() };
    let spans = batch.iter().map(SpanMessage::of).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource_spans =
        vec![ResourceSpans { resource: Some(Resource { attributes }), scope_spans }];
    ExportRequest { resource_spans }.encode_to_vec()
}

/// Returns the number of spans that the collector rejected; `None` if the answer is not OTLP.
#[must_use]
pub fn rejected_spans(answer: &[u8]) -> Option<u64> {
    let answer = ExportResponse::decode(answer).ok()?;
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    u64::try_from(rejected).ok()
}

impl SpanMessage {
    fn of(span: &FinishedSpan) -> Self {
        let parent = span.parent_id;
        Self {
            trace_id: span.trace_id.to_be_bytes().into(),
            span_id: span.span_id.to_be_bytes().into(),
            parent_span_id: if parent == 0 { Vec::new() } else { parent.to_be_bytes().into() },
            name: span.name.to_owned(),
            kind: kind_number(span.kind),
            start_time_unix_nano: span.begin,
            end_time_unix_nano: span.end,
            attributes: span.attributes.iter().map(attribute).collect(),
            status: span.is_failed.then_some(SpanStatus { code: STATUS_ERROR }),
        }
    }
}

/// Returns the number of a kind in OTLP.
fn kind_number(kind: SpanKind) -> i32 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}

fn attribute((name, value): &(AttributeName, AttributeValue)) -> KeyValue {
    let value = match value {
        AttributeValue::Word(word) => KnownValue::Text((*word).to_owned()),
        AttributeValue::Text(text) => KnownValue::Text(text.to_string()),
        AttributeValue::Number(number) => KnownValue::Number(*number),
    };
    pair(name.word(), value)
}

fn pair(key: &str, value: KnownValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_has_the_bytes_of_otlp() {
        let span = FinishedSpan {
            trace_id: 1,
            span_id: 2,
            parent_id: 3,
            name: "sql",
            kind: SpanKind::Client,
            begin: 4,
            end: 5,
            attributes: vec![(AttributeName::Status, 200_u16.into())],
            is_failed: true,
        };
        let bytes = encode(&[span], "9");
        // trace_id (field 1), span_id (2), parent_span_id (4), name (5), kind (6), times (7, 8).
        let mut wanted = vec![0x0a, 16];
        wanted.extend(1_u128.to_be_bytes());
        wanted.extend([0x12, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0x22, 8, 0, 0, 0, 0, 0, 0, 0, 3]);
        wanted.extend([0x2a, 3, b's', b'q', b'l', 0x30, 3, 0x39, 4, 0, 0, 0, 0, 0, 0, 0]);
        wanted.extend([0x41, 5, 0, 0, 0, 0, 0, 0, 0, 0x4a]);
        assert!(bytes.windows(wanted.len()).any(|part| part == wanted), "{bytes:?}");
        // The status (15) with the code error, at the end.
        assert!(bytes.ends_with(&[0x7a, 2, 0x18, 2]), "{bytes:?}");
    }

    #[test]
    fn answer_counts_rejected_spans() {
        assert_eq!(rejected_spans(b""), Some(0));
        assert_eq!(rejected_spans(&[0x0a, 2, 0x08, 7]), Some(7));
        assert_eq!(rejected_spans(b"<html>no collector</html>"), None);
        assert_eq!(rejected_spans(&[0x0a, 200]), None);
    }
}
