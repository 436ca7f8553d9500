//! The gate between a server and the LDAP library: whole messages pass, once they were read
//! strictly, and only those that answer what was asked.
//!
//! The library is given one end of a pair of sockets; the other end is here, with the connection
//! behind it, from which TLS was taken off. So the library sees no byte of a server that was not
//! vetted (decision T8), and dials nothing by itself.

use super::failure::{LdapFailure, failed};
use super::message::{Fault, Request, length};
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

/// Bytes that are read at a time.
const CHUNK: usize = 16 << 10;

/// A gate that is open for as long as what carries through it is polled, or until the session ends.
pub(super) struct Gate {
    way: Arc<Way>,
}

/// What passes, in both directions.
#[derive(Default)]
struct Way {
    asked: Mutex<Asked>,
    /// Why it closed.
    fault: Mutex<Option<Fault>>,
}

/// The request that waits for its answer, and how many bytes of that came. A session has one at a
/// time.
#[derive(Default)]
struct Asked {
    request: Option<Request>,
    bytes: usize,
}

impl Gate {
    /// Opens a gate to `far`. With it the end that is for the library, and what carries: it is to
    /// be polled each time that the library was.
    ///
    /// # Errors
    /// The system's, where it has no more sockets.
    pub(super) fn open(
        far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<(Self, UnixStream, impl Future<Output = ()> + Send + 'static)> {
        let (near, inner) = UnixStream::pair()?;
        inner.set_nonblocking(true)?;
        let way = Arc::new(Way::default());
        let carrying = carry(Inner(Arc::new(inner)), far, Arc::clone(&way));
        Ok((Self { way }, near, carrying))
    }

    /// Why the library had no answer.
    pub(super) fn failure(&self, error: &LdapError) -> LdapFailure {
        if matches!(error, LdapError::Timeout { .. }) {
            return failed("timed-out", "the server did not answer in time");
        }
        let why = sync::lock(&self.way.fault).map(|fault| fault.to_string());
        failed("unreachable", why.unwrap_or_else(|| "the session broke".to_owned()))
    }
}

/// Our end of the pair. It wakes nothing: only the library, which is polled in the same turn before
/// it, writes to the other end and reads from it, and so no event has to tell what it did.
#[derive(Clone)]
struct Inner(Arc<UnixStream>);

impl AsyncRead for Inner {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = (&*self.0).read(room.initialize_unfilled());
        or_pending(read).map_ok(|count| room.advance(count))
    }
}

impl AsyncWrite for Inner {
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
    inner: Inner,
    far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    way: Arc<Way>,
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

impl Way {
    fn note_request(&self, message: &[u8]) -> Result<(), Fault> {
        let request = Request::read(message)?;
        let mut asked = sync::lock(&self.asked);
        *asked = Asked { request: request.has_answer().then_some(request), bytes: 0 };
        Ok(())
    }

    fn check_answer(&self, message: &[u8]) -> Result<(), Fault> {
        let mut asked = sync::lock(&self.asked);
        asked.bytes = asked.bytes.saturating_add(message.len());
        if asked.bytes > limits::LDAP_ANSWER_BYTES {
            return Err(Fault::TooLarge);
        }
        if Request::check(asked.request, message)? {
            asked.request = None;
        }
        Ok(())
    }
}

/// Passes whole messages on, until there are no more. Why it ended.
async fn pass(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut check: impl FnMut(&[u8]) -> Result<(), Fault>,
) -> Fault {
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
            return Fault::Ended;
        }
    }
}

/// One message, and no byte behind it. Its memory grows with what came, not with what was promised.
///
/// # Errors
/// Where it is none, too large, or cut short.
pub(super) async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Fault> {
    let mut message = Vec::new();
    let (head, body) = loop {
        message.push(from.read_u8().await.map_err(|_| Fault::Ended)?);
        if let Some(found) = length(&message, limits::LDAP_MESSAGE_BYTES)? {
            break found;
        }
    };
    let mut rest = from.take(body as u64);
    rest.read_to_end(&mut message).await.map_err(|_| Fault::Ended)?;
    if message.len() < head + body {
        return Err(Fault::Ended);
    }
    Ok(message)
}
