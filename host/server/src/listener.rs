//! The sockets of the server, and the limit on connections.
//!
//! This file prevents the process from running out of file descriptors. `connection_slots.rs`
//! chooses the connection to close when too many are open; `connection.rs` holds the limits of a
//! single connection.

mod unix;

pub(crate) use unix::UnixSocket;

use crate::answerer::RequestAnswerer;
use crate::config::{ListenerConfig, ListenerTransport, ShutdownSettings, plain_beyond_loopback};
use crate::connection::{self, AcceptedStream, ConnectionPeer, ConnectionTimeouts};
use crate::connection_slots::{self, ConnectionSlots};
use crate::handed_sockets::{HandedSocket, ListenerSockets};
use crate::http::HttpFrontend;
use crate::proxies::ConnectionOrigin;
use crate::tls;
use bulkhead_access::log::{Log, cause};
use bulkhead_tls::ListenerTls;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::server_figures::ListenerFigures;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Number of file descriptors below which the log warns.
const DESCRIPTORS: u64 = 1024;

/// Pause after a failed `accept`: when file descriptors run out, no event signals that there are
/// free ones.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound socket.
pub(crate) enum BoundSocket {
    /// A TCP socket.
    Tcp {
        socket: TcpListener,
        address: SocketAddr,
        /// `None`: plain connections.
        tls: Option<Arc<ListenerTls>>,
        figures: Arc<ListenerFigures>,
    },
    /// A Unix socket.
    Unix {
        socket: UnixSocket,
        path: PathBuf,
        /// Clients of the socket are trusted proxies.
        is_proxy: bool,
        figures: Arc<ListenerFigures>,
    },
}

impl BoundSocket {
    /// Opens the sockets of `config`: takes those of `handed`, and binds the others. `elsewhere`
    /// tells the operator how to choose another address, for the error message.
    ///
    /// # Errors
    /// An invalid certificate, an address that cannot be bound, or a plain listener that other
    /// machines reach, each with its remedy.
    pub(crate) async fn open_all(
        config: &ListenerConfig,
        handed: ListenerSockets,
        elsewhere: &str,
        log: &Arc<dyn Log>,
    ) -> Result<Vec<Self>, String> {
        let mut doors = Vec::new();
        if let Some(configured) = &config.address {
            let certificate_end = Arc::default();
            let tls = match &config.transport {
                ListenerTransport::Tls(settings) => {
                    Some(tls::load(settings.clone(), log, &certificate_end)?)
                }
                ListenerTransport::Plain | ListenerTransport::PlainHere => None,
            };
            let (socket, address) = match handed.tcp {
                Some(socket) => take_over(socket, &config.transport, log)?,
                None => {
                    let (socket, address) = bind(configured, elsewhere).await?;
                    check_plain(&config.transport, address, log)?;
                    (socket, address)
                }
            };
            warn_of_open_metrics(config, address, log);
            let shown = shown_address(configured, address);
            let figures = ListenerFigures::new(shown, certificate_end);
            doors.push(Self::Tcp { socket, address, tls, figures });
        }
        if let Some(settings) = &config.unix {
            let (path, is_proxy) = (settings.path.clone(), settings.is_trusted_proxy);
            let socket = match handed.unix {
                Some(HandedSocket { number, socket }) => UnixSocket::handed_over(socket, &path)
                    .map_err(|error| unusable(number, &error))?,
                None => UnixSocket::bind(settings)?,
            };
            let figures = ListenerFigures::new(path.display().to_string(), Arc::default());
            doors.push(Self::Unix { socket, path, is_proxy, figures });
        }
        Ok(doors)
    }

