//! Connections that stay open between requests which change nothing, so that the next one of the
//! mount to the same server, secured in the same way, need not dial and greet again.
//!
//! The attack this file stops: a connection that outlives what vouched for it. Its address is held
//! against the grants of each request anew, what secured it is part of its purpose, no other mount
//! is given it, and it ends some seconds after its last answer. What changes something never goes
//! over it: whether a connection that breaks had a request taken is not known.

use super::line::Line;
use crate::bindings::secrets_engine::bulkhead::plugin::http::Tls;
use crate::fingerprint::Fingerprint;
use crate::grants::Origin;
use crate::limits;
use bulkhead_wire::sync;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// What a connection may be used for: requests of one mount to one server, secured in one way.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Purpose {
    mount: String,
    origin: Origin,
    /// Of the settings, which may hold a key.
    tls: Fingerprint,
}

impl Purpose {
    /// Requests of the mount with that uuid to `origin`, secured by `tls`.
    pub(crate) fn of(mount: &str, origin: &Origin, tls: Option<&Tls>) -> Self {
        let said = |of: fn(&Tls) -> &Option<String>| tls.and_then(|tls| of(tls).as_ref());
        let tls = Fingerprint::begin()
            .optional(said(|tls| &tls.root_certificates))
            .optional(said(|tls| &tls.client_certificate))
            .optional(said(|tls| &tls.client_key))
            .optional(said(|tls| &tls.server_name))
            .end();
        Self { mount: mount.to_owned(), origin: origin.clone(), tls }
    }
}

/// The connections that nothing uses now.
pub(crate) struct Kept {
    idle: Mutex<Idle>,
    /// How long each of them stays.
    time: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        Self::for_time(limits::KEPT_TIME)
    }
}

#[derive(Default)]
struct Idle {
    /// The one that was used last at the end.
    lines: Vec<One>,
    /// Something waits for their end.
    is_watched: bool,
}

struct One {
    purpose: Purpose,
    address: SocketAddr,
    line: Line,
    since: Instant,
}

impl Kept {
    /// Each stays for that time after its last answer.
    pub(super) fn for_time(time: Duration) -> Self {
        Self { idle: Mutex::default(), time }
    }

    /// One for that purpose whose address `may` be dialled still.
    pub(super) fn take(
        &self,
        purpose: &Purpose,
        may: impl Fn(SocketAddr) -> bool,
    ) -> Option<(Line, SocketAddr)> {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        let place = idle.lines.iter().rposition(|one| one.purpose == *purpose)?;
        let one = idle.lines.remove(place);
        may(one.address).then_some((one.line, one.address))
    }

    /// Keeps one whose answer is whole, unless there are as many as there may be.
    pub(super) fn keep(self: &Arc<Self>, purpose: Purpose, line: Line, address: SocketAddr) {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        let of_mount = idle.lines.iter().filter(|one| one.purpose.mount == purpose.mount).count();
        if !line.may_go_on()
            || of_mount >= limits::KEPT_OF_MOUNT
            || idle.lines.len() >= limits::KEPT
        {
            return;
        }
        idle.lines.push(One { purpose, address, line, since: Instant::now() });
        if !idle.is_watched {
            idle.is_watched = true;
            tokio::spawn(watch(Arc::downgrade(self), self.time));
        }
    }

    /// Closes those of the mount with that uuid.
    pub(crate) fn close_mount(&self, mount: &str) {
        sync::lock(&self.idle).lines.retain(|one| one.purpose.mount != mount);
    }

    /// Closes all.
    pub(crate) fn close_all(&self) {
        sync::lock(&self.idle).lines.clear();
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        sync::lock(&self.idle).lines.len()
    }

    /// Closes those whose time is over; whether any is left.
    fn expire(&self) -> bool {
        let mut idle = sync::lock(&self.idle);
        idle.expire(self.time);
        idle.is_watched = !idle.lines.is_empty();
        idle.is_watched
    }
}

impl Idle {
    fn expire(&mut self, time: Duration) {
        self.lines.retain(|one| one.since.elapsed() < time);
    }
}

/// Closes connections when their time is over, until none is left.
async fn watch(kept: Weak<Kept>, time: Duration) {
    loop {
        tokio::time::sleep(time).await;
        let Some(kept) = kept.upgrade() else { return };
        if !kept.expire() {
            return;
        }
    }
}
