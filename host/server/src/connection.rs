//! Life of a connection: the handshake, the HTTP version, and the timeouts.
//!
//! This file prevents handshakes that never finish, request heads that arrive a byte at a time,
//! HTTP/2 streams that are opened and reset as fast as a client can write, and answers that are
//! requested but not read. A connection counts as idle during its handshake, so that it is among
//! the first to be closed when slots are scarce (see [`crate::connection_slots`]).

use crate::answer_body::{UnsentBody, UntakenAnswers};
use crate::answerer::RequestAnswerer;
use crate::connection_slots::{CloseMoment, ConnectionSlot};
use crate::error_body::{self, WithErrorBody};
use crate::headers;
use crate::http::{HttpFrontend, RequestArrival};
use crate::proxies::ConnectionOrigin;
use crate::tls;
use crate::write_timeout::WriteTimeout;
use bulkhead_tls::{ListenerTls, ServerStream};
use bulkhead_wire::server_figures::OpenConnection;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Timeout of the handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Time in which a connection without a request so far may still send one after the server began to
/// stop. A client that has just connected is then answered, and an unused connection delays the end
/// of the process no longer.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// Timeout for the headers of an HTTP/1.1 request, and idle timeout between requests.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// Maximum time during which a client may read nothing of its answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// Maximum number of simultaneous requests on an HTTP/2 connection.
const MAX_HTTP2_STREAMS: u32 = 64;

/// Maximum number of streams that a client may have reset before the server accepted them.
const RESET_STREAMS: usize = 20;

/// Maximum number of streams that the server may have reset for a client's protocol errors.
const MISTAKEN_STREAMS: usize = 64;

/// HTTP/2 flow control windows, in bytes: for a single body, and for a whole connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Maximum number of bytes that HTTP/2 buffers of an answer.
const SEND_BUFFER: usize = 32 << 10;

/// Maximum number of bytes that TLS buffers: a single record.
const TLS_BUFFER: usize = 16 << 10;

/// Silence after which an HTTP/2 connection is pinged, and the timeout of that ping.
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(10);

/// Idle timeout of an HTTP/2 connection that answers its pings.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Interval between idle checks of an HTTP/2 connection.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Time without traffic after which the kernel asks whether the client of a connection is there. An
/// answer without an end, such as that of `sys/monitor`, may be silent for hours, and holds a place
/// until the client is known to be gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Time between two of these questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Number of these questions without an answer after which the connection is broken.
const KEEPALIVE_PROBES: u32 = 3;

/// First bytes of HTTP methods. A client that sends such a byte to a TLS port speaks plain HTTP.
const METHODS: std::ops::RangeInclusive<u8> = b'A'..=b'Z';

/// The timeouts of a connection that a test may choose.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    /// Timeout of the handshake.
    pub(crate) handshake: Duration,
    /// Maximum time before the first request of a connection, once the server stops.
    pub(crate) first_request: Duration,
    /// Maximum time during which a client may read nothing of its answer.
    pub(crate) read: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self { handshake: HANDSHAKE_TIME, first_request: FIRST_REQUEST_TIME, read: READ_TIME }
    }
}

/// An accepted stream.
pub(crate) enum AcceptedStream {
    /// A TCP connection, with the listener's TLS if configured.
    Tcp(TcpStream, Option<Arc<ListenerTls>>),
    /// A Unix socket connection.
    Unix(UnixStream),
}

/// The origin of a connection and its slot.
pub(crate) struct ConnectionPeer {
    pub(crate) origin: ConnectionOrigin,
    pub(crate) slot: Arc<ConnectionSlot>,
    /// Counts the connection as open.
    pub(crate) counted: OpenConnection,
}

/// A request arrived on a connection that was told to close. The request is not begun.
#[derive(Debug)]
struct ToldToClose;

impl fmt::Display for ToldToClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was idle and the slot was needed")
    }
}

impl std::error::Error for ToldToClose {}

/// Asks the kernel to look for the client of a silent connection. Without an option that the kernel
/// refuses, the end of a client that vanished is noticed later.
fn ask_for_client(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES);
}

