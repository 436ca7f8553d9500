//! Spans under way, and the context that spans below inherit.

use crate::record::{AttributeName, AttributeValue, FinishedSpan, SpanKind, SpanOutcome};
use crate::tracer::{ClockReading, Tracer, random_id};
use bulkhead_wire::sync;
use bulkhead_wire::trace_parent::TraceParent;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Maximum number of spans of a trace. Further spans are dropped and counted.
const TRACE_SPANS: u32 = 1_000;

/// A trace that passes through this server.
pub(crate) struct Trace {
    pub(crate) id: u128,
    /// `tracestate` of the caller, for requests of components only.
    pub(crate) state: Option<Box<str>>,
    /// `None`: the trace is not sampled, and only its ids are passed on.
    pub(crate) recording: Option<TraceRecording>,
}

/// The recording of a sampled trace.
pub(crate) struct TraceRecording {
    tracer: Arc<Tracer>,
    begun: ClockReading,
    spans: AtomicU32,
    /// Attributes of the root span that are known later.
    pub(crate) of_root: Mutex<Vec<(AttributeName, AttributeValue)>>,
}

impl TraceRecording {
    pub(crate) fn new(tracer: &Arc<Tracer>) -> Self {
        Self {
            tracer: Arc::clone(tracer),
            begun: tracer.now(),
            spans: AtomicU32::new(0),
            of_root: Mutex::default(),
        }
    }

    /// Takes the place of a span in the trace.
    fn take_place(&self) -> bool {
        if self.spans.fetch_add(1, Ordering::Relaxed) < TRACE_SPANS {
            return true;
        }
        self.tracer.note_dropped(1);
        false
    }
}

/// A trace and a span in the trace: the parent of further spans. Cheap to clone.
#[derive(Clone)]
pub struct SpanContext {
    trace: Arc<Trace>,
    span_id: u64,
}

impl SpanContext {
    pub(crate) fn new(trace: Trace, span_id: u64) -> Self {
        Self { trace: Arc::new(trace), span_id }
    }

    /// Begins a span below; `None` if the trace is not sampled or has too many spans.
    #[must_use]
    pub fn child(&self, name: &'static str, kind: SpanKind) -> Option<OpenSpan> {
        let recording = self.trace.recording.as_ref()?;
        recording.take_place().then(|| OpenSpan::begin(self, self.span_id, (name, kind)))
    }

    /// Returns the id of the trace in hexadecimal, if the trace is sampled: the id by which a
    /// collector finds the trace.
    #[must_use]
    pub fn sampled_trace_id(&self) -> Option<String> {
        self.trace.recording.as_ref().map(|_| format!("{:032x}", self.trace.id))
    }

    /// Returns the context for a request to another server.
    #[must_use]
    pub fn to_parent(&self) -> TraceParent {
        TraceParent {
            trace_id: self.trace.id,
            span_id: self.span_id,
            is_sampled: self.trace.recording.is_some(),
            state: self.trace.state.clone(),
        }
    }

    /// Adds an attribute to the root span of the trace, if the trace is sampled.
    pub(crate) fn describe_root(&self, attributes: [(AttributeName, AttributeValue); 2]) {
        if let Some(recording) = &self.trace.recording {
            *sync::lock(&recording.of_root) = attributes.into();
        }
    }

    /// Takes the attributes of the root span.
    pub(crate) fn take_of_root(&self) -> Vec<(AttributeName, AttributeValue)> {
        let taken =
            |recording: &TraceRecording| std::mem::take(&mut *sync::lock(&recording.of_root));
        self.trace.recording.as_ref().map(taken).unwrap_or_default()
    }

    /// Returns whether the trace is recorded.
    pub(crate) fn is_sampled(&self) -> bool {
        self.trace.recording.is_some()
    }
}

impl fmt::Debug for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanContext({:032x}-{:016x})", self.trace.id, self.span_id)
    }
}

/// A span under way. The end of the value ends the span: with the outcome
/// [`SpanOutcome::Cut`], unless another outcome was set.
pub struct OpenSpan(Box<SpanDraft>);

struct SpanDraft {
    context: SpanContext,
    parent_id: u64,
    name: &'static str,
    kind: SpanKind,
    begun: Instant,
    attributes: Vec<(AttributeName, AttributeValue)>,
    outcome: &'static str,
    is_failed: bool,
}

impl OpenSpan {
    fn begin(above: &SpanContext, parent_id: u64, (name, kind): (&'static str, SpanKind)) -> Self {
        let context = SpanContext { trace: Arc::clone(&above.trace), span_id: random_id() };
        Self::with_context(context, parent_id, (name, kind))
    }

    /// Begins the span whose id is in `context`.
    pub(crate) fn with_context(
        context: SpanContext,
        parent_id: u64,
        (name, kind): (&'static str, SpanKind),
    ) -> Self {
        Self(Box::new(SpanDraft {
            context,
            parent_id,
            name,
            kind,
            begun: Instant::now(),
            attributes: Vec::new(),
            outcome: SpanOutcome::Cut.word(),
            is_failed: true,
        }))
    }

    /// Returns the context for spans below.
    #[must_use]
    pub fn context(&self) -> &SpanContext {
        &self.0.context
    }

    /// Adds an attribute.
    pub fn note(&mut self, name: AttributeName, value: impl Into<AttributeValue>) {
        self.0.attributes.push((name, value.into()));
    }

    /// Sets the outcome with which the span ends.
    pub fn set_outcome(&mut self, outcome: SpanOutcome) {
        self.set_outcome_word(outcome.word(), outcome != SpanOutcome::Answered);
    }

    pub(crate) fn set_outcome_word(&mut self, word: &'static str, is_failed: bool) {
        (self.0.outcome, self.0.is_failed) = (word, is_failed);
    }

    /// Ends the span.
    pub fn end(mut self, outcome: SpanOutcome) {
        self.set_outcome(outcome);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let draft = &mut *self.0;
        let Some(recording) = &draft.context.trace.recording else { return };
        let mut attributes = std::mem::take(&mut draft.attributes);
        attributes.push((AttributeName::Outcome, draft.outcome.into()));
        recording.tracer.queue.push(FinishedSpan {
            trace_id: draft.context.trace.id,
            span_id: draft.context.span_id,
            parent_id: draft.parent_id,
            name: draft.name,
            kind: draft.kind,
            begin: recording.begun.at(draft.begun),
            end: recording.begun.at(Instant::now()),
            attributes,
            is_failed: draft.is_failed,
        });
    }
}
