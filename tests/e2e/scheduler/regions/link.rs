//! A TCP proxy between two regions that a test cuts, pauses and restores.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// The proxy, which ends with the process.
pub(super) struct RegionLink {
    address: SocketAddr,
    shared: Arc<SharedLink>,
}

#[derive(Default)]
struct SharedLink {
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    is_cut: bool,
    is_paused: bool,
    open: Vec<TcpStream>,
}

impl RegionLink {
    pub(super) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(SharedLink::default());
        let passing = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                pass(client, target, &passing);
            }
        });
        Self { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all connections, and each new connection at once.
    pub(super) fn cut(&self) {
        let mut state = self.shared.state.lock().expect("no test holds it");
        state.is_cut = true;
        for stream in state.open.drain(..) {
            // The connection may have ended already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Keeps connections open and forwards nothing.
    pub(super) fn pause(&self) {
        self.shared.state.lock().expect("no test holds it").is_paused = true;
    }

    pub(super) fn restore(&self) {
        let mut state = self.shared.state.lock().expect("no test holds it");
        (state.is_cut, state.is_paused) = (false, false);
        self.shared.changed.notify_all();
    }
}

/// Connects a client with the target, unless the link is cut.
fn pass(client: TcpStream, target: SocketAddr, shared: &Arc<SharedLink>) {
    let mut state = shared.state.lock().expect("no test holds it");
    if state.is_cut {
        return;
    }
    let Ok(server) = TcpStream::connect(target) else { return };
    for (from, to) in [(&client, &server), (&server, &client)] {
        let from = from.try_clone().expect("a second handle");
        let to = to.try_clone().expect("a second handle");
        let shared = Arc::clone(shared);
        thread::spawn(move || copy(from, to, &shared));
    }
    state.open.extend([client, server]);
}

fn copy(mut from: TcpStream, mut to: TcpStream, shared: &SharedLink) {
    let mut buffer = [0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let state = shared.state.lock().expect("no test holds it");
        drop(shared.changed.wait_while(state, |state| state.is_paused).expect("no test holds it"));
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Write));
}
