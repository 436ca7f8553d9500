//! A server's process, whatever its mode: what it brings along, where it is, how it starts and how it ends.

use crate::listener;
use bulkhead_core::log::Log;
use bulkhead_core::{Official, Service, Settings};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Longest and default life of a lease or token, in seconds: 768 h, as clients of this API expect.
const LEASE_TTL: u64 = 768 * 3600;

/// What clients are told (decision P5).
const REPORTED_VERSION: &str = "1.21.0+ent";

/// What the process brings along.
pub struct Process {
    /// How the user called the program, for the commands to try.
    pub program: String,
    /// The components inside the binary.
    pub officials: Vec<Official>,
    /// Where log lines go.
    pub log: Arc<dyn Log>,
}

/// Where a server is.
pub(crate) struct Place<'a> {
    /// Its data.
    pub(crate) directory: &'a Path,
    /// `host:port` to listen on.
    pub(crate) listen: &'a str,
    /// The option that chooses it, for the advice when it cannot be had.
    pub(crate) listen_option: &'static str,
}

/// A service behind a socket that is not served yet: clients that come already wait in the system's queue.
pub(crate) struct Server {
    service: Arc<Service>,
    socket: TcpListener,
    address: SocketAddr,
    stop: Stop,
    log: Arc<dyn Log>,
}

impl Server {
    /// Takes the signals, the address and the data directory, in this order: what fails first is what costs nothing
    /// to take back.
    ///
    /// # Errors
    /// What could not be had, and what to do.
    pub(crate) async fn start(process: Process, place: &Place<'_>) -> Result<Self, String> {
        let Process { officials, log, .. } = process;
        let stop = Stop::prepare().map_err(|error| format!("signals cannot be received: {error}"))?;
        let (socket, address) = listener::bind(place.listen, place.listen_option, &log).await?;
        let settings = Settings {
            directory: place.directory.to_path_buf(),
            officials,
            default_lease_ttl: LEASE_TTL,
            max_lease_ttl: LEASE_TTL,
            reported_version: REPORTED_VERSION.to_owned(),
            log: Arc::clone(&log),
        };
        let service = Service::start(settings).await.map_err(|failure| failure.message)?;
        Ok(Self { service, socket, address, stop, log })
    }

    /// The service, for what a mode does before it is served.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Where the socket listens, with the port that it really got.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until SIGTERM or SIGINT, if what the mode did before went well; ends the service in either case.
    ///
    /// # Errors
    /// That of `prepared`.
    pub(crate) async fn serve(self, prepared: Result<(), String>) -> Result<(), String> {
        let Self { service, socket, stop, log, .. } = self;
        if prepared.is_err() {
            service.stop().await;
            return prepared;
        }
        let complete = listener::serve(socket, Arc::clone(&service), Arc::clone(&log), stop.asked(&log)).await;
        service.stop().await;
        let level = if complete { "info" } else { "warn" };
        log.line(level, "stopped", &[("all-requests-answered", complete.to_string())]);
        Ok(())
    }
}

/// The two signals that end a server. They are caught from the start, so that one that comes early
/// still lets the data be closed, and in dev mode removed.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn prepare() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(mut self, log: &Arc<dyn Log>) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        log.line("info", "stopping", &[("signal", name.to_owned())]);
    }
}
