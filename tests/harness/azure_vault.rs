//! Key Vault of Azure, as a key service of a seal, with the endpoint of its directory for access
//! tokens: secrets of applications, audiences, rights, and RSA keys with versions, as the provider
//! enforces them. Both endpoints are at one address.
//!
//! ```no_run
//! use bulkhead_tests::azure_vault::AzureVault;
//!
//! let vault = AzureVault::start();
//! let application = vault.register(); // may get the key, wrap and unwrap
//! vault.rotate(); // version 2 wraps; version 1 still unwraps
//! vault.disable_version(1);
//! # let _ = application;
//! ```

mod state;

use crate::key_service::KeyService;
use state::VaultState;
use std::ops::{Deref, DerefMut};

pub use state::{Application, KEY, TENANT};

/// A running or killed vault with one key.
pub struct AzureVault(KeyService<VaultState>);

impl Deref for AzureVault {
    type Target = KeyService<VaultState>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for AzureVault {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl AzureVault {
    /// Starts a vault over plain HTTP, with one version of its key.
    pub fn start() -> Self {
        Self(KeyService::start(VaultState::default()))
    }

    /// Starts a vault over TLS, with one version of its key.
    pub fn start_with_tls() -> Self {
        Self(KeyService::start_with_tls(VaultState::default()))
    }

    /// Registers an application with the rights to get the key, to wrap and to unwrap.
    pub fn register(&self) -> Application {
        self.state().register()
    }

    /// Ends the secret of an application.
    pub fn expire(&self, application: &Application) {
        self.state().registration(application).is_expired = true;
    }

    /// Takes a right: `get`, `wrapkey` or `unwrapkey`.
    pub fn deny(&self, application: &Application, operation: &str) {
        self.state().registration(application).denied.insert(operation.to_owned());
    }

    /// Adds a version to the key, which wraps from now on.
    pub fn rotate(&self) {
        self.state().rotate();
    }

    /// Disables a version.
    pub fn disable_version(&self, version: usize) {
        self.state().version(version).is_enabled = false;
    }

    /// Enables a version.
    pub fn enable_version(&self, version: usize) {
        self.state().version(version).is_enabled = true;
    }

    /// Deletes a version for ever.
    pub fn lose_version(&self, version: usize) {
        self.state().version(version).is_lost = true;
    }
}

#[cfg(test)]
mod tests;
