//! The first span of this server in a trace: of a request, or of due work.

use crate::record::{AttributeName, AttributeValue, SpanKind};
use crate::span::{OpenSpan, SpanContext, Trace, TraceRecording};
use crate::tracer::{Tracer, random_id};
use bulkhead_wire::trace_parent::TraceParent;
use std::sync::Arc;
use std::time::Instant;

/// The trace of a request.
pub struct RequestTrace {
    context: SpanContext,
    /// `None`: the trace is not sampled.
    span: Option<OpenSpan>,
}

/// The trace of a caller.
#[derive(Clone, Copy)]
pub struct CallerTrace<'a> {
    /// The span of the caller, and the flag.
    pub parent: &'a TraceParent,
    /// The flag counts: the request has a valid token. Strangers would use up the traces of
    /// callers.
    pub is_flag_counted: bool,
}

impl Tracer {
    /// Begins the trace of the request `id`, or continues the trace of the caller. `None`: the
    /// caller sent no trace, and the request is not sampled.
    ///
    /// Without a trace of the caller, the id of the trace is the id of the request.
    #[must_use]
    pub fn begin_request(
        self: &Arc<Self>,
        id: &str,
        caller: Option<CallerTrace<'_>>,
    ) -> Option<RequestTrace> {
        let parent = caller.map(|caller| caller.parent);
        let own_id = trace_id_of(id);
        let random = u64::try_from(own_id & u128::from(u64::MAX)).unwrap_or_default();
        let is_sampled = match parent {
            None => self.sampler.samples(random),
            Some(parent) if caller.is_some_and(|caller| caller.is_flag_counted) => {
                self.sampler.samples_of_caller(parent.is_sampled, random, Instant::now())
            }
            Some(parent) => parent.is_sampled && self.sampler.samples(random),
        };
        if parent.is_none() && !is_sampled {
            return None;
        }
        let trace = Trace {
            id: parent.map_or(own_id, |parent| parent.trace_id),
            state: parent.and_then(|parent| parent.state.clone()),
            recording: is_sampled.then(|| TraceRecording::new(self)),
        };
        let parent_id = parent.map_or(0, |parent| parent.span_id);
        // Nothing of this server is in a trace that is not sampled: the caller stays the parent.
        let span_id = if is_sampled { random_id() } else { parent_id };
        let context = SpanContext::new(trace, span_id);
        let span = is_sampled.then(|| {
            let named = ("request", SpanKind::Server);
            let mut span = OpenSpan::with_context(context.clone(), parent_id, named);
            span.note(AttributeName::RequestId, AttributeValue::text(id));
            span
        });
        Some(RequestTrace { context, span })
    }

    /// Begins the trace of due work of the kind `kind`; `None` if the work is not sampled.
    #[must_use]
    pub fn begin_due_work(self: &Arc<Self>, kind: &'static str) -> Option<OpenSpan> {
        let random = random_id();
        if !self.sampler.samples(random) {
            return None;
        }
        let id = (u128::from(random_id()) << 64) | u128::from(random);
        let trace = Trace { id, state: None, recording: Some(TraceRecording::new(self)) };
        let context = SpanContext::new(trace, random_id());
        let mut span = OpenSpan::with_context(context, 0, ("due-work", SpanKind::Internal));
        span.note(AttributeName::DueWork, kind);
        Some(span)
    }
}

impl RequestTrace {
    /// Returns the context for the steps of the request.
    #[must_use]
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Ends the trace with the status and the outcome of the answer.
    pub fn end(self, status: u16, outcome: &'static str) {
        let Some(mut span) = self.span else { return };
        for (name, value) in self.context.take_of_root() {
            span.note(name, value);
        }
        span.note(AttributeName::Status, status);
        span.set_outcome_word(outcome, status >= 500);
    }
}

/// Returns the trace id of a request: the digits of its UUID, which is random. Allocates nothing,
/// because most requests are not sampled.
fn trace_id_of(request_id: &str) -> u128 {
    let digits = request_id.chars().filter(|c| *c != '-');
    let id = digits.map(|c| c.to_digit(16)).try_fold(0_u128, |id, digit| {
        let digit = u128::from(digit?);
        id.checked_mul(16).map(|id| id | digit)
    });
    let id = id.filter(|id| *id != 0);
    id.unwrap_or_else(|| (u128::from(random_id()) << 64) | u128::from(random_id()))
}

#[cfg(test)]
mod tests;
