//! Spans of requests and due work, the trace context of requests, and the content of spans.

use crate::bed::{Bed, PATIENCE, request};
use crate::http::{Server, granted, ok};
use bulkhead_trace::{AttributeName, AttributeValue, FinishedSpan, Tracer};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Request;
use bulkhead_wire::trace_parent::TraceParent;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const REQUEST: &str = "5e1c0a2b-6b1f-4d0e-9a3c-0123456789ab";
const SECRET: &str = "Bearer-of-the-trace-tests";

fn tracer(ratio: f64) -> Arc<Tracer> {
    Tracer::new(ratio, || 1_000)
}

/// A request for the probe to fetch `url`.
fn fetch(url: &str, parent: Option<TraceParent>) -> Request {
    let fields = json!({ "url": url, "headers": { "authorization": SECRET }, "body": SECRET });
    let request = request("root", Verb::Write, "probe/fetch/path-parameter", fields);
    Request { id: REQUEST.to_owned(), trace_parent: parent, ..request }
}

async fn status(bed: &Bed, request: Request) -> u16 {
    bed.service.handle(request).await.into_bytes().0
}

/// Sends a request whose target answers. Returns the status, and the request to the target.
async fn answered(bed: &Bed, server: &mut Server, request: Request) -> (u16, String) {
    let answer = ok("answer");
    tokio::join!(status(bed, request), server.reply(&answer))
}

