//! The queue of finished spans before their export.
//!
//! This file prevents a collector that is slow or gone from taking the server's memory or time: a
//! span without room is dropped and counted, and no request waits.

use crate::record::FinishedSpan;
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Maximum number of spans that wait for their export.
const QUEUE_SPANS: usize = 8_192;
/// Maximum memory of the spans that wait for their export, in bytes.
const QUEUE_BYTES: usize = 8 << 20;
/// Maximum number of spans of a batch; a batch of this size is sent at once.
pub const BATCH_SPANS: usize = 512;

/// The counts of spans since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Spans that a collector accepted.
    pub exported: u64,
    /// Spans without room in the queue or in their trace, and spans that a collector refused.
    pub dropped: u64,
}

/// The queue.
#[derive(Default)]
pub(crate) struct SpanQueue {
    content: Mutex<QueueContent>,
    exported: AtomicU64,
    dropped: AtomicU64,
    /// Notified when a whole batch waits.
    filled: Notify,
}

#[derive(Default)]
struct QueueContent {
    spans: VecDeque<FinishedSpan>,
    bytes: usize,
}

impl SpanQueue {
    /// Adds a span, or drops and counts the span if there is no room.
    pub(crate) fn push(&self, span: FinishedSpan) {
        let bytes = span.bytes();
        let mut content = sync::lock(&self.content);
        let has_room =
            content.spans.len() < QUEUE_SPANS && content.bytes.saturating_add(bytes) <= QUEUE_BYTES;
        if !has_room {
            drop(content);
            return self.note_dropped(1);
        }
        content.bytes = content.bytes.saturating_add(bytes);
        content.spans.push_back(span);
        if content.spans.len() >= BATCH_SPANS {
            self.filled.notify_one();
        }
    }

    /// Takes the oldest spans, at most a batch.
    pub(crate) fn take_batch(&self) -> Vec<FinishedSpan> {
        let mut content = sync::lock(&self.content);
        let count = content.spans.len().min(BATCH_SPANS);
        let batch: Vec<_> = content.spans.drain(..count).collect();
        let bytes: usize = batch.iter().map(FinishedSpan::bytes).sum();
        content.bytes = content.bytes.saturating_sub(bytes);
        batch
    }

    /// Waits until a whole batch waits.
    pub(crate) async fn wait_for_batch(&self) {
        while sync::lock(&self.content).spans.len() < BATCH_SPANS {
            self.filled.notified().await;
        }
    }

    pub(crate) fn note_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn note_dropped(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> TraceFigures {
        TraceFigures {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AttributeName, AttributeValue, SpanKind};

    fn span(texts: usize) -> FinishedSpan {
        let text = || (AttributeName::Target, AttributeValue::text(&"x".repeat(256)));
        FinishedSpan {
            trace_id: 1,
            span_id: 1,
            parent_id: 0,
            name: "request",
            kind: SpanKind::Server,
            begin: 0,
            end: 1,
            attributes: std::iter::repeat_with(text).take(texts).collect(),
            is_failed: false,
        }
    }

    #[test]
    fn full_queue_drops_and_counts_spans() {
        let queue = SpanQueue::default();
        (0..QUEUE_SPANS + 3).for_each(|_| queue.push(span(0)));
        assert_eq!(queue.figures(), TraceFigures { exported: 0, dropped: 3 });
        assert_eq!(queue.take_batch().len(), BATCH_SPANS);
        queue.push(span(0));
        assert_eq!(queue.figures().dropped, 3, "the batch left room");
    }

    #[test]
    fn large_spans_fill_queue_by_their_bytes() {
        let queue = SpanQueue::default();
        let bytes = span(100).bytes();
        (0..QUEUE_BYTES / bytes + 1).for_each(|_| queue.push(span(100)));
        assert_eq!(queue.figures().dropped, 1);
        let mut count = 0;
        loop {
            let batch = queue.take_batch();
            if batch.is_empty() {
                break;
            }
            count += batch.len();
        }
        assert_eq!((count, sync::lock(&queue.content).bytes), (QUEUE_BYTES / bytes, 0));
    }

    #[tokio::test]
    async fn waiter_sees_batch_from_before_its_wait() {
        let queue = SpanQueue::default();
        (0..BATCH_SPANS).for_each(|_| queue.push(span(0)));
        queue.wait_for_batch().await;
        queue.take_batch();
        let waiting = queue.wait_for_batch();
        let filled = async { (0..BATCH_SPANS).for_each(|_| queue.push(span(0))) };
        tokio::join!(waiting, filled);
    }
}
