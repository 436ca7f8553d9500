//! Reload of changed TLS files in a running server.
//!
//! This file prevents a failed renewal from ending the service. New connections use the new files
//! once they are complete. If the files are not usable, the old certificate stays in use and the
//! log names the reason. Open connections are not affected.

use crate::files::FileStamp;
use crate::server::{ServerTlsSettings, server_config};
use bulkhead_wire::sync;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Interval between checks of the files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time without changes after which the files count as complete. Programs that write the files in
/// several steps take less time between 2 steps.
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// Maximum number of checks while the files keep changing.
const MAX_SETTLE_CHECKS: usize = 20;

/// Receives the results of each reading of the files, for a log.
pub trait CertificateEvents: Send + Sync {
    /// The certificate in `file` is served from now on, and ends at `ends` (RFC 3339).
    fn served(&self, file: &Path, ends: &str);

    /// The files are not usable, and the previous certificate is served. `why` holds names, paths
    /// and numbers, but no content of a file.
    fn refused(&self, why: &str);
}

/// The TLS configuration of a listener, which follows its files.
pub struct ListenerTls {
    settings: ServerTlsSettings,
    /// Application protocols, the preferred one first.
    protocols: &'static [&'static [u8]],
    events: Arc<dyn CertificateEvents>,
    served: Mutex<Arc<ServerConfig>>,
    /// Stamps of the last read files, whether accepted or refused.
    seen: tokio::sync::Mutex<Vec<FileStamp>>,
}

impl ListenerTls {
    /// Reads the files. `protocols` are the application protocols (ALPN), the preferred one first.
    ///
    /// # Errors
    /// The reason why the files are not usable, and the remedy.
    pub fn load(
        settings: ServerTlsSettings,
        protocols: &'static [&'static [u8]],
        events: Arc<dyn CertificateEvents>,
    ) -> Result<Arc<Self>, String> {
        let seen = stamps(&settings);
        let (config, ends) = server_config(&settings, protocols)?;
        events.served(settings.certificates.path(), &ends);
        let (served, seen) = (Mutex::new(Arc::new(config)), tokio::sync::Mutex::new(seen));
        Ok(Arc::new(Self { settings, protocols, events, served, seen }))
    }

    /// Performs the handshake of a new connection, with the current certificate.
    ///
    /// # Errors
    /// The failure of the handshake.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(self.config()).accept(stream).await
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&sync::lock(&self.served))
    }

    /// Checks the files without end and reloads changed files.
    pub async fn follow_files(self: Arc<Self>) -> Infallible {
        loop {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
            if self.looked_at().await != *self.seen.lock().await {
                self.renew().await;
            }
        }
    }

    /// Reloads the files when they are complete. Keeps the current configuration if the files are
    /// not usable.
    pub async fn renew(self: &Arc<Self>) {
        let mut seen = self.seen.lock().await;
        let Some(before) = self.wait_until_settled().await else { return };
        let this = Arc::clone(self);
        let read = move || server_config(&this.settings, this.protocols);
        let read = tokio::task::spawn_blocking(read).await;
        if self.looked_at().await != before {
            // The files changed while they were read; the next check reloads them.
            return;
        }
        *seen = before;
        match read {
            Ok(Ok((config, ends))) => {
                *sync::lock(&self.served) = Arc::new(config);
                self.events.served(self.settings.certificates.path(), &ends);
            }
            Ok(Err(why)) => self.events.refused(&why),
            Err(error) => self.events.refused(&error.to_string()),
        }
    }

    /// Waits until the files stay unchanged. Returns `None` if the files keep changing; a later
    /// check tries again.
    async fn wait_until_settled(self: &Arc<Self>) -> Option<Vec<FileStamp>> {
        let mut before = self.looked_at().await;
        for _ in 0..MAX_SETTLE_CHECKS {
            tokio::time::sleep(SETTLE_TIME).await;
            let now = self.looked_at().await;
            if now == before {
                return Some(now);
            }
            before = now;
        }
        None
    }

    /// Runs on a blocking thread, because the disk may be remote.
    async fn looked_at(self: &Arc<Self>) -> Vec<FileStamp> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || stamps(&this.settings)).await.unwrap_or_default()
    }
}

fn stamps(settings: &ServerTlsSettings) -> Vec<FileStamp> {
    settings.files().map(FileStamp::of).collect()
}
