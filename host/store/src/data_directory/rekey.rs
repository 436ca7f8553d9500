//! Changes of the seals of the root key while the store serves requests: a rekey, which gives the
//! holders another key, and a new, replaced or removed automatic seal.
//!
//! This file prevents data that no key opens, and data that two sets of shares open. The root key
//! sealed by the new key and its description replace the old ones in a single transaction; the root
//! key itself, the keyring and all records stay.
//!
//! A change replaces exactly the seals that this process read, and a rekey the seal of the holders
//! whose key was proven: if another node of a shared database changed a seal meanwhile, nothing is
//! stored.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::DataDirectory;
use crate::identity::{self, StoreIdentity};
use crate::store::Store;
use bulkhead_place::write_failure::{IdentityFailure, TransactionOutcome};
use bulkhead_record::cipher::SealKey;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::MetaChange;
use bulkhead_record::root_seals::{AutomaticRoot, AutomaticSeal, HolderSeal};
use bulkhead_record::shamir::SealConfig;

/// The outcome of a change of a seal.
#[derive(Debug)]
pub enum RekeyOutcome {
    /// Only the new key opens the data.
    Stored,
    /// The disk failed while the new key was stored, or the database server did not say whether the
    /// key is stored: either key may open the data, and the next opening tells. Holds the fault.
    InDoubt(StoreFault),
}

/// A change of one of the two seals of the root key. The other seal stays.
enum SealChange {
    Holders(HolderSeal),
    /// `None` removes the automatic seal.
    Automatic(Option<AutomaticRoot>),
}

impl SealChange {
    fn rows(&self) -> Vec<MetaChange> {
        match self {
            SealChange::Holders(holders) => identity::holders_rows(Some(holders)),
            SealChange::Automatic(seal) => identity::automatic_rows(seal.as_ref()),
        }
    }

    /// Returns the rows that the change relies on. `proven` is the seal of the holders whose key
    /// was proven, if any.
    fn replaced(&self, present: &StoreIdentity, proven: Option<&HolderSeal>) -> Vec<MetaChange> {
        match self {
            SealChange::Holders(_) => identity::holders_rows(proven.or(present.holders())),
            SealChange::Automatic(_) => identity::seal_rows(present.holders(), present.automatic()),
        }
    }

    fn is_in(&self, identity: &StoreIdentity) -> bool {
        match self {
            SealChange::Holders(holders) => identity.holders() == Some(holders),
            SealChange::Automatic(seal) => identity.automatic() == seal.as_ref(),
        }
    }
}

