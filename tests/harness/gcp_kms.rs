//! Cloud KMS of Google Cloud, as a key service of a seal, with the endpoint for access tokens:
//! assertions of service accounts, rights, checksums, and keys with versions, as the provider
//! enforces them. Both endpoints are at one address.
//!
//! ```no_run
//! use bulkhead_tests::gcp_kms::GcpKms;
//!
//! let kms = GcpKms::start();
//! let account = kms.create_account(); // may encrypt and decrypt
//! let credentials = kms.key_file(&account);
//! kms.rotate(); // version 2 encrypts; version 1 still decrypts
//! kms.disable_version(1);
//! # let _ = credentials;
//! ```

mod state;

use crate::key_service::KeyService;
use crate::signer::Signer;
use serde_json::json;
use state::GcpState;
use std::ops::{Deref, DerefMut};

pub use state::{CRYPTO_KEY, KEY_NAME, KEY_RING, LOCATION, PROJECT};

/// A running or killed Cloud KMS with one key.
pub struct GcpKms(KeyService<GcpState>);

impl Deref for GcpKms {
    type Target = KeyService<GcpState>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for GcpKms {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A service account with its key.
#[derive(Clone)]
pub struct Account {
    pub email: String,
    pub signer: Signer,
}

impl GcpKms {
    /// Starts a service over plain HTTP, with one version of its key.
    pub fn start() -> Self {
        Self::with_audience(KeyService::start(GcpState::default()))
    }

    /// Starts a service over TLS, with one version of its key.
    pub fn start_with_tls() -> Self {
        Self::with_audience(KeyService::start_with_tls(GcpState::default()))
    }

    fn with_audience(service: KeyService<GcpState>) -> Self {
        let audience = format!("{}/token", service.url());
        service.state().audience = audience;
        Self(service)
    }

    /// Creates a service account with the rights to encrypt and to decrypt.
    pub fn create_account(&self) -> Account {
        self.state().create_account()
    }

    /// Returns the key file of an account, with this service as the endpoint for tokens.
    pub fn key_file(&self, account: &Account) -> String {
        let file = json!({
            "type": "service_account", "project_id": PROJECT, "client_id": "1",
            "private_key_id": account.signer.kid, "private_key": account.signer.private_pem(),
            "client_email": account.email, "token_uri": self.state().audience,
            "universe_domain": "googleapis.com",
        });
        file.to_string()
    }

    /// Deletes the key of an account: its assertions have an invalid signature.
    pub fn delete_key_of(&self, account: &Account) {
        self.state().account(account).signer = None;
    }

    /// Takes a right, `encrypt` or `decrypt`.
    pub fn deny(&self, account: &Account, verb: &str) {
        self.state().account(account).denied.insert(verb.to_owned());
    }

    /// Adds a version to the key, which encrypts from now on.
    pub fn rotate(&self) {
        self.state().rotate();
    }

    /// Disables a version.
    pub fn disable_version(&self, version: u64) {
        self.state().set_enabled(version, false);
    }

    /// Enables a version.
    pub fn enable_version(&self, version: u64) {
        self.state().set_enabled(version, true);
    }

    /// Destroys the material of a version for ever.
    pub fn destroy_version(&self, version: u64) {
        self.state().destroy(version);
    }

    /// Sets the clock of the service forward, in seconds.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.state().clock_ahead = seconds;
    }

    /// Changes every ciphertext and plaintext after its checksum was computed.
    pub fn damage_answers(&self, damages: bool) {
        self.state().damages = damages;
    }
}

#[cfg(test)]
mod tests;
