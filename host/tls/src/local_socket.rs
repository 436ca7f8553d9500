//! Listening sockets for connections inside of this process.
//!
//! This file prevents another process of the machine from using a connection of this process. A
//! library that cannot take a stream dials such a socket instead, and a task of ours carries the
//! bytes to a server. Every process can list abstract sockets and connect, so a connection of
//! another process is closed.

use rustls::crypto::aws_lc_rs;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// Number of random bytes in the name of a socket.
const NAME_BYTES: usize = 16;
/// Pause after a failed accept, for example because the process is out of descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// A listening socket outside of the file system: no folder has to be writable, and no file
/// remains. Dropping the socket closes the socket; accepted connections continue.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    folder: String,
    name: String,
}

impl LocalSocket {
    /// Binds a socket `file` in a folder with a random name, so that no other process has bound the
    /// name already.
    ///
    /// # Errors
    /// The system's error if the system has no abstract sockets, no free descriptors, or no
    /// randomness.
    pub fn bind(file: &str) -> io::Result<Self> {
        let mut bytes = [0_u8; NAME_BYTES];
        let random = aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
        random.map_err(|_| io::Error::other("no randomness"))?;
        let mut folder = "\0bulkhead-".to_owned();
        for byte in bytes {
            let _ = write!(folder, "{byte:02x}");
        }
        let name = format!("{folder}/{file}");
        Ok(Self { listener: UnixListener::bind(&name)?, folder, name })
    }

    /// Returns the folder of the socket. A zero byte stands in front, as for every abstract socket.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the name of the socket: the folder, a slash, and the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next connection of this process. Closes connections of other processes.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((near, _)) if is_ours(&near) => return near,
                Ok(_) => {}
                // Waiting callers have their own timeout.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Returns whether the peer is this process.
fn is_ours(near: &UnixStream) -> bool {
    let own = i32::try_from(std::process::id()).ok();
    near.peer_cred().is_ok_and(|peer| own.is_some() && peer.pid() == own)
}
