//! The request or due work in which the current task works, for the log and for traces.
//!
//! A log line of a request names the request by the id that the answer and the audit lines carry,
//! and a span has the span above as its parent. Both travel with the task instead of through each
//! function: a function in the middle that forgets the id must not lose the id.

use crate::record::{AttributeName, AttributeValue, SpanKind, SpanOutcome};
use crate::span::{OpenSpan, SpanContext};
use futures_util::FutureExt as _;
use std::sync::Arc;

tokio::task_local! {
    static SCOPE: WorkScope;
}

/// The work of a task.
#[derive(Clone)]
struct WorkScope {
    /// `None`: due work, which has no request.
    request: Option<Arc<str>>,
    /// `None`: the work is part of no trace.
    span: Option<SpanContext>,
}

/// Runs `work` as part of the request `id` and of its trace. Not an `async fn`, like [`in_step`]:
/// an `async fn` stores a future that it takes as an argument twice, and each move of a request
/// copies both.
pub fn in_request<F: Future>(
    id: &str,
    span: Option<SpanContext>,
    work: F,
) -> impl Future<Output = F::Output> + use<F> {
    SCOPE.scope(WorkScope { request: Some(id.into()), span }, work)
}

/// Runs due work as part of the trace of `span`, and ends the span with the work.
pub async fn in_due_work<T, E>(
    span: Option<OpenSpan>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(span) = span else { return work.await };
    let scope = WorkScope { request: None, span: Some(span.context().clone()) };
    let done = SCOPE.scope(scope, work).await;
    span.end(SpanOutcome::of(done.is_ok()));
    done
}

/// Returns the id of the request in which the current task works; `None` outside of requests.
#[must_use]
pub fn current_request() -> Option<Arc<str>> {
    SCOPE.try_with(|scope| scope.request.clone()).ok().flatten()
}

/// Returns the span in which the current task works; `None` outside of traces.
#[must_use]
pub fn current_span() -> Option<SpanContext> {
    SCOPE.try_with(|scope| scope.span.clone()).ok().flatten()
}

/// Returns `work` as part of the current request and trace, if there is one: for a task of its own.
pub fn of_current_request<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = SCOPE.try_with(WorkScope::clone).ok();
    async move {
        match scope {
            Some(scope) => SCOPE.scope(scope, work).await,
            None => work.await,
        }
    }
}

/// Begins a step of the current request or due work; `None` if there is no sampled trace.
#[must_use]
pub fn begin_step(name: &'static str) -> Option<OpenSpan> {
    let child = |scope: &WorkScope| scope.span.as_ref()?.child(name, SpanKind::Internal);
    SCOPE.try_with(child).ok().flatten()
}

/// Runs a step of the current request or due work.
///
/// # Errors
/// The error of `work`.
pub fn in_step<T, E>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    let span = begin_step(name);
    work.map(|done| {
        if let Some(span) = span {
            span.end(SpanOutcome::of(done.is_ok()));
        }
        done
    })
}

/// Adds the mount and the operation to the root of the current trace, if the trace is sampled.
pub fn describe_request(mount: &str, operation: &'static str) {
    _ = SCOPE.try_with(|scope| {
        if let Some(span) = scope.span.as_ref().filter(|span| span.is_sampled()) {
            span.describe_root([
                (AttributeName::Mount, AttributeValue::text(mount)),
                (AttributeName::Operation, operation.into()),
            ]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_of_request_keep_its_id() {
        assert_eq!(current_request(), None);
        let id = || async { current_request() };
        let (own, bare) = in_request("5e1c", None, async {
            let own = tokio::spawn(of_current_request(id()));
            let bare = tokio::spawn(id());
            assert_eq!(current_request().as_deref(), Some("5e1c"));
            (own.await.unwrap(), bare.await.unwrap())
        })
        .await;
        assert_eq!(own.as_deref(), Some("5e1c"));
        assert_eq!(bare, None);
        assert_eq!(of_current_request(id()).await, None);
    }
}