/// Serves a connection until it ends. A failed connection affects only its client, so nothing is
/// logged.
pub(crate) async fn serve<A: RequestAnswerer>(
    stream: AcceptedStream,
    peer: ConnectionPeer,
    frontend: Arc<HttpFrontend<A>>,
    timeouts: ConnectionTimeouts,
) {
    let stream = match stream {
        AcceptedStream::Unix(stream) => {
            peer.counted.accept();
            return serve_http1(stream, peer, frontend, timeouts).await;
        }
        AcceptedStream::Tcp(stream, tls) => {
            // Answers are small and complete. If the socket refuses the option, answers are only a
            // little later.
            stream.set_nodelay(true).unwrap_or_default();
            ask_for_client(&stream);
            let Some(tls) = tls else {
                peer.counted.accept();
                return serve_http1(stream, peer, frontend, timeouts).await;
            };
            let shaken = shake_hands(stream, &tls, timeouts.read);
            finish_handshake(shaken, timeouts, &peer.slot).await
        }
    };
    let Some(stream) = stream else { return peer.counted.fail_handshake() };
    peer.counted.accept();
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) {
        serve_http2(stream, peer, frontend, timeouts.read).await;
    } else {
        serve_http1(stream, peer, frontend, timeouts).await;
    }
}

/// Waits for the end of a handshake. A server that begins to stop still completes a handshake that
/// ends soon, because the client has a request.
async fn finish_handshake<S>(
    handshake: impl Future<Output = Option<S>>,
    timeouts: ConnectionTimeouts,
    slot: &ConnectionSlot,
) -> Option<S> {
    let mut handshake = pin!(tokio::time::timeout(timeouts.handshake, handshake));
    let close = tokio::select! {
        done = handshake.as_mut() => return done.ok().flatten(),
        close = slot.close_requested() => close,
    };
    match close {
        CloseMoment::AtOnce => None,
        CloseMoment::AfterAnswer => {
            // The connection that follows the handshake has to close, too.
            slot.repeat_close();
            let soon = tokio::time::timeout(timeouts.first_request, handshake).await;
            soon.ok().and_then(Result::ok).flatten()
        }
    }
}

type EncryptedStream = ServerStream<WriteTimeout<TcpStream>>;

/// Performs the TLS handshake. Returns `None` if the handshake fails.
async fn shake_hands(
    mut stream: TcpStream,
    tls: &ListenerTls,
    read: Duration,
) -> Option<EncryptedStream> {
    let mut first = [0];
    stream.peek(&mut first).await.ok()?;
    if METHODS.contains(&first[0]) {
        let refusal = error_body::speaks_no_tls();
        stream.write_all(&refusal).await.ok()?;
        stream.shutdown().await.ok()?;
        return None;
    }
    let stream = WriteTimeout::new(stream, read);
    let mut stream = tls.accept(stream).await.ok()?;
    stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
    Some(stream)
}

