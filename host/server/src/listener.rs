//! Where the server listens, and how many connections it takes.
//!
//! The attack this file stops: more connections than there are file descriptors. Which connection
//! has to go when there are too many is in `connection_slots.rs`, what a connection may do in
//! `connection.rs`.

mod unix;

pub(crate) use unix::UnixSocket;

use crate::config::{ListenerConfig, Transport, plain_beyond_loopback};
use crate::connection::{self, Peer, Stream};
use crate::connection_slots::{self, ConnectionSlots};
use crate::http::{Answerer, HttpFrontend};
use crate::proxies::Origin;
use crate::tls::Tls;
use bulkhead_core::log::{Log, cause};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Below so many file descriptors the log warns that a server needs more.
const DESCRIPTORS: u64 = 1024;

/// How long a stopping server waits for requests in flight.
const GRACE: Duration = Duration::from_secs(30);

/// How long to leave a failing `accept` alone: out of file descriptors, there is no event to wait
/// for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A place that is listened on.
pub(crate) enum Door {
    /// An address of the network.
    Tcp {
        socket: TcpListener,
        address: SocketAddr,
        /// `None` where connections are plain.
        tls: Option<Arc<Tls>>,
    },
    /// A socket in the file system.
    Unix {
        socket: UnixSocket,
        path: PathBuf,
        /// Clients of the socket are trusted proxies.
        is_proxy: bool,
    },
}

impl Door {
    /// Listens where `config` says. `elsewhere` says how another address is chosen, for the advice.
    ///
    /// # Errors
    /// A certificate that cannot be served, a place that cannot be had, a plain one that other
    /// machines reach, and what to do.
    pub(crate) async fn open_all(
        config: &ListenerConfig,
        elsewhere: &str,
        log: &Arc<dyn Log>,
    ) -> Result<Vec<Self>, String> {
        let mut doors = Vec::new();
        if let Some(address) = &config.address {
            let tls = match &config.transport {
                Transport::Tls(settings) => Some(Tls::load(settings.clone(), log)?),
                Transport::Plain | Transport::PlainHere => None,
            };
            let (socket, address) = bind(address, elsewhere).await?;
            check_plain(&config.transport, address, log)?;
            doors.push(Self::Tcp { socket, address, tls });
        }
        if let Some(settings) = &config.unix {
            let (path, is_proxy) = (settings.path.clone(), settings.is_trusted_proxy);
            doors.push(Self::Unix { socket: UnixSocket::bind(settings)?, path, is_proxy });
        }
        Ok(doors)
    }

    /// Its address in the network, with the port that it really got.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// What clients are told to use.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Tcp { address, tls: None, .. } => format!("http://{address}"),
            Self::Tcp { address, tls: Some(_), .. } => format!("https://{address}"),
            Self::Unix { path, .. } => format!("unix://{}", path.display()),
        }
    }

    /// Its URL where that leads here: one that listens on all addresses has no address of its own.
    pub(crate) fn dialled_url(&self) -> Option<String> {
        let address = self.address().filter(|address| !address.ip().is_unspecified());
        address.map(|_| self.url())
    }

    /// Its TLS.
    pub(crate) fn tls(&self) -> Option<&Arc<Tls>> {
        match self {
            Self::Tcp { tls, .. } => tls.as_ref(),
            Self::Unix { .. } => None,
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Origin)> {
        match self {
            Self::Tcp { socket, tls, .. } => {
                let (stream, peer) = socket.accept().await?;
                // an IPv4 client of an IPv6 socket is an IPv4 client
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                Ok((Stream::Tcp(stream, tls.clone()), Origin::Network(peer)))
            }
            Self::Unix { socket, is_proxy, .. } => {
                let (stream, _) = socket.listener.accept().await?;
                Ok((Stream::Unix(stream), Origin::Unix { is_proxy: *is_proxy }))
            }
        }
    }
}

