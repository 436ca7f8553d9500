//! The body of an answer while it is sent.
//!
//! This file prevents an HTTP/2 client from requesting many answers and reading none. A connection
//! of HTTP/1.1 has a single answer at a time, and an unread answer blocks the socket (see
//! [`crate::write_timeout`]), but an HTTP/2 stream blocks only itself. Therefore an answer counts
//! as a request in progress until its last byte is sent, leaves in small pieces, and reports to its
//! connection when no byte moves.
//!
//! This file also prevents an answer that was cut from being taken for a complete answer: if the
//! source of a streamed answer fails, the connection or stream is broken off without its end.

use crate::answer_budget::AnswerBudget;
use crate::client_concurrency::CountedRequest;
use crate::connection_slots::{BusySlot, ConnectionSlot};
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::client::Client;
use bulkhead_wire::response::ResponseBytes;
use bulkhead_wire::sync;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Size of the pieces given to an HTTP/2 stream, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// An answer that is not yet bound to a connection.
pub(crate) struct UnsentBody {
    content: ResponseBytes,
    client: Client,
    counted: Option<Arc<CountedRequest>>,
}

impl UnsentBody {
    /// Body of an answer to `client`.
    pub(crate) fn new(content: ResponseBytes, client: Client) -> Self {
        Self { content, client, counted: None }
    }

    /// Adds the place in the client's concurrency limit, which the answer keeps to the end.
    pub(crate) fn counted_by(self, counted: Option<Arc<CountedRequest>>) -> Self {
        Self { counted, ..self }
    }

    /// Length in bytes; `None` if the length is not known before the end.
    pub(crate) fn len(&self) -> Option<usize> {
        match &self.content {
            ResponseBytes::Own(bytes) => Some(bytes.len()),
            ResponseBytes::Shared(bytes) => Some(bytes.len()),
            ResponseBytes::Streamed(_) => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self.content {
            ResponseBytes::Own(bytes) => bytes,
            ResponseBytes::Shared(bytes) => Arc::unwrap_or_clone(bytes),
            ResponseBytes::Streamed(_) => Vec::new(),
        }
    }

    /// Removes the bytes.
    pub(crate) fn without_bytes(self) -> Self {
        Self { content: ResponseBytes::Own(Vec::new()), ..self }
    }

    /// Binds the body to the connection in `slot`.
    pub(crate) fn bind_to_connection(
        self,
        slot: &Arc<ConnectionSlot>,
        budget: &Arc<AnswerBudget>,
    ) -> AnswerBody {
        let (left, stream) = match self.content {
            // The source bounds the bytes that wait.
            ResponseBytes::Streamed(stream) => (Bytes::new(), Some(stream)),
            content => (budget.hold(content, self.client, slot), None),
        };
        AnswerBody { left, stream, counted: self.counted, waiting: None, busy: None }
    }
}

/// Unsent bytes of an answer, with the guards that are held until all bytes are sent.
pub(crate) struct AnswerBody {
    left: Bytes,
    /// The source of the bytes after `left`.
    stream: Option<ByteStream>,
    counted: Option<Arc<CountedRequest>>,
    waiting: Option<UntakenAnswer>,
    /// Held while a stream is sent over HTTP/1.1, so that its connection does not count as idle.
    busy: Option<BusySlot>,
}

impl AnswerBody {
    /// Keeps the connection busy until the last byte of a streamed answer has left.
    pub(crate) fn keep_busy(self, busy: BusySlot) -> Self {
        let busy = self.stream.is_some().then_some(busy);
        Self { busy, ..self }
    }

    /// Registers the body with the unsent answers of its connection.
    pub(crate) fn register_unsent(self, untaken: &Arc<UntakenAnswers>, busy: BusySlot) -> Self {
        Self { waiting: Some(untaken.begin(busy)), ..self }
    }

