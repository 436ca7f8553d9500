//! The gate between a database and the SQL library: TLS is taken off here, and whole messages pass,
//! within their bounds.
//!
//! The attacks this file stops: a server that announces more than a machine has memory for, and has
//! it set aside by the library, which ends the process; one that sends messages that the library
//! keeps, without end; and a certificate of a public authority where the connection's own
//! authorities were given, which the library would take as well (decision C16).

mod mysql;
mod postgres;
mod secure;

pub(super) use secure::{Security, Tls};

use crate::limits;
use secure::Stream;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Bytes that are read or written at a time.
const CHUNK: usize = 16 << 10;

/// Why a gate closed before either of its ends did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection broke, or TLS was not agreed.
    Broken(String),
    /// The login did not come about in time.
    TimedOut,
    /// The server speaks no TLS, and is not spoken to in clear.
    NoTls,
    /// What the server says is not its protocol.
    Protocol,
    /// A message, or an answer, is larger than any that is asked for.
    TooLarge,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken(why) => why,
            Self::TimedOut => "the server did not answer within the connect timeout",
            Self::NoTls => "the server has no TLS, and is not spoken to in clear",
            Self::Protocol => "the server does not keep to its protocol",
            Self::TooLarge => "the server sends more than any answer needs",
        })
    }
}

/// The protocol that is spoken behind the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    Mysql,
    Postgres,
}

/// What a gate needs to know of a connection. No `Debug`: it holds the password.
pub(super) struct Gate {
    pub(super) speech: Speech,
    pub(super) security: Security,
    /// Sent in clear where the server asks for it within TLS.
    pub(super) password: Zeroizing<String>,
    pub(super) connect_timeout: Duration,
}

impl Gate {
    /// Carries one session between the library and a server, until one of them ends it.
    ///
    /// # Errors
    /// Why it was ended here.
    pub(super) async fn carry(&self, near: &mut UnixStream, far: TcpStream) -> Result<(), Fault> {
        // Without it a message in two pieces is only slower.
        let _ = far.set_nodelay(true);
        let entered = timeout(self.connect_timeout, self.enter(near, far)).await;
        let Some(far) = entered.map_err(|_| Fault::TimedOut)?? else { return Ok(()) };
        self.pass(near, far).await
    }

    /// What has to be said before the gate only watches. `None`: the session ended by itself.
    async fn enter(
        &self,
        near: &mut UnixStream,
        far: TcpStream,
    ) -> Result<Option<Box<dyn Stream>>, Fault> {
        match self.speech {
            Speech::Postgres => postgres::enter(&self.security, far).await.map(Some),
            Speech::Mysql => mysql::enter(&self.security, &self.password, near, far).await,
        }
    }

    async fn pass(&self, near: &mut UnixStream, far: Box<dyn Stream>) -> Result<(), Fault> {
        let (near_reader, near_writer) = near.split();
        let (far_reader, far_writer) = tokio::io::split(far);
        let answered = AtomicUsize::new(0);
        tokio::select! {
            done = ask(near_reader, far_writer, &answered) => done,
            done = self.answer(far_reader, near_writer, &answered) => done,
        }
    }

    /// Passes the server's messages on, as many at a time as came together.
    async fn answer(
        &self,
        far: impl AsyncRead + Unpin,
        mut near: impl AsyncWrite + Unpin,
        answered: &AtomicUsize,
    ) -> Result<(), Fault> {
        let mut far = BufReader::with_capacity(CHUNK, far);
        let mut passing = Vec::new();
        while let Some(message) = self.read(&mut far).await? {
            let bytes = answered.fetch_add(message.len(), Ordering::Relaxed);
            if bytes.saturating_add(message.len()) > limits::SQL_ANSWER_BYTES {
                return Err(Fault::TooLarge);
            }
            if self.is_wanted(&message)? {
                passing.extend_from_slice(&message);
            }
            if far.buffer().is_empty() || passing.len() > CHUNK {
                near.write_all(&passing).await.map_err(|error| broken(&error))?;
                passing.clear();
            }
        }
        // What came before the end is the library's to hear.
        near.write_all(&passing).await.map_err(|error| broken(&error))
    }

    async fn read(&self, far: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, Fault> {
        match self.speech {
            Speech::Postgres => read_message::<{ postgres::HEAD }>(far, postgres::body).await,
            Speech::Mysql => read_message::<{ mysql::HEAD }>(far, mysql::body).await,
        }
    }

    /// Whether the library is to see a message.
    fn is_wanted(&self, message: &[u8]) -> Result<bool, Fault> {
        match self.speech {
            Speech::Postgres => Ok(postgres::is_wanted(message)),
            Speech::Mysql => mysql::check(message).map(|()| true),
        }
    }
}

/// Passes on what the library says, and begins to count anew what is answered.
async fn ask(
    mut near: impl AsyncRead + Unpin,
    mut far: impl AsyncWrite + Unpin,
    answered: &AtomicUsize,
) -> Result<(), Fault> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = near.read(&mut chunk).await.map_err(|error| broken(&error))?;
        let Some(said) = chunk.get(..length).filter(|said| !said.is_empty()) else {
            // The library is done. Whether the server hears it politely changes nothing.
            let _ = far.shutdown().await;
            return Ok(());
        };
        answered.store(0, Ordering::Relaxed);
        far.write_all(said).await.map_err(|error| broken(&error))?;
        far.flush().await.map_err(|error| broken(&error))?;
    }
}

/// One message, and no byte behind it: a head of which `body` says how many bytes follow. Its
/// memory grows with what came, not with what was promised. `None` at the end.
///
/// # Errors
/// Where it is none, too large, or cut short.
async fn read_message<const HEAD: usize>(
    from: &mut (impl AsyncRead + Unpin),
    body: fn([u8; HEAD]) -> Option<usize>,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(broken(&error)),
    }
    let length = body(head).ok_or(Fault::Protocol)?;
    if length > limits::SQL_MESSAGE_BYTES {
        return Err(Fault::TooLarge);
    }
    let mut message = head.to_vec();
    let mut rest = from.take(length as u64);
    rest.read_to_end(&mut message).await.map_err(|error| broken(&error))?;
    match message.len() == HEAD + length {
        true => Ok(Some(message)),
        false => Ok(None),
    }
}

/// Why a connection broke, in words of ours.
fn broken(error: &io::Error) -> Fault {
    Fault::Broken(secure::why(error))
}

#[cfg(test)]
mod tests;
