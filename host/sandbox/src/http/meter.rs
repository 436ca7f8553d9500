//! What a call sends and receives, counted as it passes: heads, interim answers and framing too,
//! which no limit of a body sees.

use crate::call_tree::CallTree;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
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

/// A stream whose bytes are counted. It breaks when there were too many; the piece that was one too
/// many has passed.
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter }
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
        read.map(|read| read.and_then(|()| this.meter.count(bytes)))
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
            .map(|written| written.and_then(|written| this.meter.count(written).map(|()| written)))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
