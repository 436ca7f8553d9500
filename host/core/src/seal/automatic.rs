//! Opening without people: the automatic seal at the start of the server, and the migration between
//! seals.
//!
//! This file prevents data from losing the only key that opens the data: a seal is replaced in one
//! transaction of the open store, and the shares of the holders stay as they are.

use super::ServiceSeal;
use crate::seal_setting::{SealSetting, StaticSeal, kind_of};
use bulkhead_access::log::cause;
use bulkhead_store::{AutomaticSeal, RekeyOutcome, Store, StoreFault};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

impl ServiceSeal {
    /// Opens the data with the automatic seal of the configuration: for the start of the server.
    /// Does nothing if the configuration has no such seal, if nothing is initialised, or if the
    /// data wait for a migration to the seal of the configuration.
    ///
    /// # Errors
    /// The reason why the service stays sealed, in words for the operator.
    pub async fn open_at_start(&self) -> Result<(), Failure> {
        let _turn = self.turn.lock().await;
        let Some(store) = self.open_store().await? else { return Ok(()) };
        if let Err(failure) = self.check_completeness(&store).await {
            Store::close(&store).await;
            return Err(failure);
        }
        self.renew_static_key(&store).await;
        self.unlock(store).await?;
        Ok(())
    }

    /// Opens the store with the automatic seal of the configuration. `None` as for
    /// [`ServiceSeal::open_at_start`]. The caller holds `turn`.
    pub(super) async fn open_store(&self) -> Result<Option<Arc<Store>>, Failure> {
        let Some(seals) = self.directory.seals().await? else { return Ok(None) };
        let setting = &self.process.settings.seal;
        if setting.differs_from(&seals) {
            let pairs = [
                ("sealed-by", kind_of(&seals).to_owned()),
                ("configured", setting.kind().to_owned()),
                ("remedy", "bulkhead operator unseal -migrate".to_owned()),
            ];
            self.process.settings.log.line(LogLevel::Warn, "seal-migration-awaited", &pairs);
            return Ok(None);
        }
        match (setting, &seals.automatic) {
            (SealSetting::Static(keys), Some(seal)) => self.open_with(keys, seal).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Opens data that were just initialised with an automatic seal. A failure is only logged,
    /// because the caller must get the keys of the initialisation in any case.
    pub(super) async fn open_initialised(&self) {
        let SealSetting::Static(keys) = &self.process.settings.seal else { return };
        let opened = match self.directory.open_automatically(&keys.current.key).await {
            Ok(store) => self.unlock(store).await.map(drop),
            Err(fault) => Err(fault.into()),
        };
        if let Err(failure) = opened {
            self.process.settings.log.line(LogLevel::Error, "not-unsealed", &[cause(&failure)]);
        }
    }

    /// Opens the store with the key that `seal` names.
    async fn open_with(
        &self,
        keys: &StaticSeal,
        seal: &AutomaticSeal,
    ) -> Result<Arc<Store>, Failure> {
        let named = keys.key(&seal.key_id).ok_or_else(|| unknown_key(keys, &seal.key_id))?;
        let opened = self.directory.open_automatically(&named.key).await;
        opened.map_err(|fault| match fault {
            StoreFault::WrongKey => wrong_key(&seal.key_id),
            other => other.into(),
        })
    }

    /// Seals the root key with the current static key, if another key sealed the data.
    async fn renew_static_key(&self, store: &Arc<Store>) {
        let SealSetting::Static(keys) = &self.process.settings.seal else { return };
        let seals = self.directory.seals().await.ok().flatten();
        let Some(seal) = seals.and_then(|seals| seals.automatic) else { return };
        if seal.key_id != keys.current.id {
            self.replace_static_key(store, keys, &seal.key_id).await;
        } else if let Some(previous) = &keys.previous {
            let note = "the data no longer need previous_key; older backups and snapshots do";
            let pairs = [("previous", previous.id.clone()), ("note", note.to_owned())];
            self.process.settings.log.line(LogLevel::Info, "previous-seal-key-unused", &pairs);
        }
    }

    /// Seals the root key with the current key. If this fails, the previous key stays in use until
    /// the next start: an open service matters more than the replacement of its key.
    async fn replace_static_key(&self, store: &Arc<Store>, keys: &StaticSeal, previous: &str) {
        let log = &self.process.settings.log;
        let key = &keys.current.key;
        let named = [("previous", previous.to_owned()), ("current", keys.current.id.clone())];
        let sealed = self.directory.seal_automatically(store, keys.description(), key).await;
        let failure = match sealed {
            Ok(RekeyOutcome::Stored) => {
                let note = "remove previous_key from the configuration; older backups and \
                            snapshots need the key";
                let [previous, current] = named;
                let pairs = [previous, current, ("note", note.to_owned())];
                return log.line(LogLevel::Info, "seal-key-replaced", &pairs);
            }
            Ok(RekeyOutcome::InDoubt(fault)) | Err(fault) => fault,
        };
        let [previous, current] = named;
        log.line(LogLevel::Error, "seal-key-not-replaced", &[previous, current, cause(&failure)]);
    }

    /// Gives the open data the seal of the configuration.
    ///
    /// # Errors
    /// If the change could not be stored: the data keep their seal.
    pub(super) async fn migrate(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let setting = &self.process.settings.seal;
        let outcome = match setting {
            SealSetting::Shamir => self.directory.remove_automatic_seal(store).await?,
            SealSetting::Static(keys) => {
                let (seal, key) = (keys.description(), &keys.current.key);
                self.directory.seal_automatically(store, seal, key).await?
            }
        };
        match outcome {
            RekeyOutcome::Stored => {
                let pairs = [("seal", setting.kind().to_owned())];
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
