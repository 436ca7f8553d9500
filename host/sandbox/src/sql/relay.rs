//! A way to one vetted address, behind a gate.
//!
//! The attack this file stops: a resolver that answers with an allowed address while a name is
//! vetted, and with another one when the session is dialled, at once or hours later. What the SQL
//! library dials is a socket of this process, and what it says there is carried to the address that
//! was vetted.

use super::gate::{Fault, Gate};
use bulkhead_wire::sync;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Random bytes in the name of the socket.
const NAME_BYTES: usize = 16;

/// A socket that leads to one address. Closed when it is dropped; what it carries already goes on
/// until one of its ends closes.
pub(super) struct Relay {
    folder: String,
    port: u16,
    way: Arc<Way>,
    accepting: JoinHandle<()>,
}

struct Way {
    to: SocketAddr,
    gate: Gate,
    /// Why the last session was ended here.
    fault: Mutex<Option<Fault>>,
}

impl Relay {
    /// Opens a socket through which `to` is dialled, within the gate's `connect_timeout` each time.
    ///
    /// # Errors
    /// The system's, where it has no such sockets or no more of them, or no randomness.
    pub(super) fn open(to: SocketAddr, gate: Gate) -> io::Result<Self> {
        let folder = folder()?;
        let port = to.port();
        let listener = UnixListener::bind(socket_in(&folder, port))?;
        let way = Arc::new(Way { to, gate, fault: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&way)));
        Ok(Self { folder, port, way, accepting })
    }

    /// What the SQL library takes for a folder with a socket of PostgreSQL in it; its own rule adds
    /// `/.s.PGSQL.<port>`.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// The socket itself.
    pub(super) fn socket(&self) -> String {
        socket_in(&self.folder, self.port)
    }

    /// Why the last session was not made, or was ended here; `None` when that was not done here.
    pub(super) fn fault(&self) -> Option<Fault> {
        sync::lock(&self.way.fault).clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A name outside of the file system, so that no folder has to be writable and no file is left; and
/// by chance, so that no other process holds it already.
fn folder() -> io::Result<String> {
    let mut bytes = [0_u8; NAME_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("no randomness"))?;
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("\0bulkhead-{name}"))
}

fn socket_in(folder: &str, port: u16) -> String {
    format!("{folder}/.s.PGSQL.{port}")
}

async fn accept(listener: UnixListener, way: Arc<Way>) {
    loop {
        match listener.accept().await {
            Ok((near, _)) if is_ours(&near) => {
                let way = Arc::clone(&way);
                tokio::spawn(async move { way.carry(near).await });
            }
            Ok(_) => {}
            // Out of descriptors, say: who dials meanwhile waits, and gives up in its own time.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Whether this very process is at the other end. Names of such sockets can be listed by every
/// process of the machine, and what is reached through them is for this one alone.
fn is_ours(near: &UnixStream) -> bool {
    let own = i32::try_from(std::process::id()).ok();
    near.peer_cred().is_ok_and(|peer| own.is_some() && peer.pid() == own)
}

impl Way {
    async fn carry(&self, near: UnixStream) {
        *sync::lock(&self.fault) = None;
        if let Err(fault) = self.dial(near).await {
            *sync::lock(&self.fault) = Some(fault);
        }
    }

    /// The library's end is closed once it is known why, and not before.
    async fn dial(&self, mut near: UnixStream) -> Result<(), Fault> {
        let dialled = timeout(self.gate.connect_timeout, TcpStream::connect(self.to)).await;
        let dialled = dialled.map_err(|_| Fault::TimedOut)?;
        let far = dialled.map_err(|error| Fault::Broken(error.kind().to_string()))?;
        self.gate.carry(&mut near, far).await
    }
}

#[cfg(test)]
mod tests;
