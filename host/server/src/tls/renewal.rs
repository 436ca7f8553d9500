//! Reload of changed TLS files in a running server.
//!
//! Prevents a failed renewal from ending the service. New connections use the new files once they
//! are complete. If the files are not usable, the old certificate stays in use and the log names
//! the reason. Open connections are not affected.

use super::files::FileStamp;
use super::settings::TlsSettings;
use bulkhead_access::log::{Log, LogCause, cause};
use bulkhead_wire::sync;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Interval between checks of the files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time without changes after which the files count as complete. Programs that write the files in
/// several steps take less time between 2 steps.
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// Maximum number of checks while the files keep changing.
const MAX_SETTLE_CHECKS: usize = 20;

/// The TLS configuration of a listener, which follows its files.
pub(crate) struct ListenerTls {
    settings: TlsSettings,
    served: Mutex<Arc<ServerConfig>>,
    /// Stamps of the files that were last read, whether accepted or refused.
    seen: tokio::sync::Mutex<Vec<FileStamp>>,
}

impl ListenerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// The reason why the files are not usable, and the remedy.
    pub(crate) fn load(settings: TlsSettings, log: &Arc<dyn Log>) -> Result<Arc<Self>, String> {
        let seen = stamps(&settings);
        let (config, ends) = super::server_config(&settings)?;
        log_served(log, &settings, ends);
        let (served, seen) = (Mutex::new(Arc::new(config)), tokio::sync::Mutex::new(seen));
        Ok(Arc::new(Self { settings, served, seen }))
    }

    /// Returns the configuration for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&sync::lock(&self.served))
    }

    /// Checks the files without end and reloads changed files.
    pub(crate) async fn follow_files(self: Arc<Self>, log: Arc<dyn Log>) -> Infallible {
        loop {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
            if self.looked_at().await != *self.seen.lock().await {
                self.renew(&log).await;
            }
        }
    }

    /// Reloads the files when they are complete. Keeps the current configuration if the files are
    /// not usable.
    pub(crate) async fn renew(self: &Arc<Self>, log: &Arc<dyn Log>) {
        let mut seen = self.seen.lock().await;
        let Some(before) = self.wait_until_settled().await else { return };
        let this = Arc::clone(self);
        let read = move || super::server_config(&this.settings);
        let read = tokio::task::spawn_blocking(read).await;
        if self.looked_at().await != before {
            // The files changed while they were read; the next check reloads them.
            return;
        }
        *seen = before;
        match read {
            Ok(Ok((config, ends))) => {
                *sync::lock(&self.served) = Arc::new(config);
                log_served(log, &self.settings, ends);
            }
            Ok(Err(why)) => log_refused(log, &why),
            Err(error) => log_refused(log, &error.to_string()),
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

fn stamps(settings: &TlsSettings) -> Vec<FileStamp> {
    let files = [Some(&settings.cert_file), Some(&settings.key_file), settings.client_ca_file()];
    files.into_iter().flatten().map(|file| FileStamp::of(file)).collect()
}

fn log_served(log: &Arc<dyn Log>, settings: &TlsSettings, ends: String) {
    let pairs = [("file", settings.cert_file.display().to_string()), ("ends", ends)];
    log.line("info", "certificate-served", &pairs);
}

/// The reason of a refusal: names, paths and numbers, but no content of a key file.
struct TlsRefusal<'a>(&'a str);

impl LogCause for TlsRefusal<'_> {
    fn words(&self) -> String {
        self.0.to_owned()
    }
}

fn log_refused(log: &Arc<dyn Log>, why: &str) {
    let pairs = [cause(&TlsRefusal(why)), ("served", "the certificate from before".to_owned())];
    log.line("error", "certificate-refused", &pairs);
}
