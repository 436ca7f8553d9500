//! Idle connections for requests that change nothing. The next request of the same mount to the
//! same server with the same TLS settings needs no dialling and no handshake.
//!
//! This file prevents a connection from outliving its authorisation. Each request checks the
//! connection's address against its own grants, the TLS settings are part of the purpose, no other
//! mount gets the connection, and the connection closes some seconds after its last answer. A
//! request that changes something never uses an idle connection: if such a connection breaks, the
//! client cannot know whether the server took the request.

use super::line::HttpConnection;
use super::request::HttpTls;
use crate::addresses::Origin;
use crate::fingerprint::Fingerprint;
use crate::limits;
use bulkhead_wire::sync;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Key of an idle connection: mount, server and TLS settings.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpPoolKey {
    mount: String,
    origin: Origin,
    /// Fingerprint of the TLS settings, which may hold a key.
    tls: Fingerprint,
}

impl HttpPoolKey {
    /// Creates the key for requests to `origin` of the mount with this UUID.
    pub fn of(mount: &str, origin: &Origin, tls: Option<&HttpTls>) -> Self {
        let said = |of: fn(&HttpTls) -> &Option<String>| tls.and_then(|tls| of(tls).as_ref());
        let tls = Fingerprint::begin()
            .optional(said(|tls| &tls.root_certificates))
            .optional(said(|tls| &tls.client_certificate))
            .optional(said(|tls| &tls.client_key))
            .optional(said(|tls| &tls.server_name))
            .end();
        Self { mount: mount.to_owned(), origin: origin.clone(), tls }
    }
}

/// All idle connections of the process.
pub struct ConnectionPool {
    idle: Mutex<IdleConnections>,
    /// Maximum idle time of a connection.
    time: Duration,
}

impl Default for ConnectionPool {
    fn default() -> Self {
        Self::for_time(limits::CONNECTION_IDLE_TIME)
    }
}

#[derive(Default)]
struct IdleConnections {
    /// Idle connections; the most recently used connection is last.
    connections: Vec<PooledConnection>,
    /// A task is running that closes expired connections.
    is_watched: bool,
}

struct PooledConnection {
    purpose: HttpPoolKey,
    address: SocketAddr,
    connection: HttpConnection,
    since: Instant,
}

impl ConnectionPool {
    /// Creates a set in which connections stay idle for `time`.
    pub(super) fn for_time(time: Duration) -> Self {
        Self { idle: Mutex::default(), time }
    }

    /// Takes the latest connection with this purpose. If `may` rejects its address, closes the
    /// connection and returns `None`.
    pub(super) fn take(
        &self,
        purpose: &HttpPoolKey,
        may: impl Fn(SocketAddr) -> bool,
    ) -> Option<(HttpConnection, SocketAddr)> {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        let place = idle.connections.iter().rposition(|one| one.purpose == *purpose)?;
        let one = idle.connections.remove(place);
        may(one.address).then_some((one.connection, one.address))
    }

    /// Keeps a connection after a complete answer, unless a limit is reached.
    pub(super) fn keep(
        self: &Arc<Self>,
        purpose: HttpPoolKey,
        connection: HttpConnection,
        address: SocketAddr,
    ) {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        let of_mount =
            idle.connections.iter().filter(|one| one.purpose.mount == purpose.mount).count();
        if !connection.is_reusable()
            || of_mount >= limits::IDLE_CONNECTIONS_OF_MOUNT
            || idle.connections.len() >= limits::IDLE_CONNECTIONS
        {
            return;
        }
        idle.connections.push(PooledConnection {
            purpose,
            address,
            connection,
            since: Instant::now(),
        });
        if !idle.is_watched {
            idle.is_watched = true;
            tokio::spawn(close_expired(Arc::downgrade(self), self.time));
        }
    }

    /// Closes the idle connections of the mount with this UUID.
    pub fn close_mount(&self, mount: &str) {
        sync::lock(&self.idle).connections.retain(|one| one.purpose.mount != mount);
    }

    /// Closes all idle connections.
    pub fn close_all(&self) {
        sync::lock(&self.idle).connections.clear();
    }

    /// Returns the number of idle connections.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        sync::lock(&self.idle).connections.len()
    }

    /// Closes expired connections. Returns whether any connection is left.
    fn expire(&self) -> bool {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        idle.is_watched = !idle.connections.is_empty();
        idle.is_watched
    }
}

impl IdleConnections {
    fn expire(&mut self, time: Duration) {
        self.connections.retain(|one| one.since.elapsed() < time);
    }
}

/// Closes expired connections until no connection is left.
async fn close_expired(pool: Weak<ConnectionPool>, time: Duration) {
    loop {
        tokio::time::sleep(time).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.expire() {
            return;
        }
    }
}
