//! Opening without people: the automatic seal at the start of the server, and the migration between
//! seals.
//!
//! This file prevents data from losing the only key that opens the data: a seal is replaced in one
//! transaction of the open store, and the shares of the holders stay as they are.

use super::ServiceSeal;
use crate::seal_setting::{SealSetting, StaticSeal, kind_of};
use bulkhead_access::log::cause;
use bulkhead_store::{AutomaticSeal, DataSeals, RekeyOutcome, SealKey, Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use std::time::Duration;

/// Time for which a start waits for the keeper of the key before the server answers sealed.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(5);

/// The key that opens the data, from the automatic seal of the configuration.
pub(super) struct OpeningKey {
    /// The seal of the data.
    seal: AutomaticSeal,
    key: SealKey,
    /// Name of the key that seals new data.
    newest_key_id: String,
}

impl OpeningKey {
    /// Returns the newest key of new data.
    pub(super) fn of_new(seal: AutomaticSeal, key: SealKey) -> Self {
        let newest_key_id = seal.key_id.clone();
        Self { seal, key, newest_key_id }
    }
}

/// The reason why the data were not opened by the seal of the configuration.
pub(super) enum OpeningFault {
    /// The keeper of the key gave no key, or a wrong key.
    Keeper(Failure),
    /// The data, or a key of this machine.
    Local(Failure),
}

impl From<Failure> for OpeningFault {
    fn from(failure: Failure) -> Self {
        Self::Local(failure)
    }
}

impl From<StoreFault> for OpeningFault {
    fn from(fault: StoreFault) -> Self {
        Self::Local(fault.into())
    }
}

impl From<OpeningFault> for Failure {
    fn from(fault: OpeningFault) -> Self {
        match fault {
            OpeningFault::Keeper(failure) | OpeningFault::Local(failure) => failure,
        }
    }
}

impl ServiceSeal {
    /// Opens the data with the automatic seal of the configuration. Does nothing if the
    /// configuration has no such seal, if nothing is initialised, or if the data wait for a
    /// migration to the seal of the configuration.
    ///
    /// # Errors
    /// The reason why the service stays sealed, in words for the operator.
    pub(super) async fn open_by_seal(&self) -> Result<(), OpeningFault> {
        // The keeper of the key may take long, and must not delay the holders of `turn`.
        let Some(opening) = self.opening_key(Duration::MAX).await? else { return Ok(()) };
        let replacement = match opening.seal.key_id == opening.newest_key_id {
            true => None,
            false => Some(self.new_automatic_key().await),
        };
        let _turn = self.turn.lock().await;
        if self.core().is_some() || self.process.ending.has_begun() {
            return Ok(());
        }
        let store = self.open_with(&opening).await?;
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure.into());
        }
        match replacement {
            Some(replacement) => {
                self.replace_seal_key(&store, &opening.seal.key_id, replacement).await;
            }
            None => self.note_unused_key(),
        }
        self.unlock(store).await?;
        Ok(())
    }

    /// Returns the key that opens the data. `None` if the configuration has no automatic seal, if
    /// nothing is initialised, or if the data wait for a migration. A keeper outside of this
    /// machine gets at most `patience`.
    pub(super) async fn opening_key(
        &self,
        patience: Duration,
    ) -> Result<Option<OpeningKey>, OpeningFault> {
        let Some(seals) = self.directory.seals().await? else { return Ok(None) };
        let setting = &self.process.settings.seal;
        if setting.differs_from(&seals) {
            self.log_awaited_migration(&seals);
            return Ok(None);
        }
        let Some(seal) = seals.automatic else { return Ok(None) };
        let (key, newest_key_id) = match setting {
            SealSetting::Shamir => return Ok(None),
            SealSetting::Static(keys) => {
                let named = keys.key(&seal.key_id);
                let named = named.ok_or_else(|| unknown_key(keys, &seal.key_id))?;
                (named.key.clone(), keys.current.id.clone())
            }
            SealSetting::External(external) => {
                let opened = self.ask_keeper(patience, external.open(&seal)).await;
                let opened = opened.map_err(OpeningFault::Keeper)?;
                (opened.key, opened.newest_key_id)
            }
        };
        Ok(Some(OpeningKey { seal, key, newest_key_id }))
    }

    fn log_awaited_migration(&self, seals: &DataSeals) {
        let pairs = [
            ("sealed-by", kind_of(seals).to_owned()),
            ("configured", self.process.settings.seal.kind().to_owned()),
            ("remedy", "bulkhead operator unseal -migrate".to_owned()),
        ];
        self.process.settings.log.line(LogLevel::Warn, "seal-migration-awaited", &pairs);
    }

    /// Opens the store. The caller holds `turn`.
    pub(super) async fn open_with(&self, opening: &OpeningKey) -> Result<Arc<Store>, OpeningFault> {
        let opened = self.directory.open_automatically(&opening.key).await;
        opened.map_err(|fault| match (fault, &self.process.settings.seal) {
            (StoreFault::WrongKey, SealSetting::External(external)) => {
                OpeningFault::Keeper(foreign_key(external.kind()))
            }
            (StoreFault::WrongKey, _) => wrong_key(&opening.seal.key_id).into(),
            (other, _) => other.into(),
        })
    }

    /// Returns a new automatic seal of the configuration and its key, as
    /// [`SealSetting::new_automatic_key`].
    ///
    /// # Errors
    /// A failure of the keeper of the key; 503 if the process ends meanwhile.
    pub(super) async fn new_automatic_key(
        &self,
    ) -> Result<Option<(AutomaticSeal, SealKey)>, Failure> {
        let setting = &self.process.settings.seal;
        self.ask_keeper(Duration::MAX, setting.new_automatic_key()).await
    }

    /// Returns the outcome of an exchange with the keeper of a key, and no later than the end of
    /// the process.
    async fn ask_keeper<T>(
        &self,
        patience: Duration,
        exchange: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            ended = tokio::time::timeout(patience, exchange) => ended.unwrap_or_else(|_| {
                let why = "the key service of the seal has not answered yet";
                Err(Failure::new(FailureKind::TimedOut, why))
            }),
            () = self.process.ending.wait() => {
                Err(Failure::new(FailureKind::Unavailable, "the server stops"))
            }
        }
    }

    /// Opens data that were just initialised with an automatic seal and its key. A failure is only
    /// logged, because the caller must get the keys of the initialisation in any case.
    pub(super) async fn open_initialised(&self, key: &SealKey) {
        let opened = match self.directory.open_automatically(key).await {
            Ok(store) => self.unlock(store).await.map(drop),
            Err(fault) => Err(fault.into()),
        };
        if let Err(failure) = opened {
            self.process.settings.log.line(LogLevel::Error, "not-unsealed", &[cause(&failure)]);
        }
    }

    /// Seals the root key of restored data with the newest key of the seal: the key of the time of
    /// the snapshot may be gone at the next start. A failure is only logged. Returns a warning if
    /// the data do not have the seal of the configuration: a snapshot from before a migration
    /// contains the seal from before.
    pub(super) async fn renew_seal_key(&self, store: &Arc<Store>) -> Option<String> {
        let setting = &self.process.settings.seal;
        let seals = self.directory.seals().await.ok().flatten()?;
        if setting.differs_from(&seals) {
            self.log_awaited_migration(&seals);
            return Some(format!(
                "the restored data have the seal {}, and the configuration asks for {}: at the \
                 next start, and after the next seal, the data need the keys of the snapshot; seal \
                 the server, then type: bulkhead operator unseal -migrate",
                quoted(kind_of(&seals)),
                quoted(setting.kind())
            ));
        }
        let seal = seals.automatic?;
        if matches!(setting, SealSetting::Static(keys) if keys.current.id == seal.key_id) {
            return None;
        }
        let replacement = tokio::time::timeout(START_PATIENCE, self.new_automatic_key()).await;
        let late = |_| {
            let why = "the key service of the seal has not answered";
            Err(Failure::new(FailureKind::TimedOut, why))
        };
        self.replace_seal_key(store, &seal.key_id, replacement.unwrap_or_else(late)).await;
        None
    }

    /// Tells the operator of a static seal that the previous key may go.
    fn note_unused_key(&self) {
        let SealSetting::Static(keys) = &self.process.settings.seal else { return };
        let Some(previous) = &keys.previous else { return };
        let note = "the data no longer need previous_key; older backups and snapshots do";
        let pairs = [("previous", previous.id.clone()), ("note", note.to_owned())];
        self.process.settings.log.line(LogLevel::Info, "previous-seal-key-unused", &pairs);
    }

    /// Seals the root key with the newest key. If this fails, the previous key stays in use until
    /// the next start: an open service matters more than the replacement of its key.
    async fn replace_seal_key(
        &self,
        store: &Arc<Store>,
        previous: &str,
        replacement: Result<Option<(AutomaticSeal, SealKey)>, Failure>,
    ) {
        let (log, setting) = (&self.process.settings.log, &self.process.settings.seal);
        let mut current = String::new();
        let stored = match replacement {
            Ok(Some((seal, key))) => {
                current.clone_from(&seal.key_id);
                self.directory.seal_automatically(store, seal, &key).await.map_err(Failure::from)
            }
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        let previous = ("previous", previous.to_owned());
        let failure = match stored {
            Ok(RekeyOutcome::Stored) => {
                let note = match setting {
                    SealSetting::External(_) => {
                        "older backups and snapshots need the previous version of the key"
                    }
                    _ => {
                        "remove previous_key from the configuration; older backups and snapshots \
                         need the key"
                    }
                };
                let pairs = [previous, ("current", current), ("note", note.to_owned())];
                return log.line(LogLevel::Info, "seal-key-replaced", &pairs);
            }
            Ok(RekeyOutcome::InDoubt(fault)) => fault.into(),
            Err(failure) => failure,
        };
        log.line(LogLevel::Error, "seal-key-not-replaced", &[previous, cause(&failure)]);
    }

    /// Gives the open data the seal of the configuration: `automatic`, or the shares alone.
    ///
    /// # Errors
    /// If the change could not be stored: the data keep their seal.
    pub(super) async fn migrate(
        &self,
        store: &Arc<Store>,
        automatic: Option<(AutomaticSeal, SealKey)>,
    ) -> Result<(), Failure> {
        let outcome = match automatic {
            None => self.directory.remove_automatic_seal(store).await?,
            Some((seal, key)) => self.directory.seal_automatically(store, seal, &key).await?,
        };
        match outcome {
            RekeyOutcome::Stored => {
                let pairs = [("seal", self.process.settings.seal.kind().to_owned())];
                self.process.settings.log.line(LogLevel::Info, "seal-migrated", &pairs);
                Ok(())
            }
            RekeyOutcome::InDoubt(fault) => Err(fault.into()),
        }
    }
}

fn unknown_key(keys: &StaticSeal, id: &str) -> Failure {
    let current = &keys.current.id;
    let previous = match &keys.previous {
        Some(previous) => format!(" and {}", quoted(&previous.id)),
        None => String::new(),
    };
    Failure::internal(format!(
        "the data are sealed with the key {}, and seal \"static\" has {}{previous}; give the key \
         as previous_key with previous_key_id = {}, or, if the key is lost, write seal \"shamir\" \
         {{}} and give the recovery keys to: bulkhead operator unseal -migrate",
        quoted(id),
        quoted(current),
        quoted(id)
    ))
}

fn wrong_key(id: &str) -> Failure {
    Failure::internal(format!(
        "the key {} of seal \"static\" does not open the data: the key has this name and another \
         value, or the data belong to another cluster; give the key that sealed the data, or data \
         and key of one backup",
        quoted(id)
    ))
}

fn foreign_key(kind: &str) -> Failure {
    let message = format!(
        "seal {}: the key service of the seal returned a key that does not open the data; check \
         that the address and the key are those of the initialisation",
        quoted(kind)
    );
    Failure::internal(message).recordable()
}
