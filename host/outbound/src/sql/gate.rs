//! The gate between a database and the SQL library: terminates TLS and passes whole messages within
//! size limits.
//!
//! This file prevents three attacks. A server announces a huge length, and the library allocates
//! that much memory, which ends the process. A server sends messages that the library keeps,
//! without end. A server shows a certificate of a public authority although the connection has its
//! own authorities; the library would accept such a certificate (decision C16).

mod mysql;
mod postgres;
mod secure;

pub(super) use secure::{SqlTlsSettings, TlsRequirement};

use crate::limits;
use crate::{socket_options, tls};
use bulkhead_tls::TlsFault;
use secure::SqlStream;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Maximum number of bytes read or written at once.
const CHUNK: usize = 16 << 10;

/// The reason why a gate closed a session before either end did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SqlFault {
    /// The connection broke.
    Broken(String),
    /// TLS failed: a certificate was refused, by either end, or no version is common.
    Tls(String),
    /// The login did not complete within the connect timeout.
    TimedOut,
    /// The server has no TLS, and the connection requires TLS.
    NoTls,
    /// The server sent bytes that are not its protocol.
    Protocol,
    /// A message or an answer is over its size limit.
    TooLarge,
}

impl fmt::Display for SqlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken(why) | Self::Tls(why) => why,
            Self::TimedOut => "the server did not answer within the connect timeout",
            Self::NoTls => "the server has no TLS, and is not spoken to in clear",
            Self::Protocol => "the server violates the protocol",
            Self::TooLarge => "the server sends more than any answer needs",
        })
    }
}

/// The protocol that the gate carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlProtocol {
    Mysql,
    Postgres,
}

/// Settings of a gate. There is no `Debug`, because the settings hold the password.
pub(super) struct ProtocolFilter {
    pub(super) speech: SqlProtocol,
    pub(super) security: TlsRequirement,
    /// Sent unhashed, within TLS only, if the server asks for the password itself.
    pub(super) password: Zeroizing<String>,
    pub(super) connect_timeout: Duration,
}

impl ProtocolFilter {
    /// Carries a session between the library and a server until either end closes.
    ///
    /// # Errors
    /// The reason if the gate itself ended the session.
    pub(super) async fn carry(
        &self,
        near: &mut UnixStream,
        far: TcpStream,
    ) -> Result<(), SqlFault> {
        socket_options::set(&far);
        let entered = timeout(self.connect_timeout, self.enter(near, far)).await;
        let Some(far) = entered.map_err(|_| SqlFault::TimedOut)?? else { return Ok(()) };
        self.pass(near, far).await
    }

    /// Handles the TLS request and, for MySQL, the login. `None`: an end closed the session before.
    async fn enter(
        &self,
        near: &mut UnixStream,
        far: TcpStream,
    ) -> Result<Option<Box<dyn SqlStream>>, SqlFault> {
        match self.speech {
            SqlProtocol::Postgres => postgres::enter(&self.security, far).await.map(Some),
            SqlProtocol::Mysql => mysql::enter(&self.security, &self.password, near, far).await,
        }
    }

    async fn pass(&self, near: &mut UnixStream, far: Box<dyn SqlStream>) -> Result<(), SqlFault> {
        let (near_reader, near_writer) = near.split();
        let (far_reader, far_writer) = tokio::io::split(far);
        let answered = AtomicUsize::new(0);
        tokio::select! {
            done = ask(near_reader, far_writer, &answered) => done,
            done = self.answer(far_reader, near_writer, &answered) => done,
        }
    }

    /// Passes the server's messages on in batches, as the messages arrived.
    async fn answer(
        &self,
        far: impl AsyncRead + Unpin,
        mut near: impl AsyncWrite + Unpin,
        answered: &AtomicUsize,
    ) -> Result<(), SqlFault> {
        let mut far = BufReader::with_capacity(CHUNK, far);
        let mut passing = Vec::new();
        while let Some(message) = self.read(&mut far).await? {
            let bytes = answered.fetch_add(message.len(), Ordering::Relaxed);
            if bytes.saturating_add(message.len()) > limits::SQL_ANSWER_BYTES {
                return Err(SqlFault::TooLarge);
            }
            if self.is_wanted(&message)? {
                passing.extend_from_slice(&message);
            }
            if far.buffer().is_empty() || passing.len() > CHUNK {
                near.write_all(&passing).await.map_err(|error| io_fault(&error))?;
                passing.clear();
            }
        }
        // The library still receives the messages that came before the end.
        near.write_all(&passing).await.map_err(|error| io_fault(&error))
    }

    async fn read(&self, far: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, SqlFault> {
        match self.speech {
            SqlProtocol::Postgres => {
                read_message::<{ postgres::HEAD }>(far, postgres::body_length).await
            }
            SqlProtocol::Mysql => read_message::<{ mysql::HEAD }>(far, mysql::body_length).await,
        }
    }

    /// Returns whether the library may see a message.
    fn is_wanted(&self, message: &[u8]) -> Result<bool, SqlFault> {
        match self.speech {
            SqlProtocol::Postgres => Ok(postgres::is_wanted(message)),
            SqlProtocol::Mysql => mysql::check(message).map(|()| true),
        }
    }
}

/// Passes the library's bytes on. Each write starts the byte count of a new answer.
async fn ask(
    mut near: impl AsyncRead + Unpin,
    mut far: impl AsyncWrite + Unpin,
    answered: &AtomicUsize,
) -> Result<(), SqlFault> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = near.read(&mut chunk).await.map_err(|error| io_fault(&error))?;
        let Some(said) = chunk.get(..length).filter(|said| !said.is_empty()) else {
            // The library closed the session. An error of the shutdown towards the server has no
            // effect.
            let _ = far.shutdown().await;
            return Ok(());
        };
        answered.store(0, Ordering::Relaxed);
        far.write_all(said).await.map_err(|error| io_fault(&error))?;
        far.flush().await.map_err(|error| io_fault(&error))?;
    }
}

/// Reads a single message and no byte after the message. `body` returns the length of the body for
/// a head. The buffer grows with the received bytes, not with the announced length. `None`: the
/// connection ended before or within the message.
///
/// # Errors
/// The head is invalid, the message is too large, or the connection broke.
async fn read_message<const HEAD: usize>(
    from: &mut (impl AsyncRead + Unpin),
    body: fn([u8; HEAD]) -> Option<usize>,
) -> Result<Option<Vec<u8>>, SqlFault> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(io_fault(&error)),
    }
    let length = body(head).ok_or(SqlFault::Protocol)?;
    if length > limits::SQL_MESSAGE_BYTES {
        return Err(SqlFault::TooLarge);
    }
    let mut message = head.to_vec();
    let mut rest = from.take(length as u64);
    rest.read_to_end(&mut message).await.map_err(|error| io_fault(&error))?;
    match message.len() == HEAD + length {
        true => Ok(Some(message)),
        false => Ok(None),
    }
}

/// Converts an I/O error to a fault, without the text of a library.
fn io_fault(error: &io::Error) -> SqlFault {
    match TlsFault::find(error) {
        Some(fault) => SqlFault::Tls(tls::describe(fault)),
        None => SqlFault::Broken(error.kind().to_string()),
    }
}

#[cfg(test)]
mod tests;