async fn serve_http1<A: RequestAnswerer>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    ConnectionPeer { origin, slot, counted: _counted }: ConnectionPeer,
    frontend: Arc<HttpFrontend<A>>,
    timeouts: ConnectionTimeouts,
) {
    let (frontend, slot) = (&*frontend, &slot);
    let is_closing = &AtomicBool::new(false);
    let service = service_fn(move |request| async move {
        let busy = slot.begin_request().ok_or(ToldToClose)?;
        let mut reply = frontend.serve(request, RequestArrival { origin, requests: 1 }).await;
        if is_closing.load(Ordering::Relaxed) {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let budget = frontend.answer_budget();
        let bind = |body: UnsentBody| body.bind_to_connection(slot, budget).keep_busy(busy);
        Ok::<_, ToldToClose>(reply.map(bind))
    });
    let stream = TokioIo::new(WithErrorBody::new(WriteTimeout::new(stream, timeouts.read)));
    let unused = slot.idle_since();
    let mut connection = pin!(http1_builder().serve_connection(stream, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        close = slot.close_requested() => match close {
            CloseMoment::AtOnce => return,
            CloseMoment::AfterAnswer => is_closing.store(true, Ordering::Relaxed),
        },
    }
    // The library would close an unused connection before its first request.
    if slot.idle_since() != unused {
        connection.as_mut().graceful_shutdown();
    }
    tokio::select! {
        _ = connection => {}
        () = cut_requested(slot) => {}
        () = stays_unused(slot, unused, timeouts.first_request) => {}
    }
}

/// Resolves if the connection has to close at once.
async fn cut_requested(slot: &ConnectionSlot) {
    while slot.close_requested().await != CloseMoment::AtOnce {}
}

/// Resolves if a closing connection, idle since `unused`, has no first request within `limit`.
async fn stays_unused(slot: &ConnectionSlot, unused: Option<u64>, limit: Duration) {
    tokio::time::sleep(limit).await;
    if slot.idle_since() != unused {
        std::future::pending().await
    }
}

async fn serve_http2<A: RequestAnswerer>(
    stream: EncryptedStream,
    ConnectionPeer { origin, slot, counted: _counted }: ConnectionPeer,
    frontend: Arc<HttpFrontend<A>>,
    read: Duration,
) {
    let untaken = Arc::new(UntakenAnswers::default());
    let service =
        {
            let (slot, untaken) = (Arc::clone(&slot), Arc::clone(&untaken));
            service_fn(move |request| {
                let (slot, untaken, frontend) =
                    (Arc::clone(&slot), Arc::clone(&untaken), Arc::clone(&frontend));
                // The future becomes a task and moves often before that; the box keeps moves cheap.
                Box::pin(async move {
                    let busy = slot.begin_request().ok_or(ToldToClose)?;
                    let arrival = RequestArrival { origin, requests: slot.requests() };
                    let reply = frontend.serve(request, arrival).await;
                    let budget = frontend.answer_budget();
                    Ok::<_, ToldToClose>(reply.map(|it| {
                        it.bind_to_connection(&slot, budget).register_unsent(&untaken, busy)
                    }))
                })
            })
        };
    let mut connection = pin!(http2_builder().serve_connection(TokioIo::new(stream), service));
    let mut idleness = IdleTime::begin(&slot);
    let mut look = tokio::time::interval(IDLE_CHECK_INTERVAL);
    loop {
        let close = tokio::select! {
            _ = connection.as_mut() => return,
            close = slot.close_requested() => Some(close),
            _ = look.tick() => idleness.check_idle(&slot, &untaken, read),
        };
        match close {
            None => {}
            Some(CloseMoment::AtOnce) => return,
            Some(CloseMoment::AfterAnswer) => {
                idleness.is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The idle time of an HTTP/2 connection.
struct IdleTime {
    /// The slot's idle mark, and the time at which the mark was first seen.
    since: (Option<u64>, Instant),
    /// The client was told to send no further requests.
    is_closing: bool,
}

impl IdleTime {
    fn begin(slot: &ConnectionSlot) -> Self {
        Self { since: (slot.idle_since(), Instant::now()), is_closing: false }
    }

    /// Checks the connection and returns how to close it, if it has to close. `read` is the timeout
    /// of an unread answer.
    fn check_idle(
        &mut self,
        slot: &ConnectionSlot,
        untaken: &UntakenAnswers,
        read: Duration,
    ) -> Option<CloseMoment> {
        if untaken.is_any_older_than(read) {
            return Some(CloseMoment::AtOnce);
        }
        let now = slot.idle_since();
        if now.is_none() || now != self.since.0 {
            self.since = (now, Instant::now());
            return None;
        }
        let limit = if self.is_closing { IDLE_CHECK_INTERVAL } else { IDLE_TIME };
        let close = if self.is_closing { CloseMoment::AtOnce } else { CloseMoment::AfterAnswer };
        (self.since.1.elapsed() >= limit).then_some(close)
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        // The limit in `headers` is lower and refuses with a message.
        .max_header_size(2 * headers::LIST_MAX);
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
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

/// Maximum size of an HTTP/2 header list, in bytes; HTTP/2 adds 32 for each header. The lower limit
/// in `headers` refuses first.
const HEADER_LIST_MAX: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn kernel_asks_for_silent_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        ask_for_client(&stream);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), KEEPALIVE_PROBES);
    }
}