    /// Returns the network address with the bound port.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// Returns the URL that is printed for clients.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Tcp { address, tls: None, .. } => format!("http://{address}"),
            Self::Tcp { address, tls: Some(_), .. } => format!("https://{address}"),
            Self::Unix { path, .. } => format!("unix://{}", path.display()),
        }
    }

    /// Returns the URL if clients can dial its address; an unspecified address such as 0.0.0.0
    /// cannot be dialled.
    pub(crate) fn dialled_url(&self) -> Option<String> {
        let address = self.address().filter(|address| !address.ip().is_unspecified());
        address.map(|_| self.url())
    }

    /// Returns the TLS configuration.
    pub(crate) fn tls(&self) -> Option<&Arc<ListenerTls>> {
        match self {
            Self::Tcp { tls, .. } => tls.as_ref(),
            Self::Unix { .. } => None,
        }
    }

    /// Returns the figures of the socket.
    pub(crate) fn figures(&self) -> &Arc<ListenerFigures> {
        match self {
            Self::Tcp { figures, .. } | Self::Unix { figures, .. } => figures,
        }
    }

    async fn accept(&self) -> io::Result<(AcceptedStream, ConnectionOrigin)> {
        match self {
            Self::Tcp { socket, tls, .. } => {
                let (stream, peer) = socket.accept().await?;
                // An IPv6 socket shows an IPv4 client as a mapped address.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                Ok((AcceptedStream::Tcp(stream, tls.clone()), ConnectionOrigin::Network(peer)))
            }
            Self::Unix { socket, is_proxy, .. } => {
                let (stream, _) = socket.listener.accept().await?;
                Ok((AcceptedStream::Unix(stream), ConnectionOrigin::Unix { is_proxy: *is_proxy }))
            }
        }
    }
}

/// Binds `address` (`host:port`; port 0 takes a free port) and returns the socket with its address.
async fn bind(address: &str, elsewhere: &str) -> Result<(TcpListener, SocketAddr), String> {
    let cannot = |error: io::Error| {
        format!("cannot listen on {address}: {error}; choose another address {elsewhere}")
    };
    let socket = TcpListener::bind(address).await.map_err(cannot)?;
    let address = socket.local_addr().map_err(cannot)?;
    Ok((socket, address))
}

/// Takes a socket of the service manager over and returns it with its address, under the rule of
/// [`check_plain`].
fn take_over(
    HandedSocket { number, socket }: HandedSocket<std::net::TcpListener>,
    transport: &ListenerTransport,
    log: &Arc<dyn Log>,
) -> Result<(TcpListener, SocketAddr), String> {
    let prepared = socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket));
    let socket = prepared.map_err(|error| unusable(number, &error))?;
    let address = socket.local_addr().map_err(|error| unusable(number, &error))?;
    check_plain(transport, address, log)
        .map_err(|why| format!("descriptor {number} of LISTEN_FDS: {why}"))?;
    Ok((socket, address))
}

fn unusable(number: i32, error: &io::Error) -> String {
    format!("descriptor {number} of LISTEN_FDS cannot be used: {error}; restart the socket unit")
}

/// Refuses a plain listener that other machines reach, unless the operator allowed plain HTTP:
/// tokens, keys and passwords would pass in the clear.
fn check_plain(
    transport: &ListenerTransport,
    address: SocketAddr,
    log: &Arc<dyn Log>,
) -> Result<(), String> {
    match transport {
        ListenerTransport::PlainHere if !address.ip().is_loopback() => {
            return Err(plain_beyond_loopback(&address.to_string()));
        }
        ListenerTransport::Plain if !address.ip().is_loopback() => {
            let pairs = [("address", address.to_string())];
            log.line(LogLevel::Warn, "plain-http-beyond-loopback", &pairs);
        }
        _ => {}
    }
    Ok(())
}

/// Returns the address of the configuration, or the bound address in place of the port 0: two
/// listeners may have that port.
fn shown_address(configured: &str, bound: SocketAddr) -> String {
    match configured.ends_with(":0") {
        true => bound.to_string(),
        false => configured.to_owned(),
    }
}

/// Warns of metrics without a token for other machines.
fn warn_of_open_metrics(config: &ListenerConfig, address: SocketAddr, log: &Arc<dyn Log>) {
    if config.opens_metrics && !address.ip().is_loopback() {
        let pairs = [("address", address.to_string())];
        log.line(LogLevel::Warn, "metrics-without-token-beyond-loopback", &pairs);
    }
}

/// Returns the maximum number of connections for `descriptors` file descriptors, `most` at most.
/// Warns if there are few descriptors.
pub(crate) fn connection_limit(descriptors: u64, most: u64, log: &Arc<dyn Log>) -> usize {
    let most = connection_slots::slot_capacity(descriptors, most);
    if descriptors < DESCRIPTORS {
        let pairs = [("descriptors", descriptors.to_string()), ("connections", most.to_string())];
        log.line(LogLevel::Warn, "few-file-descriptors", &pairs);
    }
    most
}

