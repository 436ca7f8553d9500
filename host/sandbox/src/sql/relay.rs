//! A way to one vetted address for sessions whose certificate is held against a name.
//!
//! The attack this file stops: a resolver that answers with an allowed address while a name is
//! vetted, and with another one when the session is dialled, at once or hours later. The SQL
//! library has one field for the name in the certificate and for the host to dial. So it is given
//! the name for the certificate alone; what it dials is a socket of this process, and what it says
//! there is carried to the address that was vetted. TLS goes through from end to end: nothing is
//! read here.

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
    connect_timeout: Duration,
    /// Why the address could not be dialled last.
    fault: Mutex<Option<io::ErrorKind>>,
}

impl Relay {
    /// Opens a socket through which `to` is dialled, within `connect_timeout` each time.
    ///
    /// # Errors
    /// The system's, where it has no such sockets or no more of them, or no randomness.
    pub(super) fn open(to: SocketAddr, connect_timeout: Duration) -> io::Result<Self> {
        let folder = folder()?;
        let port = to.port();
        let listener = UnixListener::bind(socket_in(&folder, port))?;
        let way = Arc::new(Way { to, connect_timeout, fault: Mutex::default() });
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

    /// Why the address could not be dialled last; `None` when it was.
    pub(super) fn fault(&self) -> Option<io::ErrorKind> {
        *sync::lock(&self.way.fault)
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
    async fn carry(&self, mut near: UnixStream) {
        let dialled = timeout(self.connect_timeout, TcpStream::connect(self.to)).await;
        let dialled = dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        *sync::lock(&self.fault) = dialled.as_ref().err().map(io::Error::kind);
        let Ok(mut far) = dialled else { return };
        // Without it a message in two pieces is only slower.
        let _ = far.set_nodelay(true);
        // However it ends, both ends learn it by their own connection.
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    }
}

#[cfg(test)]
mod tests;