/// Waits for spans until `is_complete`.
async fn spans(
    tracer: &Tracer,
    is_complete: impl Fn(&[FinishedSpan]) -> bool,
) -> Vec<FinishedSpan> {
    let (began, mut found) = (Instant::now(), Vec::new());
    loop {
        found.extend(tracer.take_batch());
        if is_complete(&found) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn value(span: &FinishedSpan, wanted: AttributeName) -> Option<&AttributeValue> {
    span.attributes.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

fn named<'a>(spans: &'a [FinishedSpan], name: &str) -> &'a FinishedSpan {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let [span] = found[..] else { panic!("{} spans {name}: {spans:#?}", found.len()) };
    span
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_lead_from_request_to_target() {
    let tracer = tracer(1.0);
    let (bed, mut server) = (Bed::traced("traced", &tracer).await, Server::new().await);
    granted(&bed, &[server.grant()]).await;
    spans(&tracer, |found| found.iter().any(|span| span.name == "request")).await;
    let url = server.url("/target-path?query-parameter=1");
    let (served, _) = answered(&bed, &mut server, fetch(&url, None)).await;
    assert_eq!(served, 200);
    let is_ours = |span: &FinishedSpan| {
        value(span, AttributeName::RequestId) == Some(&AttributeValue::text(REQUEST))
    };
    let found = spans(&tracer, |found| found.iter().any(is_ours)).await;
    let root = found.iter().find(|span| is_ours(span)).unwrap();
    let of_trace = found.iter().filter(|span| span.trace_id == root.trace_id).cloned();
    let all: Vec<_> = of_trace.collect();
    assert_eq!(format!("{:032x}", root.trace_id), REQUEST.replace('-', ""));
    assert_eq!(value(root, AttributeName::Mount), Some(&AttributeValue::text("probe/")));
    assert_eq!(value(root, AttributeName::Status), Some(&AttributeValue::Number(200)));
    let (component, call) = (named(&all, "component"), named(&all, "host-call"));
    let target = named(&all, "target");
    let parents = [named(&all, "policy"), component, call, target].map(|span| span.parent_id);
    assert_eq!(parents, [root.span_id, root.span_id, component.span_id, call.span_id]);
    let is_read =
        |span: &FinishedSpan| (span.name, span.parent_id) == ("storage.get", component.span_id);
    assert!(all.iter().any(is_read), "{all:#?}");
    assert_eq!(value(target, AttributeName::Status), Some(&AttributeValue::Number(200)));
    let origin = server.grant().trim_start_matches("http:").to_owned();
    let shown = Some(AttributeValue::text(&format!("http:{origin}")));
    assert_eq!(value(target, AttributeName::Target), shown.as_ref());
    let text = format!("{all:?}");
    for hidden in ["path-parameter", "target-path", "query-parameter", SECRET, "root\"", "answer\""]
    {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_context_reaches_granted_servers_only() {
    let tracer = tracer(0.0);
    let (bed, mut server) = (Bed::traced("context", &tracer).await, Server::new().await);
    let parent = |is_sampled| {
        let state = Some("vendor=1".into());
        Some(TraceParent { trace_id: 7, span_id: 9, is_sampled, state })
    };
    granted(&bed, &[server.grant()]).await;
    let url = server.url("/");
    let (_, seen) = answered(&bed, &mut server, fetch(&url, parent(true))).await;
    assert!(!seen.contains("traceparent") && !seen.contains("tracestate"), "{seen}");
    let trace = server.grant().replacen("http:", "trace:", 1);
    granted(&bed, &[server.grant(), trace]).await;
    let before = tracer.take_batch().len();
    assert!(before > 0, "the caller's flag counts");
    let (_, seen) = answered(&bed, &mut server, fetch(&url, parent(true))).await;
    let found = spans(&tracer, |found| found.iter().any(|span| span.name == "request")).await;
    let target = named(&found, "target").span_id;
    let passed = format!("traceparent: 00-{:032x}-{target:016x}-01\r\n", 7);
    assert!(seen.contains(&passed) && seen.contains("tracestate: vendor=1\r\n"), "{seen}");
    assert_eq!(named(&found, "request").parent_id, 9);
    let (_, seen) = answered(&bed, &mut server, fetch(&url, parent(false))).await;
    assert!(seen.contains(&format!("traceparent: 00-{:032x}-{:016x}-00\r\n", 7, 9)), "{seen}");
    let (_, seen) = answered(&bed, &mut server, fetch(&url, None)).await;
    assert!(!seen.contains("traceparent"), "{seen}");
    assert_eq!(tracer.take_batch(), []);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_take_no_trace_of_callers() {
    let tracer = tracer(0.0);
    let bed = Bed::traced("strangers-traces", &tracer).await;
    let flagged = |token: &str| {
        let parent = TraceParent { trace_id: 7, span_id: 9, is_sampled: true, state: None };
        let request = request(token, Verb::Read, "auth/token/lookup-self", json!({}));
        Request { trace_parent: Some(parent), ..request }
    };
    for token in ["", "wrong"] {
        for _ in 0..15 {
            assert_eq!(status(&bed, flagged(token)).await, 403);
        }
    }
    assert_eq!(tracer.take_batch(), []);
    assert_eq!(status(&bed, flagged("root")).await, 200);
    let found = spans(&tracer, |found| found.iter().any(|span| span.name == "request")).await;
    assert_eq!(named(&found, "request").parent_id, 9);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timer_and_revocation_are_roots() {
    let tracer = tracer(1.0);
    let bed = Bed::traced("due-traces", &tracer).await;
    assert_eq!(bed.write("probe/timer/soon", json!({ "after": 0, "lane": "a" })).await.0, 204);
    assert_eq!(bed.write("probe/lease/short", json!({ "ttl": 1 })).await.0, 200);
    let is_root = |span: &FinishedSpan, kind: &'static str| {
        value(span, AttributeName::DueWork) == Some(&AttributeValue::Word(kind))
    };
    let kinds = ["timer", "revocation"];
    let found = spans(&tracer, |found| {
        kinds.iter().all(|kind| found.iter().any(|span| is_root(span, kind)))
    })
    .await;
    for kind in kinds {
        let root = found.iter().find(|span| is_root(span, kind)).unwrap();
        assert_eq!((root.name, root.parent_id), ("due-work", 0));
        let is_below =
            |span: &&FinishedSpan| span.trace_id == root.trace_id && span.parent_id == root.span_id;
        let component = found.iter().find(is_below).unwrap();
        assert_eq!(component.name, "component", "{found:#?}");
        assert_eq!(value(component, AttributeName::Mount), Some(&AttributeValue::text("probe/")));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_have_their_outcome() {
    let tracer = tracer(1.0);
    let bed = Bed::traced("refused-traces", &tracer).await;
    drop(tracer.take_batch());
    let denied = request("wrong", Verb::Read, "probe/note/a", json!({}));
    assert_eq!(status(&bed, denied).await, 403);
    let found = spans(&tracer, |found| found.iter().any(|span| span.name == "request")).await;
    let root = named(&found, "request");
    let outcome = value(root, AttributeName::Outcome);
    assert_eq!((outcome, root.is_failed), (Some(&AttributeValue::Word("denied")), false));
    assert!(found.iter().all(|span| span.name != "component"), "{found:?}");
    let health = request("", Verb::Read, "sys/health", json!({}));
    assert_eq!(status(&bed, health).await, 200);
    let found = spans(&tracer, |found| !found.is_empty()).await;
    assert_eq!(value(&found[0], AttributeName::Outcome), Some(&AttributeValue::Word("served")));
    assert_eq!(bed.read("unknown/path").await.1["data"], Value::Null);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_service_answers_with_failed_outcome() {
    let tracer = tracer(1.0);
    let bed = Bed::traced("sealed-traces", &tracer).await;
    bed.service.stop().await;
    drop(tracer.take_batch());
    assert_eq!(status(&bed, request("root", Verb::Read, "probe/note/a", json!({}))).await, 503);
    let found = spans(&tracer, |found| found.iter().any(|span| span.name == "request")).await;
    let root = named(&found, "request");
    let outcome = value(root, AttributeName::Outcome);
    assert_eq!((outcome, root.is_failed), (Some(&AttributeValue::Word("failed")), true));
    std::fs::remove_dir_all(&bed.directory).unwrap();
}