/// The end of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DrainOutcome {
    /// All requests ended in time.
    pub(crate) is_complete: bool,
    /// Number of connections that were open when the time was over.
    pub(crate) cut: usize,
}

/// Serves `doors` within `limits` until `stop` completes, then accepts nothing more and waits for
/// requests in flight. Cuts the connections that are left after `limits.drain_time`.
pub(crate) async fn serve<A: RequestAnswerer>(
    doors: Vec<BoundSocket>,
    answerer: Arc<A>,
    limits: ListenerLimits,
    log: Arc<dyn Log>,
    stop: impl Future<Output = ()>,
) -> DrainOutcome {
    let ListenerLimits { config, connections, timeouts, drain_time } = limits;
    let (work, mut ended) = mpsc::channel(1);
    let slots = ConnectionSlots::new(connections, config.connections_per_address);
    let frontend = Arc::new(HttpFrontend::new(answerer, config, work));
    let mut accepting = JoinSet::new();
    for door in doors {
        if let Some(tls) = door.tls() {
            let following = Arc::clone(tls).follow_files();
            accepting.spawn(async move { match following.await {} });
        }
        let (slots, log) = (Arc::clone(&slots), Arc::clone(&log));
        let acceptor = AcceptLoop { door, slots, frontend: Arc::clone(&frontend), timeouts, log };
        accepting.spawn(acceptor.accept_all());
    }
    stop.await;
    accepting.shutdown().await;
    slots.drain();
    drop(frontend);
    let is_complete = tokio::time::timeout(drain_time, ended.recv()).await.is_ok();
    DrainOutcome { is_complete, cut: if is_complete { 0 } else { slots.cut_all() } }
}

/// The limits of a listener.
pub(crate) struct ListenerLimits {
    /// The listener's configuration.
    pub(crate) config: ListenerConfig,
    /// Maximum number of simultaneous connections.
    pub(crate) connections: usize,
    /// Timeouts of each connection.
    pub(crate) timeouts: ConnectionTimeouts,
    /// Maximum time that a stopping server waits for requests in flight.
    pub(crate) drain_time: Duration,
}

impl ListenerLimits {
    /// Creates the limits of a configured listener with the default timeouts.
    pub(crate) fn new(config: ListenerConfig, connections: usize) -> Self {
        let drain_time = ShutdownSettings::default().drain_time();
        Self { config, connections, timeouts: ConnectionTimeouts::default(), drain_time }
    }
}

/// The accept loop of a socket.
struct AcceptLoop<A> {
    door: BoundSocket,
    slots: Arc<ConnectionSlots>,
    frontend: Arc<HttpFrontend<A>>,
    timeouts: ConnectionTimeouts,
    log: Arc<dyn Log>,
}

impl<A: RequestAnswerer> AcceptLoop<A> {
    /// Accepts connections without end and serves each in its own task.
    async fn accept_all(self) {
        loop {
            let (stream, peer) = self.next().await;
            let frontend = Arc::clone(&self.frontend);
            tokio::spawn(connection::serve(stream, peer, frontend, self.timeouts));
        }
    }

    /// Waits for the next connection that gets a slot.
    async fn next(&self) -> (AcceptedStream, ConnectionPeer) {
        loop {
            match self.door.accept().await {
                Ok((stream, origin)) => {
                    let (address, is_proxy) = (origin.address().ip(), self.frontend.trusts(origin));
                    let figures = self.door.figures();
                    let waiting = figures.begin_waiting();
                    let slot = self.slots.take(address, is_proxy).await;
                    drop(waiting);
                    let Some(slot) = slot else {
                        figures.note_refusal();
                        continue;
                    };
                    let (slot, counted) = (Arc::new(slot), figures.begin_connection());
                    return (stream, ConnectionPeer { origin, slot, counted });
                }
                Err(error) => {
                    self.slots.close_longest_idle();
                    self.log.line(LogLevel::Warn, "accept-failed", &[cause(&error)]);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
