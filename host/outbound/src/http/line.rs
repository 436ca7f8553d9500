//! HTTP on a single connection: a request and its answer, and perhaps further requests.

use super::fault::HttpFault;
use super::meter::{ByteMeter, CurrentMeter, MeteredStream};
use crate::inline_driver::InlineDriver;
use crate::limits;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// A server's complete answer. There is no `Debug`, because the answer may hold a token.
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

/// An HTTP connection. Dropping the value closes the connection.
pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    driven: InlineDriver,
    /// Meter for the bytes of the current request.
    payer: CurrentMeter,
    opened: Instant,
}

/// A fault of a request without an answer.
pub(super) struct UnansweredRequest {
    pub(super) fault: HttpFault,
    /// The server sent nothing of an answer.
    pub(super) is_silent: bool,
}

impl From<UnansweredRequest> for HttpFault {
    fn from(unanswered: UnansweredRequest) -> Self {
        unanswered.fault
    }
}

impl HttpConnection {
    /// Starts HTTP on `stream`.
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, HttpFault> {
        let payer = CurrentMeter::default();
        let io = TokioIo::new(MeteredStream::new(stream, payer.clone()));
        let mut http = http1::Builder::new();
        // `max_buf_size` limits the bytes read at once; only `max_header_size` limits a head.
        http.max_buf_size(limits::HTTP_ANSWER_HEAD_BYTES)
            .max_header_size(limits::HTTP_ANSWER_HEAD_BYTES);
        let (sender, connection) =
            http.handshake(io).await.map_err(|error| HttpFault::of(&error))?;
        // Ignore the connection's own result: the answer reports the end.
        let driven = InlineDriver::new(async move { drop(connection.await) });
        Ok(Self { sender, driven, payer, opened: Instant::now() })
    }

    /// Sends a request and waits for an answer of at most `most` bytes. `meter` counts the bytes of
    /// both.
    pub(super) async fn send_metered(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
        meter: ByteMeter,
        most: usize,
    ) -> Result<HttpAnswer, UnansweredRequest> {
        let _paid = self.payer.charge(meter);
        self.driven.drive_until(send_and_read(&mut self.sender, request, most)).await
    }

    /// Returns whether the connection may carry another request: the connection is still open, and
    /// too young for the server's name to lead elsewhere.
    pub(super) fn is_reusable(&self) -> bool {
        self.driven.was_open()
            && !self.sender.is_closed()
            && self.opened.elapsed() < limits::CONNECTION_MAX_AGE
    }
}

async fn send_and_read(
    sender: &mut SendRequest<Full<Bytes>>,
    request: hyper::Request<Full<Bytes>>,
    most: usize,
) -> Result<HttpAnswer, UnansweredRequest> {
    let silent =
        |error: hyper::Error| UnansweredRequest { fault: HttpFault::of(&error), is_silent: true };
    sender.ready().await.map_err(silent)?;
    let response = sender.send_request(request).await.map_err(silent)?;
    read_answer(response, most).await.map_err(|fault| UnansweredRequest { fault, is_silent: false })
}

async fn read_answer(response: Response<Incoming>, most: usize) -> Result<HttpAnswer, HttpFault> {
    let (head, body) = response.into_parts();
    if head.status.is_informational() {
        // No request asks for a protocol upgrade.
        return Err(HttpFault::NotHttp);
    }
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| HttpFault::of(error.as_ref()))?;
    Ok(HttpAnswer {
        status: head.status.as_u16(),
        headers: texts(&head.headers),
        body: body.to_bytes(),
    })
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text =
        |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
