//! The keeper of the key of a seal: the component of the seal, with the credentials and the files
//! of the moment.
//!
//! This file prevents a server that keeps an expired credential: the component is loaded for each
//! exchange, with settings that were read again.

use crate::config::KeeperAccess;
use async_trait::async_trait;
use bulkhead_access::log::Log;
use bulkhead_core::OfficialSeal;
use bulkhead_core::key_wrapper::{KeyWrapper, OpenedKey, WrappedKey};
use bulkhead_outbound::proxy::OutboundNetwork;
use bulkhead_sandbox::{ComponentSource, LogSink, SandboxRuntime, SealPlugin, SealSurroundings};
use bulkhead_store::SealKey;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time for which a repeated line of the component is left out.
const REPETITION_PAUSE: Duration = Duration::from_secs(3_600);

/// The parts of this process that the component of a seal needs.
pub(crate) struct KeeperSurroundings {
    pub(crate) seals: Vec<OfficialSeal>,
    pub(crate) runtime: Arc<SandboxRuntime>,
    /// Addresses that the component never dials.
    pub(crate) own_addresses: Vec<SocketAddr>,
    pub(crate) outbound: OutboundNetwork,
    /// Destination of the component's log lines.
    pub(crate) log: LogSink,
}

/// The keeper that a component reaches.
struct ComponentKeeper {
    access: KeeperAccess,
    source: ComponentSource<'static>,
    surroundings: KeeperSurroundings,
}

impl ComponentKeeper {
    /// Loads the component with the settings of the moment. A file that cannot be read may be back
    /// soon.
    async fn plugin(&self) -> Result<SealPlugin, Failure> {
        let settings = self.access.read();
        let settings = settings.map_err(|why| Failure::new(FailureKind::Unavailable, why))?;
        let KeeperSurroundings { runtime, own_addresses, outbound, log, .. } = &self.surroundings;
        let surroundings = SealSurroundings { own_addresses, outbound, log: Arc::clone(log) };
        SealPlugin::load(runtime, self.source, &settings, surroundings).await
    }
}

#[async_trait]
impl KeyWrapper for ComponentKeeper {
    async fn wrap(&self, key: &SealKey) -> Result<WrappedKey, Failure> {
        let wrapped = self.plugin().await?.wrap_key(key.bytes()).await?;
        Ok(WrappedKey { key_id: wrapped.key_id, blob: wrapped.blob })
    }

    async fn unwrap(&self, blob: &[u8]) -> Result<OpenedKey, Failure> {
        let opened = self.plugin().await?.unwrap_key(blob).await?;
        let key = SealKey::copy_of(&opened.key);
        Ok(OpenedKey { key, newest_key_id: opened.newest_key_id })
    }

    async fn renew(&self) -> Result<Option<Duration>, Failure> {
        self.plugin().await?.renew_credentials().await
    }

    fn renews_credentials(&self) -> bool {
        self.access.renews_credentials()
    }

    async fn check(&self) -> Result<(), Failure> {
        self.plugin().await?.check_health().await
    }
}

/// Returns the keeper behind `access`.
///
/// # Errors
/// This build has no component for the seal.
pub(crate) fn keeper(
    access: KeeperAccess,
    surroundings: KeeperSurroundings,
) -> Result<Arc<dyn KeyWrapper>, String> {
    let kind = access.kind();
    let seal = surroundings.seals.iter().find(|seal| seal.kind == kind).ok_or_else(|| {
        format!(
            "this build has no component for seal {kind:?}; install a complete build, or write \
             another seal"
        )
    })?;
    let (wasm, compiled) = (seal.component.wasm, Some(seal.component.compiled));
    let source = ComponentSource::Official { wasm, compiled };
    Ok(Arc::new(ComponentKeeper { access, source, surroundings }))
}

/// Returns a destination that writes the component's lines to the operator's log, without a line
/// that repeats the line before within [`REPETITION_PAUSE`]: the attempts of a long outage fail for
/// the same reason.
pub(crate) fn lines_to(log: &Arc<dyn Log>) -> LogSink {
    let (log, last) = (Arc::clone(log), Mutex::new(None));
    Arc::new(move |level, plugin, event, pairs| {
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let pairs: Vec<(&str, String)> = plugin.log_pairs().into_iter().chain(pairs).collect();
        let line = format!("{event} {pairs:?}");
        if is_due(&mut sync::lock(&last), line, Instant::now()) {
            log.line(level, event, &pairs);
        }
    })
}

/// Returns true if a line is another line than the last written line, or if the last line is old.
/// The line is then the last written line.
fn is_due(last: &mut Option<(String, Instant)>, line: String, now: Instant) -> bool {
    if let Some((text, time)) = last
        && *text == line
        && now.saturating_duration_since(*time) < REPETITION_PAUSE
    {
        return false;
    }
    *last = Some((line, now));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_line_returns_after_pause() {
        let (mut last, begin) = (None, Instant::now());
        let mut is_due = |line: &str, now| super::is_due(&mut last, line.to_owned(), now);
        assert!(is_due("http-failed", begin));
        assert!(!is_due("http-failed", begin + REPETITION_PAUSE / 2));
        assert!(is_due("http-failed", begin + REPETITION_PAUSE));
        assert!(!is_due("http-failed", begin + REPETITION_PAUSE * 3 / 2));
        assert!(is_due("token-refused", begin + REPETITION_PAUSE * 3 / 2));
        assert!(is_due("http-failed", begin + REPETITION_PAUSE * 3 / 2));
    }
}
