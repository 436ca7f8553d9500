//! Files of TLS that change under a running server.
//!
//! The mistake this file stops: a renewal that ends the service. New connections get what the files
//! hold once they are whole; files that cannot be served leave the old certificate where it is, and
//! the log says why. A connection that is open already notices nothing.

use super::files::Stamp;
use super::settings::TlsSettings;
use bulkhead_core::log::{Cause, Log, cause};
use bulkhead_wire::sync;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long files have to be the same before they are read: who writes them writes all of them
/// within less, piece by piece or one after the other.
const SETTLED: Duration = Duration::from_millis(250);

/// How often they may have changed in the meantime.
const PATIENCE: usize = 20;

/// TLS of a listener, as its files are.
pub(crate) struct Tls {
    settings: TlsSettings,
    served: Mutex<Arc<ServerConfig>>,
    /// The files that were read last, whether they are served or were refused.
    seen: tokio::sync::Mutex<Vec<Stamp>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Why they cannot be served, and what to do.
    pub(crate) fn load(settings: TlsSettings, log: &Arc<dyn Log>) -> Result<Arc<Self>, String> {
        let seen = stamps(&settings);
        let (config, ends) = super::server_config(&settings)?;
        log_served(log, &settings, ends);
        let (served, seen) = (Mutex::new(Arc::new(config)), tokio::sync::Mutex::new(seen));
        Ok(Arc::new(Self { settings, served, seen }))
    }

    /// What a connection that begins now is served with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&sync::lock(&self.served))
    }

    /// Looks at the files for ever, and serves those that changed.
    pub(crate) async fn follow_files(self: Arc<Self>, log: Arc<dyn Log>) -> Infallible {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.looked_at().await != *self.seen.lock().await {
                self.renew(&log).await;
            }
        }
    }

    /// Serves what the files hold, as soon as they are not being written; keeps what is served
    /// where they cannot be.
    pub(crate) async fn renew(self: &Arc<Self>, log: &Arc<dyn Log>) {
        let mut seen = self.seen.lock().await;
        let Some(before) = self.settled().await else { return };
        let this = Arc::clone(self);
        let read = move || super::server_config(&this.settings);
        let read = tokio::task::spawn_blocking(read).await;
        if self.looked_at().await != before {
            // They changed while they were read; the next look finds them.
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

    /// The files once they are the same for a while; `None` where they keep changing, which a later
    /// look finds.
    async fn settled(self: &Arc<Self>) -> Option<Vec<Stamp>> {
        let mut before = self.looked_at().await;
        for _ in 0..PATIENCE {
            tokio::time::sleep(SETTLED).await;
            let now = self.looked_at().await;
            if now == before {
                return Some(now);
            }
            before = now;
        }
        None
    }

    /// The disk may be far away.
    async fn looked_at(self: &Arc<Self>) -> Vec<Stamp> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || stamps(&this.settings)).await.unwrap_or_default()
    }
}

fn stamps(settings: &TlsSettings) -> Vec<Stamp> {
    let files = [Some(&settings.cert_file), Some(&settings.key_file), settings.client_ca_file()];
    files.into_iter().flatten().map(|file| Stamp::of(file)).collect()
}

fn log_served(log: &Arc<dyn Log>, settings: &TlsSettings, ends: String) {
    let pairs = [("file", settings.cert_file.display().to_string()), ("ends", ends)];
    log.line("info", "certificate-served", &pairs);
}

/// Why files are not served: names, paths and numbers, and nothing of what is in a file of a key.
struct Refusal<'a>(&'a str);

impl Cause for Refusal<'_> {
    fn words(&self) -> String {
        self.0.to_owned()
    }
}

fn log_refused(log: &Arc<dyn Log>, why: &str) {
    let pairs = [cause(&Refusal(why)), ("served", "the certificate from before".to_owned())];
    log.line("error", "certificate-refused", &pairs);
}
