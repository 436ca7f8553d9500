//! A local socket that leads to a single vetted address, through a gate.
//!
//! This file prevents DNS rebinding: a resolver answers with an allowed address while the name is
//! vetted, and with another address when the session is dialled, at once or hours later. The SQL
//! library dials a socket of this process, and the relay carries the bytes to the vetted address.

use super::gate::{ProtocolFilter, SqlFault};
use bulkhead_wire::sync;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Number of random bytes in the name of the socket.
const NAME_BYTES: usize = 16;

/// A socket that leads to a single address. Dropping the relay closes the socket; running sessions
/// continue until either end closes.
pub(super) struct TlsRelay {
    folder: String,
    port: u16,
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
        let folder = folder()?;
        let port = to.port();
        let listener = UnixListener::bind(socket_in(&folder, port))?;
        let way = Arc::new(RelayState { to, gate, fault: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&way)));
        Ok(Self { folder, port, way, accepting })
    }

    /// The folder that the SQL library takes for a folder with a PostgreSQL socket. The library
    /// adds `/.s.PGSQL.<port>`.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The name of the socket.
    pub(super) fn socket(&self) -> String {
        socket_in(&self.folder, self.port)
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

/// Returns an abstract socket name, outside the file system: no folder has to be writable, and no
/// file remains. The name is random, so that no other process has bound the name already.
fn folder() -> io::Result<String> {
    let mut bytes = [0_u8; NAME_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("no randomness"))?;
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("\0bulkhead-{name}"))
}

fn socket_in(folder: &str, port: u16) -> String {
    format!("{folder}/.s.PGSQL.{port}")
}

async fn accept(listener: UnixListener, way: Arc<RelayState>) {
    loop {
        match listener.accept().await {
            Ok((near, _)) if is_ours(&near) => {
                let way = Arc::clone(&way);
                tokio::spawn(async move { way.carry(near).await });
            }
            Ok(_) => {}
            // The process may be out of descriptors, for example. Waiting callers have their own
            // timeout.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Returns whether the peer is this process. Every process of the machine can list abstract sockets
/// and connect, but the server behind the socket is for this process alone.
fn is_ours(near: &UnixStream) -> bool {
    let own = i32::try_from(std::process::id()).ok();
    near.peer_cred().is_ok_and(|peer| own.is_some() && peer.pid() == own)
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
