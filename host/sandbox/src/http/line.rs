//! HTTP on one connection: a request and its answer, and maybe another later.

use super::fault::HttpFault;
use super::meter::{Meter, Metered, Payer};
use crate::driven::Driven;
use crate::limits;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// A server's answer, whole. No `Debug`: it may hold a token.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// A connection over which HTTP is spoken. Dropping it closes it.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    driven: Driven,
    /// Whose bytes pass.
    payer: Payer,
    opened: Instant,
}

/// Why a request has no answer.
pub(super) struct Unanswered {
    pub(super) fault: HttpFault,
    /// Nothing of an answer came.
    pub(super) is_silent: bool,
}

impl From<Unanswered> for HttpFault {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.fault
    }
}

impl Line {
    /// Begins to speak over `stream`.
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, HttpFault> {
        let payer = Payer::default();
        let io = TokioIo::new(Metered::new(stream, payer.clone()));
        let mut http = http1::Builder::new();
        // The one bounds what is read at a time, and only the other a head.
        http.max_buf_size(limits::HTTP_ANSWER_HEAD_BYTES)
            .max_header_size(limits::HTTP_ANSWER_HEAD_BYTES);
        let (sender, connection) =
            http.handshake(io).await.map_err(|error| HttpFault::of(&error))?;
        // How it ends, the answer says by itself.
        let driven = Driven::new(async move { drop(connection.await) });
        Ok(Self { sender, driven, payer, opened: Instant::now() })
    }

    /// Sends a request, for whose bytes and those of its answer `meter` pays, and waits for an
    /// answer of at most `most` bytes.
    pub(super) async fn ask(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
        meter: Meter,
        most: usize,
    ) -> Result<Answered, Unanswered> {
        let _paid = self.payer.charge(meter);
        self.driven.until(converse(&mut self.sender, request, most)).await
    }

    /// Whether it may take another request: it has not ended with its last answer, and is not so
    /// old that its name may lead elsewhere by now.
    pub(super) fn may_go_on(&self) -> bool {
        self.driven.was_open()
            && !self.sender.is_closed()
            && self.opened.elapsed() < limits::KEPT_AGE
    }
}

async fn converse(
    sender: &mut SendRequest<Full<Bytes>>,
    request: hyper::Request<Full<Bytes>>,
    most: usize,
) -> Result<Answered, Unanswered> {
    let silent = |error: hyper::Error| Unanswered { fault: HttpFault::of(&error), is_silent: true };
    sender.ready().await.map_err(silent)?;
    let response = sender.send_request(request).await.map_err(silent)?;
    read_whole(response, most).await.map_err(|fault| Unanswered { fault, is_silent: false })
}

async fn read_whole(response: Response<Incoming>, most: usize) -> Result<Answered, HttpFault> {
    let (head, body) = response.into_parts();
    if head.status.is_informational() {
        // Another protocol was not asked for.
        return Err(HttpFault::NotHttp);
    }
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| HttpFault::of(error.as_ref()))?;
    Ok(Answered {
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
