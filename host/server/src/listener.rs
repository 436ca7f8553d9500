//! Connections: how many, how slow they may be, and how they end.
//!
//! The attacks this file stops: connections that send their headers a byte at a time, and more
//! connections than there are file descriptors. Which connection has to go when there are
//! too many is in `connection_slots.rs`, clients that never read in `write_timeout.rs`.

use crate::config::ListenerConfig;
use crate::connection_slots::{self, Close, ConnectionSlot, ConnectionSlots};
use crate::error_body::WithErrorBody;
use crate::headers;
use crate::http::{Answerer, HttpFrontend};
use crate::proxies::TrustedProxies;
use crate::write_timeout::WriteTimeout;
use bulkhead_core::log::{Log, cause};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Below so many file descriptors the log warns that a server needs more.
const DESCRIPTORS: u64 = 1024;

/// How long headers may take to arrive, and how long a connection may stay idle between requests.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// How long a client may take nothing of its answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// How long a stopping server waits for requests in flight.
const GRACE: Duration = Duration::from_secs(30);

/// How long to leave a failing `accept` alone: out of file descriptors, there is no event to wait
/// for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on `address` (`host:port`; port 0 takes a free one) and says where. `elsewhere` says how
/// another address is chosen, for the advice.
///
/// # Errors
/// An address that cannot be had, and what to do.
pub(crate) async fn bind(
    address: &str,
    elsewhere: &str,
    log: &Arc<dyn Log>,
) -> Result<(TcpListener, SocketAddr), String> {
    let cannot = |error: io::Error| {
        format!("cannot listen on {address}: {error}; choose another address {elsewhere}")
    };
    let socket = TcpListener::bind(address).await.map_err(cannot)?;
    let address = socket.local_addr().map_err(cannot)?;
    if !address.ip().is_loopback() {
        // There is no TLS yet, so that tokens, keys and passwords pass as they are.
        log.line("warn", "plain-http-beyond-this-machine", &[("address", address.to_string())]);
    }
    Ok((socket, address))
}

/// How many connections there may be when the process may have so many `descriptors`; says so where
/// that is few.
pub(crate) fn connection_limit(descriptors: u64, log: &Arc<dyn Log>) -> usize {
    let most = connection_slots::capacity(descriptors);
    if descriptors < DESCRIPTORS {
        let pairs = [("descriptors", descriptors.to_string()), ("connections", most.to_string())];
        log.line("warn", "few-file-descriptors", &pairs);
    }
    most
}

/// Serves `socket` within `limits` until `stop` ends, then
/// accepts nothing more and waits for requests in flight. Returns whether all of them ended in time
/// (30 s).
pub(crate) async fn serve<A: Answerer>(
    socket: TcpListener,
    answerer: Arc<A>,
    limits: Limits,
    log: Arc<dyn Log>,
    stop: impl Future<Output = ()>,
) -> bool {
    let Limits { config, connections } = limits;
    let (work, mut ended) = mpsc::channel(1);
    let slots = ConnectionSlots::new(connections, config.connections_per_address);
    let acceptor =
        Acceptor { socket, slots: Arc::clone(&slots), proxies: config.proxies.clone(), log };
    let frontend = Arc::new(HttpFrontend::new(answerer, config, work));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = acceptor.next() => {
                tokio::spawn(serve_connection(accepted, Arc::clone(&frontend)));
            }
        }
    }
    drop(acceptor);
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

/// Accepts connections.
struct Acceptor {
    socket: TcpListener,
    slots: Arc<ConnectionSlots>,
    proxies: TrustedProxies,
    log: Arc<dyn Log>,
}

struct Accepted {
    stream: TcpStream,
    remote: SocketAddr,
    slot: ConnectionSlot,
}

impl Acceptor {
    /// The next connection that has a slot.
    async fn next(&self) -> Accepted {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    // an IPv4 client of an IPv6 socket is an IPv4 client
                    let remote = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    let is_proxy = self.proxies.trusts(remote.ip());
                    if let Some(slot) = self.slots.take(remote.ip(), is_proxy).await {
                        return Accepted { stream, remote, slot };
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

/// A request came over a connection that was told to close, and is not begun.
#[derive(Debug)]
struct ToldToClose;

impl fmt::Display for ToldToClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was idle and its slot was needed")
    }
}

impl std::error::Error for ToldToClose {}

async fn serve_connection<A: Answerer>(accepted: Accepted, frontend: Arc<HttpFrontend<A>>) {
    let Accepted { stream, remote, slot } = accepted;
    let (frontend, slot) = (&*frontend, &slot);
    // Answers are small and whole; a socket that refuses the option only answers a little later.
    stream.set_nodelay(true).unwrap_or_default();
    let service = service_fn(move |request| async move {
        let _busy = slot.begin_request().ok_or(ToldToClose)?;
        Ok::<_, ToldToClose>(frontend.serve(request, remote).await)
    });
    let stream = TokioIo::new(WithErrorBody::new(WriteTimeout::new(stream, READ_TIME)));
    let mut connection = pin!(http1_builder().serve_connection(stream, service));
    // A connection that fails concerns its client alone, and hyper has closed it: nothing to
    // report.
    tokio::select! {
        _ = connection.as_mut() => return,
        close = slot.told_to_close() => match close {
            Close::AtOnce => return,
            Close::AfterAnswer => connection.as_mut().graceful_shutdown(),
        },
    }
    connection.await.unwrap_or_default();
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        // ours refuses first, with a body that says why
        .max_header_size(2 * headers::LIST_MAX);
    builder
}

#[cfg(test)]
mod tests;
