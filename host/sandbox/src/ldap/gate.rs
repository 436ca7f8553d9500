//! The gate between a server and the LDAP library: whole messages pass, once they were read
//! strictly, and only those that answer what was asked.
//!
//! The library is given one end of a pair of sockets; the other end is here, with the connection
//! behind it, from which TLS was taken off. So the library sees no byte of a server that was not
//! vetted (decision T8), and dials nothing by itself.

use super::message::{Fault, Request, length};
use crate::limits;
use bulkhead_wire::sync;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// Bytes that are read at a time.
const CHUNK: usize = 16 << 10;

/// A gate that is open until it is dropped, or the session ends.
pub(super) struct Gate {
    carrying: JoinHandle<()>,
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
    /// Opens a gate to `far`, and the end of it that is for the library.
    ///
    /// # Errors
    /// The system's, where it has no more sockets.
    pub(super) fn open(
        far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<(Self, StdUnixStream)> {
        let (near, inner) = StdUnixStream::pair()?;
        inner.set_nonblocking(true)?;
        let (inner, way) = (UnixStream::from_std(inner)?, Arc::new(Way::default()));
        let carrying = tokio::spawn(carry(inner, far, Arc::clone(&way)));
        Ok((Self { carrying, way }, near))
    }

    /// Why it closed; `None` while it is open.
    pub(super) fn fault(&self) -> Option<Fault> {
        *sync::lock(&self.way.fault)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.carrying.is_finished()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(
    inner: UnixStream,
    far: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    way: Arc<Way>,
) {
    let (inner_reader, inner_writer) = inner.into_split();
    let (far_reader, far_writer) = tokio::io::split(far);
    let requests = pass(inner_reader, far_writer, |message| way.note_request(message));
    let answers = pass(far_reader, inner_writer, |message| way.check_answer(message));
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
