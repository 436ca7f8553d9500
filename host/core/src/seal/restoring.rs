//! The replacement of all data by a restored snapshot, while the process goes on.
//!
//! This file prevents a service that keeps anything of the old data in memory: the core is closed
//! as for a seal, and a new core is built from the restored data, after all old work has ended.

#[cfg(test)]
mod tests;

use super::ServiceSeal;
use super::automatic::{OpeningFault, START_PATIENCE};
use crate::core::Core;
use crate::lifecycle;
use crate::restoring::RestoreOutcome;
use bulkhead_access::log::cause;
use bulkhead_store::{PreparedRestore, SnapshotManifest, Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::sync::Arc;

/// Remedy for restored data that nothing in the process opens.
const UNSEAL_HINT: &str = "unseal the server with the keys of the snapshot";

/// The result of opening data without people.
enum Reopening {
    /// The service is open. Holds a warning.
    Open(Option<String>),
    /// Neither the root key in memory nor the seal of the configuration opens the data.
    NoKey,
    /// A request of the replaced service asked for a seal.
    SealAsked,
}

impl ServiceSeal {
    /// Returns true while a restore replaces the data. The service is closed and not sealed.
    pub fn is_restoring(&self) -> bool {
        self.swap.is_under_way()
    }

    /// Replaces the data of the open `core` by the prepared data and opens the restored data: with
    /// the automatic seal of the configuration, or with the root key in memory. Otherwise the
    /// service stays sealed; if another server keeps the key, a task opens the data later.
    ///
    /// # Errors
    /// 503 if the service was sealed meanwhile: nothing was changed. The store's failure if the
    /// data could not be replaced: the service serves the old data again.
    pub async fn restore(
        self: &Arc<Self>,
        core: &Arc<Core>,
        prepared: PreparedRestore,
    ) -> Result<RestoreOutcome, Failure> {
        let _turn = self.turn.lock().await;
        let _swap = self.swap.begin();
        let open = sync::write(&self.open).take_if(|open| Arc::ptr_eq(open, core));
        if open.is_none() {
            let failure = Failure::new(
                FailureKind::Unavailable,
                "the server was sealed before the data were replaced, and nothing was changed; \
                 unseal the server, then restore the snapshot again",
            );
            self.process.settings.log.line(LogLevel::Warn, "not-restored", &[cause(&failure)]);
            return Err(failure);
        }
        lifecycle::stop(core, lifecycle::SEAL_PATIENCE).await;
        self.process.note_change();
        let (manifest, restored_at) = (prepared.manifest().clone(), prepared.restored_at());
        let replaced = self.put_restored(prepared).await;
        // Shares of the old data mean nothing for the restored data.
        sync::lock(&self.unsealing).take();
        let opened = self.open_without_people(core).await;
        if matches!(opened, Err(OpeningFault::Keeper(_))) && !core.seal_is_asked() {
            self.open_later();
        }
        match replaced {
            // The opening may have completed a replacement that failed before.
            Err(fault) if !self.has_data_restored_at(restored_at).await => {
                self.log_failure(&fault, opened);
                Err(fault.into())
            }
            _ => Ok(self.conclude(&manifest, opened)),
        }
    }

    /// Replaces the closed database. The removal and the renames of large files may take long, and
    /// must not delay other work.
    async fn put_restored(&self, prepared: PreparedRestore) -> Result<(), StoreFault> {
        let directory = Arc::clone(&self.directory);
        let replaced = tokio::task::spawn_blocking(move || directory.put_restored(prepared)).await;
        replaced.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the replacement of the data was interrupted; look into the log, and start the \
                 server again"
                    .to_owned(),
            ))
        })
    }

    /// Returns whether the present data were restored at this store time.
    async fn has_data_restored_at(&self, restored_at: u64) -> bool {
        let restored = match self.core() {
            Some(core) => core.store.restored(),
            None => self.directory.restored().await.unwrap_or_default(),
        };
        restored == Some(restored_at)
    }

    /// Opens the present data with the root key of `previous`, or with the seal of the
    /// configuration, unless a request of `previous` asked for a seal.
    async fn open_without_people(&self, previous: &Core) -> Result<Reopening, OpeningFault> {
        if previous.seal_is_asked() {
            return Ok(Reopening::SealAsked);
        }
        let store = match self.directory.open_like(&previous.store).await {
            Ok(store) => store,
            Err(StoreFault::WrongKey) => match self.opening_key(START_PATIENCE).await? {
                Some(opening) => self.open_with(&opening).await?,
                None => return Ok(Reopening::NoKey),
            },
            Err(fault) => return Err(fault.into()),
        };
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure.into());
        }
        let warning = self.renew_seal_key(&store).await;
        let core = self.unlock_without_due_work(store).await?;
        // All requests of the replaced service have ended.
        if previous.seal_is_asked() {
            self.close_locked(|_| true, lifecycle::SEAL_PATIENCE).await;
            return Ok(Reopening::SealAsked);
        }
        self.begin_work(&core);
        Ok(Reopening::Open(warning))
    }

    /// Logs the restore, and returns its outcome.
    fn conclude(
        &self,
        manifest: &SnapshotManifest,
        opened: Result<Reopening, OpeningFault>,
    ) -> RestoreOutcome {
        let outcome = match opened {
            Ok(Reopening::Open(warning)) => RestoreOutcome::Open(warning),
            Ok(Reopening::NoKey) => RestoreOutcome::Sealed(format!(
                "the data were restored, and no key in the server opens the data: {UNSEAL_HINT}"
            )),
            Ok(Reopening::SealAsked) => RestoreOutcome::Sealed(format!(
                "the data were restored, and another request sealed the server meanwhile: \
                 {UNSEAL_HINT}"
            )),
            Err(fault) => RestoreOutcome::Sealed(format!(
                "the data were restored and are sealed: {}",
                Failure::from(fault).message
            )),
        };
        let level = match &outcome {
            RestoreOutcome::Open(None) => LogLevel::Info,
            _ => LogLevel::Warn,
        };
        let mut pairs = vec![
            ("cluster", manifest.cluster_id.clone()),
            ("taken-at", manifest.taken_at.clone()),
            ("records", manifest.records.to_string()),
            ("replaced-data", self.directory.replaced_data()),
            ("sealed", matches!(outcome, RestoreOutcome::Sealed(_)).to_string()),
        ];
        if let RestoreOutcome::Sealed(reason) | RestoreOutcome::Open(Some(reason)) = &outcome {
            pairs.push(("reason", reason.clone()));
        }
        self.process.settings.log.line(level, "restored", &pairs);
        outcome
    }

    /// Logs a restore that did not replace the data, and the failure to open the old data again.
    fn log_failure(&self, fault: &StoreFault, opened: Result<Reopening, OpeningFault>) {
        let log = &self.process.settings.log;
        log.line(LogLevel::Error, "not-restored", &[cause(fault)]);
        let why = match opened {
            Ok(Reopening::Open(_) | Reopening::SealAsked) => return,
            Ok(Reopening::NoKey) => cause(&StoreFault::WrongKey),
            Err(fault) => cause(&Failure::from(fault)),
        };
        log.line(LogLevel::Error, "not-unsealed", &[why]);
    }
}
