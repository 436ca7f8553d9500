//! The gate between a server and the LDAP library. A message passes only if the message is whole,
//! parses strictly, and answers the pending request.
//!
//! The library holds an end of a socket pair. The gate holds the other end and the connection, and
//! terminates TLS. The library thus sees only checked bytes of a server (decision T8), and dials
//! nothing itself.

use super::failure::{LdapFailure, failed};
use super::message::{LdapFault, LdapRequest, length};
use crate::limits;
use bulkhead_wire::sync;
use ldap3::LdapError;
use std::future::Future;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{BufReader, ReadBuf};

/// Maximum number of bytes read at once.
const CHUNK: usize = 16 << 10;

/// A gate, open until the session ends or its carrying future is no longer polled.
pub(super) struct LdapFilter {
    way: Arc<FilterState>,
}

/// State shared by both directions.
#[derive(Default)]
struct FilterState {
    asked: Mutex<PendingRequest>,
    /// The reason why the gate closed.
    fault: Mutex<Option<LdapFault>>,
}

/// The pending request, and the number of bytes of its answer so far. A session has a single
/// pending request.
#[derive(Default)]
struct PendingRequest {
    request: Option<LdapRequest>,
    bytes: usize,
}

impl LdapFilter {
    /// Opens a gate to `far`. Also returns the library's end, and the future that carries the
    /// messages: poll the future each time after the library was polled.
    ///
    /// # Errors
    /// The system's error if the system has no more sockets.
    pub(super) fn open(
        far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<(Self, UnixStream, impl Future<Output = ()> + Send + 'static)> {
        let (near, inner) = UnixStream::pair()?;
        inner.set_nonblocking(true)?;
        let way = Arc::new(FilterState::default());
        let carrying = carry(FilterSocket(Arc::new(inner)), far, Arc::clone(&way));
        Ok((Self { way }, near, carrying))
    }

    /// Returns why the library got no answer.
    pub(super) fn failure(&self, error: &LdapError) -> LdapFailure {
        if matches!(error, LdapError::Timeout { .. }) {
            return failed("timed-out", "the server did not answer in time");
        }
        let why = sync::lock(&self.way.fault).map(|fault| fault.to_string());
        failed("unreachable", why.unwrap_or_else(|| "the session broke".to_owned()))
    }
}

/// The gate's end of the socket pair. This end needs no wake-ups: only the library writes to and
/// reads from the other end, and the library is polled in the same turn before the gate.
#[derive(Clone)]
struct FilterSocket(Arc<UnixStream>);

impl AsyncRead for FilterSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = (&*self.0).read(room.initialize_unfilled());
        or_pending(read).map_ok(|count| room.advance(count))
    }
}

impl AsyncWrite for FilterSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        or_pending((&*self.0).write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(std::net::Shutdown::Write))
    }
}

fn or_pending(done: io::Result<usize>) -> Poll<io::Result<usize>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}

async fn carry(
    inner: FilterSocket,
    far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    way: Arc<FilterState>,
) {
    let (far_reader, far_writer) = tokio::io::split(far);
    let requests = pass(inner.clone(), far_writer, |message| way.note_request(message));
    let answers = pass(far_reader, inner, |message| way.check_answer(message));
    let fault = tokio::select! {
        fault = requests => fault,
        fault = answers => fault,
    };
    *sync::lock(&way.fault) = Some(fault);
}

impl FilterState {
    fn note_request(&self, message: &[u8]) -> Result<(), LdapFault> {
        let request = LdapRequest::read(message)?;
        let mut pending = sync::lock(&self.asked);
        *pending = PendingRequest { request: request.has_answer().then_some(request), bytes: 0 };
        Ok(())
    }

    fn check_answer(&self, message: &[u8]) -> Result<(), LdapFault> {
        let mut pending = sync::lock(&self.asked);
        pending.bytes = pending.bytes.saturating_add(message.len());
        if pending.bytes > limits::LDAP_ANSWER_BYTES {
            return Err(LdapFault::TooLarge);
        }
        if LdapRequest::check(pending.request, message)? {
            pending.request = None;
        }
        Ok(())
    }
}

/// Passes whole messages on until the session ends. Returns why the session ended.
async fn pass(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut check: impl FnMut(&[u8]) -> Result<(), LdapFault>,
) -> LdapFault {
    let mut from = BufReader::with_capacity(CHUNK, from);
    loop {
        let message = match read_message(&mut from).await {
            Ok(message) => message,
            Err(fault) => return fault,
        };
        if let Err(fault) = check(&message) {
            return fault;
        }
        if to.write_all(&message).await.is_err() || to.flush().await.is_err() {
            return LdapFault::Ended;
        }
    }
}

/// Reads a single message and no byte after the message. The buffer grows with the received bytes,
/// not with the announced length.
///
/// # Errors
/// The bytes are not a message, the message is too large, or the connection ended within the
/// message.
pub(super) async fn read_message(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Vec<u8>, LdapFault> {
    let mut message = Vec::new();
    let (head, body) = loop {
        message.push(from.read_u8().await.map_err(|_| LdapFault::Ended)?);
        if let Some(found) = length(&message, limits::LDAP_MESSAGE_BYTES)? {
            break found;
        }
    };
    let mut rest = from.take(body as u64);
    rest.read_to_end(&mut message).await.map_err(|_| LdapFault::Ended)?;
    if message.len() < head + body {
        return Err(LdapFault::Ended);
    }
    Ok(message)
}
