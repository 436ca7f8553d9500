//! One connection, from its first byte to its last: the handshake, which version of HTTP is spoken,
//! and how long its client may take for what.
//!
//! The attacks this file stops: handshakes that are begun and left, heads that come a byte at a
//! time, streams of HTTP/2 that are opened and taken back as fast as a client can write, and
//! answers that are asked for and not taken. A connection whose handshake is not done is idle:
//! where slots are scarce it goes first (see [`crate::connection_slots`]).

use crate::answer_body::UntakenAnswers;
use crate::connection_slots::{Close, ConnectionSlot};
use crate::error_body::{self, WithErrorBody};
use crate::headers;
use crate::http::{Answerer, Arrival, HttpFrontend};
use crate::proxies::Origin;
use crate::tls::{self, Tls};
use crate::write_timeout::WriteTimeout;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long headers of HTTP/1.1 may take to arrive, and how long such a connection may stay idle
/// between requests.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// How long a client may take nothing of its answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// Requests at a time on one connection of HTTP/2.
const STREAMS: u32 = 64;

/// Streams that a client may have taken back before the server looked at them.
const RESET_STREAMS: usize = 20;

/// Streams that the server may have ended for a client's mistakes.
const MISTAKEN_STREAMS: usize = 64;

/// What a client of HTTP/2 may send ahead, in bytes: of one body, and of all of a connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Bytes of one answer that wait for their client inside HTTP/2.
const SEND_BUFFER: usize = 32 << 10;

/// Bytes that wait for their client inside TLS: one record.
const TLS_BUFFER: usize = 16 << 10;

/// How long a connection of HTTP/2 may be silent before it is asked whether it is there, and how
/// long it may take to say so.
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(10);

/// How long a connection of HTTP/2 may stay idle, also when it answers.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// How often a connection of HTTP/2 is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// What a client sends that speaks HTTP to a port of TLS begins with one of its methods.
const METHODS: std::ops::RangeInclusive<u8> = b'A'..=b'Z';

/// What is connected.
pub(crate) enum Stream {
    /// By the network, with TLS where there is some.
    Tcp(TcpStream, Option<Arc<Tls>>),
    /// By the file system.
    Unix(UnixStream),
}

/// Who is connected, and in which slot.
pub(crate) struct Peer {
    pub(crate) origin: Origin,
    pub(crate) slot: Arc<ConnectionSlot>,
}

/// A request came over a connection that was told to close, and is not begun.
#[derive(Debug)]
struct ToldToClose;

impl fmt::Display for ToldToClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was idle and its slot was needed")
    }
}

impl std::error::Error for ToldToClose {}

/// Serves a connection until it ends. One that fails concerns its client alone: nothing to report.
pub(crate) async fn serve<A: Answerer>(stream: Stream, peer: Peer, frontend: Arc<HttpFrontend<A>>) {
    let stream = match stream {
        Stream::Unix(stream) => return serve_http1(stream, peer, frontend).await,
        Stream::Tcp(stream, tls) => {
            // Answers are small and whole; a socket that refuses the option only answers a little
            // later.
            stream.set_nodelay(true).unwrap_or_default();
            let Some(tls) = tls else { return serve_http1(stream, peer, frontend).await };
            let handshake = tokio::time::timeout(HANDSHAKE_TIME, shake_hands(stream, &tls));
            tokio::select! {
                done = handshake => done.ok().flatten(),
                _ = peer.slot.told_to_close() => None,
            }
        }
    };
    let Some(stream) = stream else { return };
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) {
        serve_http2(stream, peer, frontend).await;
    } else {
        serve_http1(stream, peer, frontend).await;
    }
}

type Encrypted = TlsStream<WriteTimeout<TcpStream>>;

/// The connection once its client is convinced; `None` when it is not.
async fn shake_hands(mut stream: TcpStream, tls: &Tls) -> Option<Encrypted> {
    let mut first = [0];
    stream.peek(&mut first).await.ok()?;
    if METHODS.contains(&first[0]) {
        let refusal = error_body::speaks_no_tls();
        stream.write_all(&refusal).await.ok()?;
        stream.shutdown().await.ok()?;
        return None;
    }
    let stream = WriteTimeout::new(stream, READ_TIME);
    let mut stream = TlsAcceptor::from(tls.config()).accept(stream).await.ok()?;
    stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
    Some(stream)
}

