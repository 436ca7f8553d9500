//! Raw connections, for malformed HTTP that no HTTP client sends.

use crate::Bulkhead;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

pub struct Socket(TcpStream);

impl Socket {
    pub fn open(server: &Bulkhead) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes the option");
        Self(stream)
    }

    /// Connects to the server from another address of this machine, such as 127.0.0.2.
    pub fn open_from(server: &Bulkhead, address: Ipv4Addr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let connected = runtime.expect("a runtime").block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((address, 0).into())?;
            socket.connect(server.address()).await?.into_std()
        });
        let stream = connected.expect("the server listens, and the address is ours");
        stream.set_nonblocking(false).expect("a socket takes the option");
        stream.set_nodelay(true).expect("a socket takes the option");
        Self(stream)
    }

    /// Sends bytes unchanged, and returns `true` if the server accepted them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends `bytes` repeatedly until the server accepts nothing for a second, and returns the
    /// number of complete repetitions.
    pub fn flood(&mut self, bytes: &[u8], most: usize) -> usize {
        self.0.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket takes the option");
        (0..most).take_while(|_| self.0.write_all(bytes).is_ok()).count()
    }

    /// Closes the sending half of the connection.
    pub fn finish(&self) {
        // The server may have closed the connection already.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads until the server closes the connection; `None` if the connection is still open after
    /// `limit`.
    pub fn until_closed(&mut self, limit: Duration) -> Option<String> {
        let (end, mut arrived) = (Instant::now() + limit, Vec::new());
        let mut buffer = [0; 16 * 1024];
        loop {
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            self.0.set_read_timeout(Some(left)).expect("a socket takes the option");
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => arrived.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                // A reset also ends the connection.
                Err(_) => break,
            }
        }
        Some(String::from_utf8_lossy(&arrived).into_owned())
    }
}

/// Returns the server's number of open connections, as the system counts them.
pub fn connections(server: &Bulkhead) -> usize {
    let url = server.url();
    let port = url
        .rsplit(':')
        .next()
        .and_then(|port| port.parse::<u16>().ok())
        .expect("the server has a port");
    let end = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux tells its connections");
    let of_the_server = |line: &&str| {
        let mut parts = line.split_whitespace();
        let local = parts.nth(1).is_some_and(|address| address.ends_with(&end));
        local && parts.nth(1) == Some("01")
    };
    table.lines().filter(of_the_server).count()
}
