//! Bodies for the refusals that hyper sends by itself, after invalid HTTP or too many headers.
//!
//! hyper answers those requests with a bare status, before the server's code sees the request.
//! Without a body, the author of the request could only guess the error.

use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::response::Response;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// First bytes of every refusal.
const REFUSED: &[u8] = b"HTTP/1.1 4";

/// A header that marks a bare refusal: all other refusals have a body.
const NO_BODY: &str = "content-length: 0\r\n";

/// A stream that adds a body to bare refusals.
pub(crate) struct WithErrorBody<S> {
    stream: S,
    /// Unsent bytes of the refusal with its body.
    refusal: Vec<u8>,
}

impl<S> WithErrorBody<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, refusal: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> WithErrorBody<S> {
    /// Sends the rest of a refusal before any other bytes.
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.refusal))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.refusal.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the refusal with a body if `head` is a bare refusal.
fn with_body(head: &[u8]) -> Option<Vec<u8>> {
    let head = head.starts_with(REFUSED).then(|| std::str::from_utf8(head).ok())??;
    if !head.ends_with("\r\n\r\n") || !head.contains(NO_BODY) || head.contains("cache-control") {
        return None;
    }
    let failure = match head.get(9..12)? {
        "431" => Failure::new(
            FailureKind::HeadersTooLarge,
            "the head of this request is too large: the most is 100 headers, 32 KiB for all \
             headers, and 64 KiB with the first line",
        ),
        _ => Failure::invalid(
            "this is not an HTTP/1.1 request: the first line, a header or a length cannot be read; \
             speak plain HTTP/1.1",
        ),
    };
    let (_, content_type, body) = Response::failed(&failure).into_bytes();
    let length = body.len();
    let headers = format!(
        "content-type: {content_type}\r\ncache-control: no-store\r\ncontent-length: {length}\r\n"
    );
    let mut answer = head.replacen(NO_BODY, &headers, 1).into_bytes();
    answer.extend(body);
    Some(answer)
}

/// Returns the complete answer to a client that speaks plain HTTP to a TLS port.
pub(crate) fn speaks_no_tls() -> Vec<u8> {
    let failure = Failure::invalid(
        "this port speaks TLS; write https:// in place of http:// in the address of the server",
    );
    let (_, content_type, body) = Response::failed(&failure).into_bytes();
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: {content_type}\r\ncache-control: no-store\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )
    .into_bytes();
    answer.extend(body);
    answer
}

impl<S: AsyncRead + Unpin> AsyncRead for WithErrorBody<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithErrorBody<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_refusal(context))?;
        if let Some(refusal) = with_body(bytes) {
            self.refusal = refusal;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_refusal(context))?;
        if let [head] = slices
            && let Some(refusal) = with_body(head)
        {
            self.refusal = refusal;
            return Poll::Ready(Ok(head.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Returns the bytes that arrive after `written` is sent through a pipe of 3 bytes.
    async fn sent(written: &'static [u8]) -> String {
        let (near, mut far) = duplex(3);
        let writing = tokio::spawn(async move {
            let mut near = WithErrorBody::new(near);
            near.write_all(written).await.unwrap();
            near.shutdown().await.unwrap();
        });
        let mut arrived = String::new();
        far.read_to_string(&mut arrived).await.unwrap();
        writing.await.unwrap();
        arrived
    }

    #[tokio::test]
    async fn bare_refusal_gets_body_with_reason() {
        for (status, says) in [("400 Bad Request", "not an HTTP/1.1"), ("431 X", "100")] {
            let bare = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n"
            );
            let arrived = sent(bare.leak().as_bytes()).await;
            let (head, body) = arrived.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status}\r\nconnection: close\r\n")),
                "{head}"
            );
            assert!(
                head.contains(&format!("content-length: {}\r\n", body.len()))
                    && head.contains("no-store"),
                "{head}"
            );
            assert!(body.starts_with("{\"errors\":[\"") && body.contains(says), "{body}");
        }
    }

    #[tokio::test]
    async fn everything_else_passes_as_it_is() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 13\r\n\r\n{\"errors\":[]}",
            "HTTP/1.1 404 Not Found\r\ncache-control: no-store\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
        ] {
            assert_eq!(sent(text.as_bytes()).await, text);
        }
    }
}