async fn serve_http1<A: Answerer>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    Peer { origin, slot }: Peer,
    frontend: Arc<HttpFrontend<A>>,
) {
    let (frontend, slot) = (&*frontend, &slot);
    let service = service_fn(move |request| async move {
        let _busy = slot.begin_request().ok_or(ToldToClose)?;
        let reply = frontend.serve(request, Arrival { origin, requests: 1 }).await;
        Ok::<_, ToldToClose>(reply.map(|body| body.over(slot, frontend.answer_budget())))
    });
    let stream = TokioIo::new(WithErrorBody::new(WriteTimeout::new(stream, READ_TIME)));
    let mut connection = pin!(http1_builder().serve_connection(stream, service));
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            close = slot.told_to_close() => match close {
                Close::AtOnce => return,
                Close::AfterAnswer => connection.as_mut().graceful_shutdown(),
            },
        }
    }
}

async fn serve_http2<A: Answerer>(
    stream: Encrypted,
    Peer { origin, slot }: Peer,
    frontend: Arc<HttpFrontend<A>>,
) {
    let untaken = Arc::new(UntakenAnswers::default());
    let service = {
        let (slot, untaken) = (Arc::clone(&slot), Arc::clone(&untaken));
        service_fn(move |request| {
            let (slot, untaken, frontend) =
                (Arc::clone(&slot), Arc::clone(&untaken), Arc::clone(&frontend));
            // It becomes a task, and is moved often until then.
            Box::pin(async move {
                let busy = slot.begin_request().ok_or(ToldToClose)?;
                let arrival = Arrival { origin, requests: slot.requests() };
                let reply = frontend.serve(request, arrival).await;
                let budget = frontend.answer_budget();
                Ok::<_, ToldToClose>(reply.map(|it| it.over(&slot, budget).among(&untaken, busy)))
            })
        })
    };
    let mut connection = pin!(http2_builder().serve_connection(TokioIo::new(stream), service));
    let mut idleness = Idleness::begin(&slot);
    let mut look = tokio::time::interval(LOOK);
    loop {
        let close = tokio::select! {
            _ = connection.as_mut() => return,
            close = slot.told_to_close() => Some(close),
            _ = look.tick() => idleness.look(&slot, &untaken),
        };
        match close {
            None => {}
            Some(Close::AtOnce) => return,
            Some(Close::AfterAnswer) => {
                idleness.is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// How long a connection of HTTP/2 has been idle.
struct Idleness {
    /// Which time of idleness it is, and when it was first seen.
    since: (Option<u64>, Instant),
    /// The client was told to come no more.
    is_closing: bool,
}

impl Idleness {
    fn begin(slot: &ConnectionSlot) -> Self {
        Self { since: (slot.idle_since(), Instant::now()), is_closing: false }
    }

    /// What is to become of the connection.
    fn look(&mut self, slot: &ConnectionSlot, untaken: &UntakenAnswers) -> Option<Close> {
        if untaken.is_any_older_than(READ_TIME) {
            return Some(Close::AtOnce);
        }
        let now = slot.idle_since();
        if now.is_none() || now != self.since.0 {
            self.since = (now, Instant::now());
            return None;
        }
        let limit = if self.is_closing { LOOK } else { IDLE_TIME };
        let close = if self.is_closing { Close::AtOnce } else { Close::AfterAnswer };
        (self.since.1.elapsed() >= limit).then_some(close)
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        // ours refuses first, with a body that says why
        .max_header_size(2 * headers::LIST_MAX);
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(MISTAKEN_STREAMS)
        .max_header_list_size(HEADER_LIST_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIME);
    builder
}

/// Bytes of a list of headers in HTTP/2, which counts 32 more for each; ours refuses first.
const HEADER_LIST_MAX: u32 = 64 << 10;
