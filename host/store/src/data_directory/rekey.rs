//! Rekey: another unseal key, split into other shares, while the store serves requests.
//!
//! This file prevents data that no set of shares opens, and data that two sets open. The root key
//! sealed by the new unseal key and the new split replace the old ones in a single transaction; the
//! root key itself, the keyring and all records stay.

use std::sync::Arc;

use bulkhead_wire::sync;
use sqlx::sqlite::SqliteConnection;

use super::DataDirectory;
use crate::cipher::SealKey;
use crate::fault::StoreFault;
use crate::identity::{self, StoreIdentity};
use crate::shamir::SealConfig;
use crate::sqlite::TransactionOutcome;
use crate::store::Store;

/// The outcome of a rekey.
#[derive(Debug)]
pub enum RekeyOutcome {
    /// Only the new key opens the data.
    Stored,
    /// The disk failed while the new key was stored: either key may open the data, and the next
    /// opening tells. Holds the fault.
    InDoubt(StoreFault),
}

impl DataDirectory {
    /// Returns `true` if one of `keys` is the unseal key of the open `store`. The caller prevents a
    /// rekey meanwhile.
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
            match identity.open(&key, self.path()) {
                Ok(_) => return Ok(true),
                Err(StoreFault::WrongKey) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(false)
    }

    /// Replaces the unseal key of the open `store` by `key`, which the caller splits by `config`
    /// ([`crate::split`]). The old key opens nothing afterwards. The rekey continues if the caller
    /// goes away. One rekey at a time.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if `config` breaks the rules of [`SealConfig::new`];
    /// [`StoreFault::Unavailable`] if the new key could not be stored: the old key stays in use.
    pub async fn rekey(
        self: &Arc<Self>,
        store: &Arc<Store>,
        config: SealConfig,
        key: &SealKey,
    ) -> Result<RekeyOutcome, StoreFault> {
        let config = config.validate()?;
        let sealed = store.seal().reseal_root(key, config)?;
        let (directory, store) = (Arc::clone(self), Arc::clone(store));
        let task =
            tokio::spawn(async move { directory.replace_root(&store, config, sealed).await });
        task.await.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the rekey was stopped half-way; look at the seal's status".into(),
            ))
        })
    }

    async fn replace_root(
        &self,
        store: &Store,
        config: SealConfig,
        sealed: Vec<u8>,
    ) -> Result<RekeyOutcome, StoreFault> {
        let replace = async |connection: &mut SqliteConnection| {
            identity::replace_root(connection, &sealed, config).await?;
            Ok(TransactionOutcome::Committed)
        };
        let (config, outcome) = match store.database().write(replace).await {
            Ok(()) => (Some(config), RekeyOutcome::Stored),
            // If the answer was lost, the result is looked up: without it the caller could not
            // tell which shares to keep.
            Err(fault) => match self.identity_of(store).await {
                Ok(identity) if identity.sealed_root() == sealed => {
                    (Some(config), RekeyOutcome::Stored)
                }
                Ok(_) if store.database().stopped().is_none() => return Err(fault),
                _ => (None, RekeyOutcome::InDoubt(fault)),
            },
        };
        if let Some(properties) = self.known.get() {
            *sync::write(&properties.config) = config;
        }
        Ok(outcome)
    }

    async fn identity_of(&self, store: &Store) -> Result<StoreIdentity, StoreFault> {
        let read = async |connection: &mut SqliteConnection| {
            identity::read_rows(connection, self.path()).await
        };
        store.database().readers().read(read).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ScratchDirectory, body, data, edit, put};

    const TWO_OF_THREE: SealConfig = SealConfig { shares: 3, threshold: 2 };

    fn key(byte: u8) -> SealKey {
        SealKey::from_bytes([byte; 32])
    }

    async fn opened() -> (ScratchDirectory, Arc<DataDirectory>, Arc<Store>) {
        let scratch = ScratchDirectory::new();
        let directory = scratch.hold().await;
        directory.initialise(SealConfig::SINGLE, &key(1), |_| Ok(Vec::new())).await.unwrap();
        let store = directory.open(key(1)).await.unwrap();
        put(&store, data("a"), "1").await;
        (scratch, directory, store)
    }

    #[tokio::test]
    async fn rekey_leaves_only_new_key_and_keeps_data() {
        let (_scratch, directory, store) = opened().await;
        assert!(directory.has_unseal_key(&store, vec![key(2), key(1)]).await.unwrap());
        directory.rekey(&store, TWO_OF_THREE, &key(2)).await.unwrap();
        assert_eq!(directory.seal_config().await, Ok(Some(TWO_OF_THREE)));
        assert!(!directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
        assert!(directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
        store.rotate().await.unwrap();
        store.close().await;
        assert!(matches!(directory.open(key(1)).await.map(drop), Err(StoreFault::WrongKey)));
        let store = directory.open(key(2)).await.unwrap();
        assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    }

    #[tokio::test]
    async fn rekey_that_cannot_be_stored_keeps_old_key() {
        let (_scratch, directory, store) = opened().await;
        let trigger = "CREATE TRIGGER no BEFORE UPDATE ON meta WHEN new.name = 'root' \
             BEGIN SELECT RAISE(ABORT, 'no'); END";
        edit(&store, trigger).await;
        let failed = directory.rekey(&store, TWO_OF_THREE, &key(2)).await;
        assert!(matches!(failed, Err(StoreFault::Unavailable(_))), "{failed:?}");
        assert_eq!(directory.seal_config().await, Ok(Some(SealConfig::SINGLE)));
        assert!(directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
        assert!(!directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
        edit(&store, "DROP TRIGGER no").await;
        directory.rekey(&store, TWO_OF_THREE, &key(2)).await.unwrap();
    }

    #[tokio::test]
    async fn rekey_continues_after_caller_leaves() {
        let (_scratch, directory, store) = opened().await;
        {
            let key = key(2);
            let mut rekey = Box::pin(directory.rekey(&store, TWO_OF_THREE, &key));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(rekey.as_mut().poll(&mut context).is_pending());
        }
        // The writes of a store are made one after another.
        while directory.seal_config().await != Ok(Some(TWO_OF_THREE)) {
            tokio::task::yield_now().await;
        }
        assert!(directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
    }

    #[tokio::test]
    async fn invalid_share_split_is_refused_without_change() {
        let (_scratch, directory, store) = opened().await;
        for (shares, threshold) in [(5, 1), (2, 3), (0, 0)] {
            let refused = directory.rekey(&store, SealConfig { shares, threshold }, &key(2)).await;
            assert!(matches!(refused, Err(StoreFault::Refused(_))), "{refused:?}");
        }
        assert!(directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
    }
}
