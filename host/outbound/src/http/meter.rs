//! The bytes that a call sends and receives, counted on the wire. The count includes heads, interim
//! answers and framing, which a limit for bodies misses.

use bulkhead_wire::sync;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counter of the bytes of a call's HTTP requests.
#[derive(Clone)]
pub struct ByteMeter {
    passed: Arc<AtomicUsize>,
    most: usize,
}

impl ByteMeter {
    /// Creates a meter with at most `most` bytes sent and received. Meters with the same `passed`
    /// count together.
    pub fn new(passed: &Arc<AtomicUsize>, most: usize) -> Self {
        Self { passed: Arc::clone(passed), most }
    }

    /// Returns whether the bytes are over the limit.
    pub fn is_over(&self) -> bool {
        self.add(0) > self.most
    }

    /// Adds bytes. Returns the new total.
    fn add(&self, bytes: usize) -> usize {
        self.passed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        if self.add(bytes) > self.most {
            return Err(io::Error::other("the call's bytes are used up"));
        }
        Ok(())
    }
}

/// The meter that pays for the bytes of a stream; empty between two requests.
#[derive(Clone, Default)]
pub(super) struct CurrentMeter(Arc<Mutex<Option<ByteMeter>>>);

/// Guard of a payment. Dropping the guard ends the payment.
pub(super) struct MeteringGuard(CurrentMeter);

impl CurrentMeter {
    /// Makes `meter` pay until the returned guard is dropped.
    pub(super) fn charge(&self, meter: ByteMeter) -> MeteringGuard {
        *sync::lock(&self.0) = Some(meter);
        MeteringGuard(self.clone())
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        sync::lock(&self.0).as_ref().map_or(Ok(()), |meter| meter.count(bytes))
    }
}

impl Drop for MeteringGuard {
    fn drop(&mut self) {
        *sync::lock(&self.0.0) = None;
    }
}

/// A stream that counts its bytes. The stream breaks at the first piece over the limit; that piece
/// has already passed.
pub(super) struct MeteredStream<S> {
    stream: S,
    payer: CurrentMeter,
}

impl<S> MeteredStream<S> {
    pub(super) fn new(stream: S, payer: CurrentMeter) -> Self {
        Self { stream, payer }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
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
