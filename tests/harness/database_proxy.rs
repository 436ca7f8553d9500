//! A proxy between a server under test and PostgreSQL, which knows the frames of the protocol: it
//! delays, stalls, resets and refuses connections, and cuts a connection at a chosen message.
//!
//! The connections must be in clear text (`sslmode=disable`).

mod carriage;
mod cut;
mod message;

pub use cut::{CutPlace, MessageChoice};

use cut::CutPlan;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnd {
    /// Both sides see the end of the stream.
    Close,
    /// Both sides see a reset.
    Reset,
}

/// Rules for all connections, which a test changes at any time.
#[derive(Clone, Copy, Default)]
struct ProxyRules {
    /// Delay of each message, unless it follows another message at once.
    delay: Duration,
    /// Stalled directions: messages wait, and connections stay open.
    stalls_to_server: bool,
    stalls_to_client: bool,
    /// New connections are reset.
    refuses: bool,
}

impl ProxyRules {
    fn stalls(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.stalls_to_server,
            Direction::ToClient => self.stalls_to_client,
        }
    }
}

/// State that the test and the connections share.
struct ProxyState {
    /// Port of the database on 127.0.0.1.
    target: AtomicU16,
    rules: watch::Sender<ProxyRules>,
    /// Number and kind of the last end of all connections.
    ends: watch::Sender<(u64, ConnectionEnd)>,
    /// Number of refused connections.
    refused: AtomicU32,
    cut: CutPlan,
}

/// A running proxy, which ends with all its connections when dropped.
pub struct DatabaseProxy {
    /// Port on 127.0.0.1.
    pub port: u16,
    state: Arc<ProxyState>,
    /// Runs the proxy. All connections end with the runtime.
    _runtime: Runtime,
}

impl DatabaseProxy {
    /// Starts a proxy to the database at this port of 127.0.0.1.
    pub fn to(target: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        let state = Arc::new(ProxyState {
            target: AtomicU16::new(target),
            rules: watch::Sender::new(ProxyRules::default()),
            ends: watch::Sender::new((0, ConnectionEnd::Close)),
            refused: AtomicU32::new(0),
            cut: CutPlan::default(),
        });
        runtime.spawn(accept(listener, Arc::clone(&state)));
        Self { port, state, _runtime: runtime }
    }

    /// Passes new connections on to another port. Open connections stay.
    pub fn redirect(&self, target: u16) {
        self.state.target.store(target, Ordering::SeqCst);
    }

    /// Delays the messages of both directions. Messages that follow each other at once arrive
    /// together, as in a network with this latency.
    pub fn delay(&self, delay: Duration) {
        self.change(|rules| rules.delay = delay);
    }

    /// Stops carrying messages in this direction, on open and new connections.
    pub fn stall(&self, direction: Direction) {
        self.change(|rules| match direction {
            Direction::ToServer => rules.stalls_to_server = true,
            Direction::ToClient => rules.stalls_to_client = true,
        });
    }

    /// Resets each new connection. Open connections stay.
    pub fn refuse(&self) {
        self.change(|rules| rules.refuses = true);
    }

    /// Returns the number of connections that were refused.
    pub fn count_refused(&self) -> u32 {
        self.state.refused.load(Ordering::SeqCst)
    }

    /// Ends delay, stalls and refusals. Messages that waited are carried, like packets that are
    /// sent again after an interruption of the network.
    pub fn heal(&self) {
        self.change(|rules| *rules = ProxyRules::default());
    }

    /// Closes all open connections.
    pub fn close_all(&self) {
        self.end_all(ConnectionEnd::Close);
    }

    /// Resets all open connections.
    pub fn reset_all(&self) {
        self.end_all(ConnectionEnd::Reset);
    }

    /// Cuts the connection of the message `choice`, once.
    pub fn cut(&self, choice: MessageChoice, place: CutPlace) {
        self.state.cut.set(choice, place);
    }

    /// Returns true if a connection was cut since [`DatabaseProxy::cut`].
    pub fn has_cut(&self) -> bool {
        self.state.cut.has_cut()
    }

    /// Cuts nothing more. Returns true if a connection was cut since [`DatabaseProxy::cut`].
    pub fn pass_all(&self) -> bool {
        self.state.cut.clear()
    }

    fn change(&self, how: impl FnOnce(&mut ProxyRules)) {
        self.state.rules.send_modify(how);
    }

    fn end_all(&self, end: ConnectionEnd) {
        self.state.ends.send_modify(|ends| *ends = (ends.0 + 1, end));
    }
}

async fn accept(listener: TcpListener, state: Arc<ProxyState>) {
    while let Ok((client, _)) = listener.accept().await {
        if state.rules.borrow().refuses {
            // Dropping the stream resets the connection.
            drop(client.set_zero_linger());
            state.refused.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let target = SocketAddr::from(([127, 0, 0, 1], state.target.load(Ordering::SeqCst)));
            // Without a database, the client's connection ends at once.
            if let Ok(server) = TcpStream::connect(target).await {
                carriage::carry(&state, client, server).await;
            }
        });
    }
}

#[cfg(test)]
mod tests;