/// Listens on `address` (`host:port`; port 0 takes a free one) and says where.
async fn bind(address: &str, elsewhere: &str) -> Result<(TcpListener, SocketAddr), String> {
    let cannot = |error: io::Error| {
        format!("cannot listen on {address}: {error}; choose another address {elsewhere}")
    };
    let socket = TcpListener::bind(address).await.map_err(cannot)?;
    let address = socket.local_addr().map_err(cannot)?;
    Ok((socket, address))
}

/// Tokens, keys and passwords pass a plain listener as they are: beyond this machine only where the
/// operator said so.
fn check_plain(
    transport: &Transport,
    address: SocketAddr,
    log: &Arc<dyn Log>,
) -> Result<(), String> {
    match transport {
        Transport::PlainHere if !address.ip().is_loopback() => {
            return Err(plain_beyond_loopback(&address.to_string()));
        }
        Transport::Plain if !address.ip().is_loopback() => {
            let pairs = [("address", address.to_string())];
            log.line("warn", "plain-http-beyond-this-machine", &pairs);
        }
        _ => {}
    }
    Ok(())
}

/// How many connections there may be, up to `most`, when the process may have so many
/// `descriptors`; says so where that is few.
pub(crate) fn connection_limit(descriptors: u64, most: u64, log: &Arc<dyn Log>) -> usize {
    let most = connection_slots::capacity(descriptors, most);
    if descriptors < DESCRIPTORS {
        let pairs = [("descriptors", descriptors.to_string()), ("connections", most.to_string())];
        log.line("warn", "few-file-descriptors", &pairs);
    }
    most
}

/// Serves `doors` within `limits` until `stop` ends, then accepts nothing more and waits for
/// requests in flight. Returns whether all of them ended in time (30 s).
pub(crate) async fn serve<A: Answerer>(
    doors: Vec<Door>,
    answerer: Arc<A>,
    limits: Limits,
    log: Arc<dyn Log>,
    stop: impl Future<Output = ()>,
) -> bool {
    let Limits { config, connections } = limits;
    let (work, mut ended) = mpsc::channel(1);
    let slots = ConnectionSlots::new(connections, config.connections_per_address);
    let frontend = Arc::new(HttpFrontend::new(answerer, config, work));
    let mut accepting = JoinSet::new();
    for door in doors {
        if let Some(tls) = door.tls() {
            let following = Arc::clone(tls).follow_files(Arc::clone(&log));
            accepting.spawn(async move { match following.await {} });
        }
        let (slots, log) = (Arc::clone(&slots), Arc::clone(&log));
        let acceptor = Acceptor { door, slots, frontend: Arc::clone(&frontend), log };
        accepting.spawn(acceptor.accept_all());
    }
    stop.await;
    accepting.shutdown().await;
    slots.drain();
    drop(frontend);
    tokio::time::timeout(GRACE, ended.recv()).await.is_ok()
}

/// Within which limits connections are served.
pub(crate) struct Limits {
    /// The listener's configuration.
    pub(crate) config: ListenerConfig,
    /// Most connections at a time.
    pub(crate) connections: usize,
}

/// Accepts connections of one door.
struct Acceptor<A> {
    door: Door,
    slots: Arc<ConnectionSlots>,
    frontend: Arc<HttpFrontend<A>>,
    log: Arc<dyn Log>,
}

impl<A: Answerer> Acceptor<A> {
    /// Serves each in a task of its own, for as long as this is asked to.
    async fn accept_all(self) {
        loop {
            let (stream, peer) = self.next().await;
            tokio::spawn(connection::serve(stream, peer, Arc::clone(&self.frontend)));
        }
    }

    /// The next connection that has a slot.
    async fn next(&self) -> (Stream, Peer) {
        loop {
            match self.door.accept().await {
                Ok((stream, origin)) => {
                    let (address, is_proxy) = (origin.address().ip(), self.frontend.trusts(origin));
                    if let Some(slot) = self.slots.take(address, is_proxy).await {
                        return (stream, Peer { origin, slot: Arc::new(slot) });
                    }
                }
                Err(error) => {
                    self.slots.close_longest_idle();
                    self.log.line("warn", "accept-failed", &[cause(&error)]);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
