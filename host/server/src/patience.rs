//! A connection whose other end has to read what is sent to it.
//!
//! The attack this file stops: a client that asks and never reads, so that its answers, its
//! connection and its place are held for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when none of them gets anything across for as long as the patience
/// lasts.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Set while the other end reads nothing.
    gives_up: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, gives_up: None }
    }

    /// What to make of what the stream said of a write.
    fn judged<T>(
        &mut self,
        said: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if said.is_ready() {
            self.gives_up = None;
            return said;
        }
        let gives_up = self.gives_up.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        gives_up.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judged(said, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judged(said, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn who_never_reads_is_given_up() {
        let (near, _far) = duplex(64);
        let mut near = Patient::new(near, Duration::from_millis(20));
        let error = near.write_all(&[b'a'; 65]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_reads_slowly_gets_everything_however_long_it_takes() {
        let patience = Duration::from_millis(500);
        let (near, mut far) = duplex(16);
        let mut near = Patient::new(near, patience);
        let begun = tokio::time::Instant::now();
        let sent = tokio::spawn(async move { near.write_all(&[b'a'; 96]).await });
        let mut read = 0;
        while read < 96 {
            sleep(patience / 4).await;
            read += far.read(&mut [0; 16]).await.unwrap();
        }
        sent.await.unwrap().unwrap();
        assert!(begun.elapsed() > patience);
    }
}
