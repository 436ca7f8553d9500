//! Figures of the process around the service: connections, certificates and the log. The listeners
//! and the log count, and `sys/metrics` reads.
//!
//! This file prevents a lock on the path of a connection or of a line: each figure is an atomic.

use crate::event_counts::EventCounts;
use crate::log_level::LogLevel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The end of a certificate that does not exist.
const NO_CERTIFICATE: i64 = i64::MIN;

/// The figures of a server.
#[derive(Debug, Default)]
pub struct ServerFigures {
    /// The figures of each listening socket.
    pub listeners: Vec<Arc<ListenerFigures>>,
    /// The figures of the log.
    pub log: Arc<LogFigures>,
}

/// The end of the certificate that a listener serves.
#[derive(Debug)]
pub struct CertificateEnd(AtomicI64);

/// The figures of a listening socket.
#[derive(Debug, Default)]
pub struct ListenerFigures {
    address: String,
    waiting: AtomicU64,
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    failed_handshakes: AtomicU64,
    certificate_end: Arc<CertificateEnd>,
}

impl Default for CertificateEnd {
    fn default() -> Self {
        Self(AtomicI64::new(NO_CERTIFICATE))
    }
}

impl CertificateEnd {
    /// Sets the end, in seconds since 1970.
    pub fn set(&self, end: i64) {
        self.0.store(end, Ordering::Relaxed);
    }

    /// Returns the end, in seconds since 1970. `None`: no certificate is served.
    #[must_use]
    pub fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|end| *end != NO_CERTIFICATE)
    }
}

/// The figures of a listening socket at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerReading {
    /// The address or path of the configuration.
    pub address: String,
    /// Number of connections that wait for a slot.
    pub waiting: u64,
    /// Number of open connections.
    pub open: u64,
    /// Number of connections that could send a request.
    pub accepted: u64,
    /// Number of connections closed because their client has too many.
    pub refused: u64,
    /// Number of connections that ended before the end of the TLS handshake.
    pub failed_handshakes: u64,
    /// End of the served certificate, in seconds since 1970. `None`: no certificate is served.
    pub certificate_end: Option<i64>,
}

impl ListenerFigures {
    /// Creates the figures of the socket at `address`, with the end of its certificate.
    #[must_use]
    pub fn new(address: String, certificate_end: Arc<CertificateEnd>) -> Arc<Self> {
        Arc::new(Self { address, certificate_end, ..Self::default() })
    }

    /// Counts a connection as waiting until the returned guard is dropped.
    #[must_use]
    pub fn begin_waiting(self: &Arc<Self>) -> WaitingConnection {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingConnection(Arc::clone(self))
    }

    /// Counts a connection as open until the returned guard is dropped.
    #[must_use]
    pub fn begin_connection(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts a connection that gets no slot.
    pub fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the figures.
    #[must_use]
    pub fn read(&self) -> ListenerReading {
        ListenerReading {
            address: self.address.clone(),
            waiting: self.waiting.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            failed_handshakes: self.failed_handshakes.load(Ordering::Relaxed),
            certificate_end: self.certificate_end.get(),
        }
    }
}

/// A connection that waits for a slot.
#[derive(Debug)]
pub struct WaitingConnection(Arc<ListenerFigures>);

impl Drop for WaitingConnection {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection.
#[derive(Debug)]
pub struct OpenConnection(Arc<ListenerFigures>);

impl OpenConnection {
    /// Notes that the connection can send requests.
    pub fn accept(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the connection ended before the end of the TLS handshake.
    pub fn fail_handshake(&self) {
        self.0.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The figures of the log.
#[derive(Debug, Default)]
pub struct LogFigures {
    /// The written lines of each level.
    pub lines: EventCounts<LogLevel, 4>,
    suppressed: AtomicU64,
    is_diverted: AtomicBool,
}

impl LogFigures {
    /// Counts a line that is left out of a flood.
    pub fn note_suppressed(&self) {
        self.suppressed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets whether lines go to standard error because the file fails.
    pub fn set_diverted(&self, is_diverted: bool) {
        self.is_diverted.store(is_diverted, Ordering::Relaxed);
    }

    /// Returns the number of lines that were left out of floods.
    #[must_use]
    pub fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }

    /// Returns whether lines go to standard error because the file fails.
    #[must_use]
    pub fn is_diverted(&self) -> bool {
        self.is_diverted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_counts_once_and_is_open_until_dropped() {
        let end = Arc::<CertificateEnd>::default();
        let figures = ListenerFigures::new("127.0.0.1:8200".to_owned(), Arc::clone(&end));
        let waiting = figures.begin_waiting();
        assert_eq!(figures.read().waiting, 1);
        drop(waiting);
        let [first, second] = [(); 2].map(|()| figures.begin_connection());
        first.accept();
        second.fail_handshake();
        drop(second);
        figures.note_refusal();
        let reading = ListenerReading {
            address: "127.0.0.1:8200".to_owned(),
            waiting: 0,
            open: 1,
            accepted: 1,
            refused: 1,
            failed_handshakes: 1,
            certificate_end: None,
        };
        assert_eq!(figures.read(), reading);
        end.set(-5);
        assert_eq!(figures.read().certificate_end, Some(-5));
    }

    #[test]
    fn log_lines_count_by_level() {
        let figures = LogFigures::default();
        figures.lines.note(LogLevel::Warn);
        figures.lines.note(LogLevel::Warn);
        figures.note_suppressed();
        let counts = figures.lines.read().map(|(_, count)| count);
        assert_eq!((counts, figures.suppressed()), ([0, 0, 2, 0], 1));
    }
}
