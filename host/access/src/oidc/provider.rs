//! The OIDC provider of an open store: work with its keys.
//!
//! This file prevents key creation and signing from occupying all processors. Such work runs one
//! task at a time, outside the worker threads, and concurrent first uses of a key create a single
//! key.

use super::algorithm::TokenAlgorithm;
use super::key_pair::TokenSigningKey;
use super::named_key::{DEFAULT, KeySettings, NamedKey, address};
use crate::background::{BackgroundState, Claims};
use crate::log::Log;
use bulkhead_store::{Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The OIDC provider of an open store.
pub struct OidcProvider {
    pub(super) store: Arc<Store>,
    claims: Arc<Claims>,
    log: Arc<dyn Log>,
    /// Address of this server for clients, if the configuration or the listener gives an address.
    pub(super) address: Option<String>,
    /// Semaphore with a single permit, for creating a key or signing.
    turns: Arc<Semaphore>,
}

impl OidcProvider {
    /// Returns a provider. The first non-empty address is the address of this server for clients.
    pub fn new(work: &BackgroundState, addresses: [&str; 2]) -> Self {
        let said = addresses.into_iter().find(|address| !address.is_empty());
        Self {
            store: Arc::clone(&work.store),
            claims: Arc::clone(&work.claims),
            log: Arc::clone(&work.log),
            address: said.map(str::to_owned),
            turns: Arc::new(Semaphore::new(1)),
        }
    }

    /// Creates a named key that signs from now on.
    ///
    /// # Errors
    /// 500 when the machine's random generator fails.
    pub async fn new_key(&self, settings: KeySettings) -> Result<NamedKey, Failure> {
        let keys = self.make_two(settings.algorithm).await?;
        Ok(NamedKey::new(settings, keys, self.store.now()))
    }

    /// Creates a key.
    pub(super) async fn make(&self, algorithm: TokenAlgorithm) -> Result<TokenSigningKey, Failure> {
        self.compute(move || TokenSigningKey::make(algorithm)).await
    }

    /// Runs `work` outside the worker threads, one task at a time.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| Failure::internal("work with a key ended early"))?
    }

    /// Reads the key with this name. Creates the default key if it is missing.
    ///
    /// # Errors
    /// 412 if another key is missing.
    pub(super) async fn key(&self, name: &str) -> Result<NamedKey, Failure> {
        if let Some(key) = NamedKey::read(&mut self.store.begin(), name).await? {
            return Ok(key);
        }
        if name != DEFAULT {
            let message = format!(
                "there is no key {}; write the key at identity/oidc/key, or tune the mount's \
                 identity_token_key",
                quoted(name)
            );
            return Err(Failure::new(FailureKind::PreconditionFailed, message));
        }
        self.default_key().await
    }

    /// Creates the default key, unless another call created it meanwhile.
    async fn default_key(&self) -> Result<NamedKey, Failure> {
        let _claim = self.claims.claim_in_turn(&address(DEFAULT)).await?;
        let mut unit = self.store.begin();
        if let Some(key) = NamedKey::read(&mut unit, DEFAULT).await? {
            return Ok(key);
        }
        let key = self.new_key(KeySettings::default_settings(DEFAULT)).await?;
        key.put(&mut unit, DEFAULT)?;
        match unit.commit().await {
            // An operator wrote the key meanwhile.
            Err(StoreFault::Conflict) => {
                let written = NamedKey::read(&mut self.store.begin(), DEFAULT).await?;
                written.ok_or_else(|| Failure::internal("the default key vanished"))
            }
            committed => Ok(committed.map(|_| key)?),
        }
    }

    pub(super) fn log_rotation(&self, name: &str) {
        self.log.line(LogLevel::Info, "oidc-key-rotated", &[("key", name.to_owned())]);
    }
}
