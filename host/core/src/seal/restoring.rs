//! The replacement of all data by a restored snapshot, while the process goes on.
//!
//! This file prevents a service that keeps anything of the old data in memory: the core is closed
//! as for a seal, and a new core is built from the restored data, after all old work has ended.

#[cfg(test)]
mod tests;

use super::ServiceSeal;
use super::automatic::START_PATIENCE;
use crate::core::Core;
use crate::lifecycle;
use bulkhead_access::log::cause;
use bulkhead_store::{PreparedRestore, SnapshotManifest, Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::Arc;

/// Remedy for restored data that nothing in the process opens.
const UNSEAL_HINT: &str = "unseal the server with the keys of the snapshot";

/// State of the service after a restore.
#[derive(Debug)]
pub enum RestoreOutcome {
    /// The service serves the restored data.
    Open,
    /// The data were replaced and the service is sealed. Holds the reason with the next step.
    Sealed(String),
}

impl ServiceSeal {
    /// Replaces the data of the open `core` by the prepared data and opens the restored data: with
    /// the automatic seal of the configuration, or with the root key in memory. Otherwise the
    /// service stays sealed.
    ///
    /// # Errors
    /// 503 if the service was sealed meanwhile: nothing was changed. The store's failure if the
    /// data could not be replaced: the service serves the old data again.
    pub async fn restore(
        &self,
        core: &Arc<Core>,
        prepared: PreparedRestore,
    ) -> Result<RestoreOutcome, Failure> {
        let _turn = self.turn.lock().await;
        let open = sync::write(&self.open).take_if(|open| Arc::ptr_eq(open, core));
        if open.is_none() {
            return Err(Failure::new(
                FailureKind::Unavailable,
                "the server was sealed before the data were replaced, and nothing was changed; \
                 unseal the server, then restore the snapshot again",
            ));
        }
        lifecycle::stop(core, lifecycle::SEAL_PATIENCE).await;
        self.process.note_change();
        let manifest = prepared.manifest().clone();
        let replaced = self.directory.put_restored(prepared);
        // Shares of the old data mean nothing for the restored data.
        sync::lock(&self.unsealing).take();
        let opened = self.open_without_people(&core.store).await;
        match replaced {
            Ok(()) => Ok(self.conclude(&manifest, opened)),
            Err(fault) => {
                self.log_failure(&fault, opened);
                Err(fault.into())
            }
        }
    }

    /// Opens the present data with the root key of `previous`, or with the seal of the
    /// configuration. Returns `false` if neither opens the data.
    async fn open_without_people(&self, previous: &Arc<Store>) -> Result<bool, Failure> {
        let store = match self.directory.open_like(previous).await {
            Ok(store) => store,
            Err(StoreFault::WrongKey) => match self.opening_key(START_PATIENCE).await? {
                Some(opening) => self.open_with(&opening).await?,
                None => return Ok(false),
            },
            Err(fault) => return Err(fault.into()),
        };
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure);
        }
        self.renew_seal_key(&store).await;
        self.unlock(store).await?;
        Ok(true)
    }

    /// Logs the restore, and returns its outcome.
    fn conclude(
        &self,
        manifest: &SnapshotManifest,
        opened: Result<bool, Failure>,
    ) -> RestoreOutcome {
        let (level, outcome) = match opened {
            Ok(true) => (LogLevel::Info, RestoreOutcome::Open),
            Ok(false) => (
                LogLevel::Warn,
                RestoreOutcome::Sealed(format!(
                    "the data were restored, and no key in the server opens the data: {UNSEAL_HINT}"
                )),
            ),
            Err(failure) => (
                LogLevel::Warn,
                RestoreOutcome::Sealed(format!(
                    "the data were restored and are sealed: {}",
                    failure.message
                )),
            ),
        };
        let mut pairs = vec![
            ("cluster", manifest.cluster_id.clone()),
            ("taken-at", manifest.taken_at.clone()),
            ("records", manifest.records.to_string()),
            ("replaced-data", "bulkhead.db.undone".to_owned()),
            ("sealed", (level == LogLevel::Warn).to_string()),
        ];
        if let RestoreOutcome::Sealed(reason) = &outcome {
            pairs.push(("reason", reason.clone()));
        }
        self.process.settings.log.line(level, "restored", &pairs);
        outcome
    }

    /// Logs a restore that did not replace the data, and the failure to open the old data again.
    fn log_failure(&self, fault: &StoreFault, opened: Result<bool, Failure>) {
        let log = &self.process.settings.log;
        log.line(LogLevel::Error, "not-restored", &[cause(fault)]);
        match opened {
            Ok(true) => {}
            Ok(false) => log.line(LogLevel::Error, "not-unsealed", &[cause(&StoreFault::WrongKey)]),
            Err(failure) => log.line(LogLevel::Error, "not-unsealed", &[cause(&failure)]),
        }
    }
}