    /// Fetches the next bytes of a streamed answer. Afterwards `left` is empty only at the end.
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CutAnswer>> {
        while self.left.is_empty()
            && let Some(stream) = &self.stream
        {
            let Poll::Ready(chunk) = stream.poll_chunk(context) else {
                // The client has taken everything so far, and the source has nothing to send.
                self.waiting.iter().for_each(UntakenAnswer::renew);
                return Poll::Pending;
            };
            match chunk {
                Some(Ok(bytes)) => self.left = Bytes::from(bytes),
                Some(Err(_)) => {
                    (self.stream, self.counted, self.waiting) = (None, None, None);
                    self.busy = None;
                    return Poll::Ready(Err(CutAnswer));
                }
                None => (self.stream, self.busy) = (None, None),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A streamed answer that ended before its last byte. The status has left already, so that only a
/// broken connection tells the client.
#[derive(Debug)]
pub(crate) struct CutAnswer;

impl fmt::Display for CutAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the source of the answer failed before the end")
    }
}

impl Error for CutAnswer {}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutAnswer>>> {
        if let Err(cut) = ready!(self.poll_left(context)) {
            return Poll::Ready(Some(Err(cut)));
        }
        if self.left.is_empty() {
            (self.counted, self.waiting) = (None, None);
            return Poll::Ready(None);
        }
        let size = match &self.waiting {
            Some(waiting) => {
                waiting.renew();
                self.left.len().min(PIECE_BYTES)
            }
            None => self.left.len(),
        };
        let piece = self.left.split_to(size);
        if self.is_end_stream() {
            (self.counted, self.waiting) = (None, None);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.stream.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(u64::try_from(self.left.len()).unwrap_or(u64::MAX))
    }
}

/// The unsent answers of a connection, each with the time of its last progress.
#[derive(Default)]
pub(crate) struct UntakenAnswers(Mutex<UntakenTable>);

#[derive(Default)]
struct UntakenTable {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

impl UntakenAnswers {
    /// Returns whether an answer has made no progress for `time`.
    pub(crate) fn is_any_older_than(&self, time: Duration) -> bool {
        sync::lock(&self.0).since.values().any(|since| since.elapsed() >= time)
    }

    fn begin(self: &Arc<Self>, busy: BusySlot) -> UntakenAnswer {
        let mut table = sync::lock(&self.0);
        table.next += 1;
        let number = table.next;
        table.since.insert(number, Instant::now());
        drop(table);
        UntakenAnswer { untaken: Arc::clone(self), number, _busy: busy }
    }
}

/// The registration of an unsent answer.
struct UntakenAnswer {
    untaken: Arc<UntakenAnswers>,
    number: u64,
    _busy: BusySlot,
}

impl UntakenAnswer {
    fn renew(&self) {
        sync::lock(&self.untaken.0).since.insert(self.number, Instant::now());
    }
}

impl Drop for UntakenAnswer {
    fn drop(&mut self) {
        sync::lock(&self.untaken.0).since.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_slots::ConnectionSlots;
    use bulkhead_wire::byte_stream::ByteSource;
    use bulkhead_wire::failure::Failure;
    use http_body_util::BodyExt;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn answer_holds_connection_until_fully_taken() {
        let slots = ConnectionSlots::new(1, 1);
        let slot = Arc::new(slots.take(Ipv4Addr::LOCALHOST.into(), false).await.unwrap());
        let untaken = Arc::new(UntakenAnswers::default());
        let content = ResponseBytes::Own(vec![b'a'; PIECE_BYTES + 1]);
        let body = UnsentBody::new(content, Client::of(Ipv4Addr::LOCALHOST.into()));
        let mut body = body
            .bind_to_connection(&slot, &Arc::default())
            .register_unsent(&untaken, slot.begin_request().unwrap());
        assert_eq!(body.size_hint().exact(), Some(16_385));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE_BYTES);
        assert!(slot.idle_since().is_none() && untaken.is_any_older_than(Duration::ZERO));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), 1);
        assert!(body.is_end_stream() && slot.idle_since().is_some());
        assert!(!untaken.is_any_older_than(Duration::ZERO));
    }

    /// A source of two pieces, which then ends or fails.
    struct TestSource {
        pieces: u8,
        fails: bool,
    }

    impl ByteSource for TestSource {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Failure>>> {
            if self.pieces == 0 {
                return Poll::Ready(self.fails.then(|| Err(Failure::internal("gone"))));
            }
            self.pieces -= 1;
            Poll::Ready(Some(Ok(vec![self.pieces; PIECE_BYTES + 1])))
        }
    }

    #[tokio::test]
    async fn streamed_answer_ends_or_is_visibly_cut() {
        let slots = ConnectionSlots::new(1, 1);
        let slot = Arc::new(slots.take(Ipv4Addr::LOCALHOST.into(), false).await.unwrap());
        for fails in [false, true] {
            let untaken = Arc::new(UntakenAnswers::default());
            let content = ByteStream::new(TestSource { pieces: 2, fails });
            let client = Client::of(Ipv4Addr::LOCALHOST.into());
            let mut body = UnsentBody::new(ResponseBytes::Streamed(content), client)
                .bind_to_connection(&slot, &Arc::default())
                .register_unsent(&untaken, slot.begin_request().unwrap());
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (None, false));
            let mut sizes = Vec::new();
            let end = loop {
                match body.frame().await {
                    Some(Ok(frame)) => sizes.push(frame.into_data().unwrap().len()),
                    end => break end,
                }
            };
            assert_eq!(sizes, [PIECE_BYTES, 1, PIECE_BYTES, 1]);
            assert_eq!(end.is_some(), fails, "a cut answer ends with an error");
            assert!(body.is_end_stream() && slot.idle_since().is_some());
            assert!(!untaken.is_any_older_than(Duration::ZERO));
        }
    }
}
