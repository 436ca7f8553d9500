//! Notifications to the service manager that started this process (`Type=notify` of systemd):
//! readiness, state, and signs of life for its watchdog.
//!
//! This file prevents a hung server from staying in service: the signs of life come from a task of
//! the runtime that serves requests. A server without a service manager sends nothing.

use bulkhead_access::log::{Log, cause};
use bulkhead_api::{Service, ServiceState};
use bulkhead_wire::log_level::LogLevel;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UnixDatagram;
use tokio::time::MissedTickBehavior;

/// Time after which a notification is given up: the service manager does not read its socket.
const NOTIFICATION_TIME: Duration = Duration::from_secs(5);

/// The service manager of this process, if any.
#[derive(Clone)]
pub(crate) struct ServiceManager {
    address: Option<SocketAddr>,
    /// Maximum time between two signs of life. `None`: no watchdog.
    watchdog: Option<Duration>,
    /// A failure was logged; later failures are not.
    has_failed: Arc<AtomicBool>,
    log: Arc<dyn Log>,
}

impl ServiceManager {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, which `env` looks up. A value
    /// that cannot be used is logged, and the server runs without notifications.
    pub(crate) fn of_environment(
        env: &dyn Fn(&str) -> Option<OsString>,
        log: &Arc<dyn Log>,
    ) -> Self {
        let address = env("NOTIFY_SOCKET").filter(|text| !text.is_empty());
        let address = address.and_then(|text| match parse_address(&text) {
            Ok(address) => Some(address),
            Err(error) => {
                log_failure(&**log, &error);
                None
            }
        });
        let watchdog = address.as_ref().and_then(|_| watchdog(env, std::process::id()));
        Self { address, watchdog, has_failed: Arc::default(), log: Arc::clone(log) }
    }

    /// Notifies that requests are answered.
    pub(crate) async fn ready(&self) {
        self.send("READY=1").await;
    }

    /// Notifies that the process begins to stop.
    pub(crate) async fn stopping(&self) {
        self.send("STOPPING=1").await;
    }

    /// Notifies that files are read again; [`Self::ready`] ends the reload.
    pub(crate) async fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or_default();
        let now = seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1_000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}")).await;
    }

    /// Starts the tasks that send signs of life and each change of the service's state. The tasks
    /// run until the runtime ends.
    pub(crate) fn follow(&self, service: &Arc<Service>) {
        if self.address.is_none() {
            return;
        }
        tokio::spawn(self.clone().send_states(Arc::clone(service)));
        if let Some(limit) = self.watchdog {
            tokio::spawn(self.clone().send_signs_of_life(limit));
        }
    }

    async fn send_states(self, service: Arc<Service>) {
        let (mut changes, mut sent) = (service.state_changes(), None);
        loop {
            // A change during the look-up of the state is found by the wait below.
            changes.mark_unchanged();
            let state = service.state().await;
            if sent.replace(state) != Some(state) {
                self.send(&format!("STATUS={}", words(state))).await;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn send_signs_of_life(self, limit: Duration) {
        let mut beat = tokio::time::interval(limit / 2);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            self.send("WATCHDOG=1").await;
        }
    }

    /// Sends one datagram. A failure is logged once.
    async fn send(&self, lines: &str) {
        let Some(address) = &self.address else { return };
        let sent = tokio::time::timeout(NOTIFICATION_TIME, send_to(address, lines)).await;
        let sent = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if let Err(error) = sent
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            log_failure(&*self.log, &error);
        }
    }
}

/// Sends `lines` over a new socket: the service manager may have bound its address again since the
/// last notification.
async fn send_to(address: &SocketAddr, lines: &str) -> io::Result<()> {
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    socket.connect_addr(address)?;
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)?.send(lines.as_bytes()).await.map(drop)
}

fn log_failure(log: &dyn Log, error: &io::Error) {
    log.line(LogLevel::Warn, "service-manager-not-notified", &[cause(error)]);
}

/// Reads an absolute path, or the name of an abstract socket after `@`.
fn parse_address(text: &OsStr) -> io::Result<SocketAddr> {
    match text.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(text),
        _ => {
            let why = "NOTIFY_SOCKET is neither an absolute path nor @ with a name";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// Returns the maximum time between two signs of life, if the watchdog is for the process `pid`.
fn watchdog(env: &dyn Fn(&str) -> Option<OsString>, pid: u32) -> Option<Duration> {
    let number = |name| Some(env(name)?.to_str().and_then(|text| text.parse::<u64>().ok()));
    let is_ours = number("WATCHDOG_PID").is_none_or(|owner| owner == Some(u64::from(pid)));
    let limit = number("WATCHDOG_USEC").flatten().filter(|limit| *limit >= 2)?;
    is_ours.then(|| Duration::from_micros(limit))
}

/// Returns the words for a state in the status of the service manager.
fn words(state: ServiceState) -> &'static str {
    match state {
        ServiceState::NotInitialised => "not initialised",
        ServiceState::Sealed => "sealed",
        ServiceState::Unsealed => "unsealed",
        ServiceState::Stopping => "stopping",
    }
}

#[cfg(test)]
mod tests;
