//! A relay between a client and a server that cuts a connection instead of passing a chosen
//! message on.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// A relay to a server. A message is whatever arrives at once, in either direction.
pub struct CuttingRelay {
    /// Port on 127.0.0.1.
    pub port: u16,
    state: Arc<RelayState>,
}

struct RelayState {
    server: SocketAddr,
    /// Messages until the cut; 0: no cut.
    left: AtomicU32,
    has_cut: AtomicBool,
    is_over: AtomicBool,
}

impl CuttingRelay {
    /// Starts a relay to this port of 127.0.0.1, which cuts nothing yet.
    pub fn to(port: u16) -> Self {
        Self::to_address(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Starts a relay to this address, which cuts nothing yet.
    pub fn to_address(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        let (left, has_cut, is_over) = (AtomicU32::default(), AtomicBool::default(), false.into());
        let state = Arc::new(RelayState { server, left, has_cut, is_over });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(Ordering::SeqCst) {
                    break;
                }
                pass(&accepting, client);
            }
        });
        Self { port, state }
    }

    /// Cuts the connection of message `number`, counted from now on over all connections, from 1.
    pub fn cut_at(&self, number: u32) {
        self.state.has_cut.store(false, Ordering::SeqCst);
        self.state.left.store(number, Ordering::SeqCst);
    }

    /// Passes all further messages on. Returns true if a connection was cut.
    pub fn pass_all(&self) -> bool {
        self.state.left.store(0, Ordering::SeqCst);
        self.state.has_cut.load(Ordering::SeqCst)
    }
}

impl Drop for CuttingRelay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the accepting thread. A failure means that the thread has ended already.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl RelayState {
    /// Counts a message. Returns true if its connection must be cut.
    fn is_cut(&self) -> bool {
        let count = |left: u32| left.checked_sub(1);
        let is_last = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) == Ok(1);
        if is_last {
            self.has_cut.store(true, Ordering::SeqCst);
        }
        is_last
    }
}

/// Passes the messages of one connection on, in both directions.
fn pass(state: &Arc<RelayState>, client: TcpStream) {
    // Without a server, the client's connection ends at once.
    let Ok(server) = TcpStream::connect(state.server) else { return };
    let copy = |stream: &TcpStream| stream.try_clone().expect("a second handle");
    for (from, to) in [(copy(&client), copy(&server)), (server, client)] {
        let state = Arc::clone(state);
        thread::spawn(move || pump(&state, from, to));
    }
}

fn pump(state: &RelayState, mut from: TcpStream, mut to: TcpStream) {
    let mut message = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut message) {
        if state.is_cut() || to.write_all(&message[..length]).is_err() {
            break;
        }
    }
    // The other direction ends with this one, as for a connection that was reset. A failure means
    // that one side has ended the connection already.
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
