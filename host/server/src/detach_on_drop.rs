//! A future that runs to its end even if its connection stops waiting.
//!
//! This file prevents a client from interrupting its request between 2 steps by disconnecting at
//! the right moment. A connection drops its future when the client disconnects; this wrapper then
//! moves the future into a task. Nearly every request finishes before that and costs no task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that continues in the background if dropped before its end.
pub(crate) struct DetachOnDrop<F: Future<Output: Send + 'static> + Send + 'static>(
    Option<Pin<Box<F>>>,
);

/// The future panicked. Only the panic hook gets the message.
#[derive(Debug)]
pub(crate) struct PanickedFuture;

impl<F: Future<Output: Send + 'static> + Send + 'static> DetachOnDrop<F> {
    /// Wraps `future`, which starts with the first poll. The poll has to run on the runtime.
    pub(crate) fn new(future: Pin<Box<F>>) -> Self {
        Self(Some(future))
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for DetachOnDrop<F> {
    type Output = Result<F::Output, PanickedFuture>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Ready(Err(PanickedFuture)) };
        // The state of a panicked future is never used again, as with a task.
        let polled = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Ok(done),
            Err(_) => Err(PanickedFuture),
        };
        self.0 = None;
        Poll::Ready(polled)
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for DetachOnDrop<F> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the future is lost.
        if let (Some(future), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::{Notify, oneshot};

    #[tokio::test]
    async fn an_awaited_future_gives_its_result() {
        assert_eq!(DetachOnDrop::new(Box::pin(async { 7 })).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_dropped_future_still_completes() {
        let (go_on, (done, is_done)) = (Arc::new(Notify::new()), oneshot::channel());
        let waits = Arc::clone(&go_on);
        let mut work = DetachOnDrop::new(Box::pin(async move {
            waits.notified().await;
            done.send("done").unwrap();
        }));
        let polled =
            std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut work).poll(context))).await;
        assert!(polled.is_pending());
        drop(work);
        go_on.notify_one();
        assert_eq!(is_done.await.unwrap(), "done");
    }

    #[tokio::test]
    async fn a_panic_is_a_result() {
        async fn panics() {
            panic!("a panic for the hook")
        }
        DetachOnDrop::new(Box::pin(panics())).await.unwrap_err();
    }
}