impl DataDirectory {
    /// Returns `true` if one of `keys` is the key of the holders of the open `store`. The caller
    /// prevents a rekey of this process meanwhile; [`DataDirectory::rekey`] refuses to replace the
    /// key of a later rekey of another node.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read; [`StoreFault::Refused`] if a
    /// part of the identity is damaged.
    pub async fn has_unseal_key(
        &self,
        store: &Store,
        keys: Vec<SealKey>,
    ) -> Result<bool, StoreFault> {
        if keys.is_empty() {
            return Ok(false);
        }
        let identity = self.identity_of(store).await?;
        for key in keys {
            match identity.open(&key, &self.name()) {
                Ok(_) => {
                    if let Some(properties) = self.properties() {
                        properties.note_proven(identity.holders().cloned());
                    }
                    return Ok(true);
                }
                Err(StoreFault::WrongKey) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(false)
    }

    /// Replaces the key of the holders of the open `store` by `key`, which the caller splits by
    /// `config` ([`crate::split`]). The old key opens nothing afterwards. The rekey continues if
    /// the caller goes away. One change of a seal at a time.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if `config` breaks the rules of [`SealConfig::new`];
    /// [`StoreFault::Unavailable`] if the new key could not be stored, or another node changed the
    /// key meanwhile: the present key stays in use.
    pub async fn rekey(
        self: &Arc<Self>,
        store: &Arc<Store>,
        config: SealConfig,
        key: &SealKey,
    ) -> Result<RekeyOutcome, StoreFault> {
        let config = config.validate()?;
        let sealed = store.seal().seal_for_holders(config, key)?;
        self.change_in_task(store, SealChange::Holders(sealed)).await
    }

    /// Gives the data of the open `store` this automatic seal, with its key, instead of the present
    /// automatic seal, if any. Runs like [`DataDirectory::rekey`].
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the seal could not be stored: the present seals stay in use.
    pub async fn seal_automatically(
        self: &Arc<Self>,
        store: &Arc<Store>,
        seal: AutomaticSeal,
        key: &SealKey,
    ) -> Result<RekeyOutcome, StoreFault> {
        let sealed = store.seal().seal_automatically(seal, key)?;
        self.change_in_task(store, SealChange::Automatic(Some(sealed))).await
    }

    /// Removes the automatic seal: afterwards only the shares of the holders open the data. Runs
    /// like [`DataDirectory::rekey`].
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if nobody holds shares; [`StoreFault::Unavailable`] if the change
    /// could not be stored: the present seals stay in use.
    pub async fn remove_automatic_seal(
        self: &Arc<Self>,
        store: &Arc<Store>,
    ) -> Result<RekeyOutcome, StoreFault> {
        if self.identity_of(store).await?.holders().is_none() {
            return Err(StoreFault::Refused(
                "nobody holds a share of a key, and without the automatic seal nothing would open \
                 the data; leave the automatic seal in the configuration"
                    .into(),
            ));
        }
        self.change_in_task(store, SealChange::Automatic(None)).await
    }

    async fn change_in_task(
        self: &Arc<Self>,
        store: &Arc<Store>,
        change: SealChange,
    ) -> Result<RekeyOutcome, StoreFault> {
        let (directory, store) = (Arc::clone(self), Arc::clone(store));
        let task = tokio::spawn(async move { directory.change_seal(&store, change).await });
        task.await.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the change of the seal was stopped half-way; look at the seal's status".into(),
            ))
        })
    }

    async fn change_seal(
        &self,
        store: &Store,
        change: SealChange,
    ) -> Result<RekeyOutcome, StoreFault> {
        let present = self.identity_of(store).await?;
        let proven = self.properties().and_then(|properties| properties.proven());
        let replaced = change.replaced(&present, proven.as_ref());
        let written = store.database().replace_identity(&replaced, change.rows()).await;
        // If the answer was lost, the result is looked up: without it the caller could not tell
        // which shares to keep.
        let (seals, outcome) = match (written, self.identity_of(store).await) {
            (Ok(TransactionOutcome::Conflict), _) => return Err(changed_meanwhile()),
            (Ok(TransactionOutcome::Committed), Ok(stored)) => {
                (Some(stored.seals()), RekeyOutcome::Stored)
            }
            (Ok(TransactionOutcome::Committed), Err(_)) => (None, RekeyOutcome::Stored),
            (Err(_), Ok(stored)) if change.is_in(&stored) => {
                (Some(stored.seals()), RekeyOutcome::Stored)
            }
            (Err(IdentityFailure::Undone(fault)), Ok(_))
                if store.database().stopped().is_none() =>
            {
                return Err(fault);
            }
            (Err(failure), _) => (None, RekeyOutcome::InDoubt(failure.into())),
        };
        if let Some(properties) = self.properties() {
            properties.note_seals(seals);
            if let (SealChange::Holders(_), RekeyOutcome::Stored) = (&change, &outcome) {
                properties.note_proven(None);
            }
        }
        Ok(outcome)
    }

    async fn identity_of(&self, store: &Store) -> Result<StoreIdentity, StoreFault> {
        let rows = store.database().identity_rows().await?;
        StoreIdentity::of_rows(&rows, &self.name())
    }
}

fn changed_meanwhile() -> StoreFault {
    StoreFault::Unavailable(
        "another node changed the seals of the data meanwhile; nothing was stored; look at the \
         seal's status, and begin again with the present shares"
            .to_owned(),
    )
}
