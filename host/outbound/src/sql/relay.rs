//! A local socket that leads to a single vetted address, through a gate.
//!
//! This file prevents DNS rebinding: a resolver answers with an allowed address while the name is
//! vetted, and with another address when the session is dialled, at once or hours later. The SQL
//! library dials a socket of this process, and the relay carries the bytes to the vetted address.

use super::gate::{ProtocolFilter, SqlFault};
use bulkhead_tls::LocalSocket;
use bulkhead_wire::sync;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A socket that leads to a single address. Dropping the relay closes the socket; running sessions
/// continue until either end closes.
pub(super) struct TlsRelay {
    folder: String,
    socket: String,
    way: Arc<RelayState>,
    accepting: JoinHandle<()>,
}

struct RelayState {
    to: SocketAddr,
    gate: ProtocolFilter,
    /// The reason why the relay ended the last session.
    fault: Mutex<Option<SqlFault>>,
}

impl TlsRelay {
    /// Opens a socket that dials `to` for each session, within the gate's `connect_timeout`.
    ///
    /// # Errors
    /// The system's error if the system has no abstract sockets, no free descriptors, or no
    /// randomness.
    pub(super) fn open(to: SocketAddr, gate: ProtocolFilter) -> io::Result<Self> {
        let local = LocalSocket::bind(&format!(".s.PGSQL.{}", to.port()))?;
        let (folder, socket) = (local.folder().to_owned(), local.name().to_owned());
        let way = Arc::new(RelayState { to, gate, fault: Mutex::default() });
        let accepting = tokio::spawn(accept(local, Arc::clone(&way)));
        Ok(Self { folder, socket, way, accepting })
    }

    /// The folder that the SQL library takes for a folder with a PostgreSQL socket. The library
    /// adds `/.s.PGSQL.<port>`.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The name of the socket.
    pub(super) fn socket(&self) -> &str {
        &self.socket
    }

    /// Returns why the relay failed to open, or ended, the last session. `None`: the relay did not
    /// end the session.
    pub(super) fn fault(&self) -> Option<SqlFault> {
        sync::lock(&self.way.fault).clone()
    }
}

impl Drop for TlsRelay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(local: LocalSocket, way: Arc<RelayState>) {
    loop {
        let near = local.accept().await;
        let way = Arc::clone(&way);
        tokio::spawn(async move { way.carry(near).await });
    }
}

impl RelayState {
    /// Carries a session. Records the fault before `near` closes, because the library's end then
    /// reads the fault.
    async fn carry(&self, mut near: UnixStream) {
        *sync::lock(&self.fault) = None;
        if let Err(fault) = self.dial(&mut near).await {
            *sync::lock(&self.fault) = Some(fault);
        }
        drop(near);
    }

    /// Dials the address and carries the session.
    async fn dial(&self, near: &mut UnixStream) -> Result<(), SqlFault> {
        let dialled = timeout(self.gate.connect_timeout, TcpStream::connect(self.to)).await;
        let dialled = dialled.map_err(|_| SqlFault::TimedOut)?;
        let far = dialled.map_err(|error| SqlFault::Broken(error.kind().to_string()))?;
        self.gate.carry(near, far).await
    }
}

#[cfg(test)]
mod tests;
