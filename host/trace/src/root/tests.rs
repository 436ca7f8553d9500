//! Traces of requests and of due work, from their roots to the queue.

use super::*;
use crate::record::{FinishedSpan, SpanOutcome};
use crate::scope;

const REQUEST: &str = "5e1c0a2b-6b1f-4d0e-9a3c-0123456789ab";

fn tracer(ratio: f64) -> Arc<Tracer> {
    Tracer::new(ratio, || 1_700_000_000_000_000_000)
}

fn caller(is_sampled: bool) -> TraceParent {
    TraceParent { trace_id: 7, span_id: 9, is_sampled, state: Some("a=1".into()) }
}

/// Returns the trace of a caller with a valid token.
fn counted(parent: &TraceParent) -> CallerTrace<'_> {
    CallerTrace { parent, is_flag_counted: true }
}

#[test]
fn strangers_use_no_trace_of_callers() {
    let (tracer, flagged) = (tracer(0.0), caller(true));
    for _ in 0..1_000 {
        let stranger = CallerTrace { parent: &flagged, is_flag_counted: false };
        let trace = tracer.begin_request(REQUEST, Some(stranger)).unwrap();
        assert!(trace.context().sampled_trace_id().is_none());
        trace.end(403, "denied");
    }
    let trace = tracer.begin_request(REQUEST, Some(counted(&flagged))).unwrap();
    assert!(trace.context().sampled_trace_id().is_some());
    let own = self::tracer(1.0);
    let stranger = CallerTrace { parent: &flagged, is_flag_counted: false };
    let trace = own.begin_request(REQUEST, Some(stranger)).unwrap();
    assert!(trace.context().sampled_trace_id().is_some(), "the ratio decides");
}

fn value(span: &FinishedSpan, wanted: AttributeName) -> Option<&AttributeValue> {
    span.attributes.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

#[test]
fn request_without_parent_has_its_id_as_trace() {
    let tracer = tracer(1.0);
    let trace = tracer.begin_request(REQUEST, None).unwrap();
    let digits = REQUEST.replace('-', "");
    assert_eq!(trace.context().sampled_trace_id().as_deref(), Some(digits.as_str()));
    trace.context().child("policy", SpanKind::Internal).unwrap().end(SpanOutcome::Answered);
    trace.end(503, "failed");
    let spans = tracer.take_batch();
    let [policy, root] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((root.parent_id, root.name, root.is_failed), (0, "request", true));
    assert_eq!((policy.parent_id, policy.trace_id), (root.span_id, root.trace_id));
    assert_eq!(value(root, AttributeName::Status), Some(&AttributeValue::Number(503)));
    assert_eq!(value(root, AttributeName::RequestId), Some(&AttributeValue::text(REQUEST)));
    assert!(root.begin >= 1_700_000_000_000_000_000 && root.end >= policy.end);
}

#[test]
fn trace_of_caller_continues_by_its_flag() {
    let tracer = tracer(0.0);
    let trace = tracer.begin_request(REQUEST, Some(counted(&caller(true)))).unwrap();
    let below = trace.context().to_parent();
    assert_eq!((below.trace_id, below.is_sampled, below.state.as_deref()), (7, true, Some("a=1")));
    assert_ne!(below.span_id, 9, "the span of this server is the parent");
    trace.end(200, "served");
    assert_eq!(tracer.take_batch()[0].parent_id, 9);
    let unsampled = tracer.begin_request(REQUEST, Some(counted(&caller(false)))).unwrap();
    assert_eq!(unsampled.context().to_parent(), caller(false));
    assert!(unsampled.context().child("policy", SpanKind::Internal).is_none());
    unsampled.end(200, "served");
    assert!(tracer.take_batch().is_empty());
    assert!(tracer.begin_request(REQUEST, None).is_none());
    assert!(tracer.begin_due_work("lease").is_none());
}

#[tokio::test]
async fn steps_belong_to_their_request() {
    let tracer = tracer(1.0);
    let trace = tracer.begin_request(REQUEST, None).unwrap();
    let context = trace.context().clone();
    scope::in_request(REQUEST, Some(context), async {
        scope::describe_request("kv/", "read");
        let refused = scope::in_step("policy", async { Err::<(), &str>("denied") }).await;
        assert!(refused.is_err());
        tokio::spawn(scope::of_current_request(async {
            drop(scope::begin_step("commit"));
        }))
        .await
        .unwrap();
    })
    .await;
    trace.end(403, "denied");
    let spans = tracer.take_batch();
    let [policy, commit, root] = &spans[..] else { panic!("{spans:?}") };
    assert!([policy, commit].iter().all(|span| span.parent_id == root.span_id));
    assert!(policy.is_failed && !root.is_failed, "the server did its work");
    let cut = AttributeValue::Word(SpanOutcome::Cut.word());
    assert_eq!(value(commit, AttributeName::Outcome), Some(&cut));
    assert_eq!(value(root, AttributeName::Mount), Some(&AttributeValue::text("kv/")));
    assert_eq!(value(root, AttributeName::Operation), Some(&AttributeValue::Word("read")));
}

#[tokio::test]
async fn due_work_is_a_root_of_its_own() {
    let tracer = tracer(1.0);
    let span = tracer.begin_due_work("lease");
    let done =
        scope::in_due_work(span, async { scope::in_step("call", async { Ok::<_, ()>(3) }).await });
    assert_eq!(done.await, Ok(3));
    let spans = tracer.take_batch();
    let [call, root] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((root.name, root.parent_id, call.parent_id), ("due-work", 0, root.span_id));
    let unsampled = scope::in_due_work(None, async {
        scope::begin_step("call").is_none().then_some(()).ok_or("a span without a trace")
    });
    assert_eq!(unsampled.await, Ok(()));
}

#[test]
fn spans_over_limit_of_trace_are_counted() {
    let tracer = tracer(1.0);
    let trace = tracer.begin_request(REQUEST, None).unwrap();
    let begun = (0..1_005).filter_map(|_| trace.context().child("step", SpanKind::Internal));
    assert_eq!(begun.count(), 1_000);
    assert_eq!(tracer.figures().dropped, 5);
}
