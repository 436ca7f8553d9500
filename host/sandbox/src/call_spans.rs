//! The spans of a component call: the call, its host calls, and the exchanges with targets.
//!
//! This file prevents values of a component or a caller from entering a trace: a span bears the
//! name and version of the plugin, the path of the mount, an interface, and a target as the log
//! shows the target.

use crate::context::CallContext;
use crate::identity::ComponentIdentity;
use crate::target_calls::TargetInterface;
use bulkhead_trace::{AttributeName, AttributeValue, OpenSpan, SpanContext, SpanKind, SpanOutcome};
use bulkhead_wire::trace_parent::TraceParent;

/// The spans of a call that are under way; none for a call outside of sampled traces. A span that
/// is dropped with the call ends as cut.
#[derive(Default)]
pub(crate) struct CallSpans {
    exchange: Option<OpenSpan>,
    host_call: Option<OpenSpan>,
    call: Option<OpenSpan>,
}

impl CallSpans {
    /// Begins the span of a call, and makes the span the parent of all spans of the call.
    pub(crate) fn begin(context: &mut CallContext, plugin: &ComponentIdentity) -> Self {
        let above = context.trace.as_ref();
        let Some(mut call) = above.and_then(|trace| trace.child("component", SpanKind::Internal))
        else {
            return Self::default();
        };
        call.note(AttributeName::Mount, AttributeValue::text(context.grants.mount()));
        call.note(AttributeName::Plugin, AttributeValue::text(&plugin.name));
        call.note(AttributeName::PluginVersion, AttributeValue::text(&plugin.version));
        context.trace = Some(call.context().clone());
        Self { call: Some(call), ..Self::default() }
    }

    /// Begins the host call to a target.
    pub(crate) fn begin_host_call(
        &mut self,
        above: Option<&SpanContext>,
        interface: TargetInterface,
    ) {
        let Some(above) = above else { return };
        self.exchange = None;
        self.host_call = above.child("host-call", SpanKind::Internal);
        if let Some(span) = &mut self.host_call {
            span.note(AttributeName::Interface, interface.word());
        }
    }

    /// Returns whether the exchange with a target needs a span.
    pub(crate) fn has_host_call(&self) -> bool {
        self.host_call.is_some()
    }

    /// Begins the exchange with the target of the host call. The text is scrubbed.
    pub(crate) fn begin_exchange(&mut self, target: &str) {
        let above = self.host_call.as_ref().map(OpenSpan::context);
        self.exchange = above.and_then(|above| above.child("target", SpanKind::Client));
        if let Some(span) = &mut self.exchange {
            span.note(AttributeName::Target, AttributeValue::text(target));
        }
    }

    /// Returns the trace context for the target; `call` is the context of the call.
    pub(crate) fn context_for_target(&self, call: Option<&SpanContext>) -> Option<TraceParent> {
        self.exchange.as_ref().map(OpenSpan::context).or(call).map(SpanContext::to_parent)
    }

    /// Notes the HTTP status of the target's answer.
    pub(crate) fn note_status(&mut self, status: u16) {
        if let Some(span) = &mut self.exchange {
            span.note(AttributeName::Status, status);
        }
    }

    /// Ends the host call, and the exchange with its target.
    pub(crate) fn end_host_call(&mut self, is_answered: bool) {
        end_step(self.exchange.take(), is_answered);
        end_step(self.host_call.take(), is_answered);
    }

    /// Ends the call.
    pub(crate) fn end_call(&mut self, is_answered: bool) {
        self.exchange = None;
        self.host_call = None;
        end_step(self.call.take(), is_answered);
    }
}

/// Ends a span, if there is one.
pub(crate) fn end_step(span: Option<OpenSpan>, is_answered: bool) {
    if let Some(span) = span {
        span.end(SpanOutcome::of(is_answered));
    }
}
