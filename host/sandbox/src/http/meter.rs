//! What a call sends and receives, counted as it passes: heads, interim answers and framing too,
//! which no limit of a body sees.

use crate::call_tree::CallTree;
use bulkhead_wire::sync;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes of all HTTP requests of one call.
#[derive(Clone)]
pub(crate) struct Meter {
    tree: Arc<CallTree>,
    most: usize,
}

impl Meter {
    /// Of the calls below `root`, which send and receive at most `most` bytes.
    pub(crate) fn new(tree: &Arc<CallTree>, most: usize) -> Self {
        Self { tree: Arc::clone(tree), most }
    }

    /// Whether there were more.
    pub(crate) fn is_over(&self) -> bool {
        self.tree.count_http_bytes(0) > self.most
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        if self.tree.count_http_bytes(bytes) > self.most {
            return Err(io::Error::other("the call's bytes are used up"));
        }
        Ok(())
    }
}

/// Who pays for the bytes of a stream; between two requests, none does.
#[derive(Clone, Default)]
pub(super) struct Payer(Arc<Mutex<Option<Meter>>>);

/// Ends what a request pays when it is dropped.
pub(super) struct Paid(Payer);

impl Payer {
    /// Lets `meter` pay until what this gives is dropped.
    pub(super) fn charge(&self, meter: Meter) -> Paid {
        *sync::lock(&self.0) = Some(meter);
        Paid(self.clone())
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        sync::lock(&self.0).as_ref().map_or(Ok(()), |meter| meter.count(bytes))
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        *sync::lock(&self.0.0) = None;
    }
}

/// A stream whose bytes are counted. It breaks when there were too many; the piece that was one too
/// many has passed.
pub(super) struct Metered<S> {
    stream: S,
    payer: Payer,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, payer: Payer) -> Self {
        Self { stream, payer }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len().saturating_sub(before);
        read.map(|read| read.and_then(|()| this.payer.count(bytes)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        written
            .map(|written| written.and_then(|written| this.payer.count(written).map(|()| written)))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
