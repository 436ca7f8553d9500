//! The key management service of AWS, as a key service of a seal: signatures of version 4, access
//! keys with their rights, and keys with states and rotations, as the provider enforces them.
//!
//! ```no_run
//! use bulkhead_tests::aws_kms::AwsKms;
//!
//! let kms = AwsKms::start();
//! let credentials = kms.issue(); // may encrypt and decrypt with every key
//! let key = kms.create_key();
//! kms.point_alias("alias/bulkhead", &key);
//! kms.rotate(&key); // new material behind the same ARN
//! kms.disable(&key);
//! # let _ = credentials;
//! ```

mod signature;
mod state;

use crate::key_service::KeyService;
use state::{KeyState, KmsState};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub use state::{Credentials, REGION};

/// A running or killed key management service.
pub struct AwsKms(KeyService<KmsState>);

impl Deref for AwsKms {
    type Target = KeyService<KmsState>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for AwsKms {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl AwsKms {
    /// Starts a service over plain HTTP, without a key.
    pub fn start() -> Self {
        Self(KeyService::start(KmsState::default()))
    }

    /// Starts a service over TLS, without a key.
    pub fn start_with_tls() -> Self {
        Self(KeyService::start_with_tls(KmsState::default()))
    }

    /// Issues an access key without an end.
    pub fn issue(&self) -> Credentials {
        self.state().issue(false)
    }

    /// Issues an access key with a session token.
    pub fn issue_temporary(&self) -> Credentials {
        self.state().issue(true)
    }

    /// Deletes an access key.
    pub fn delete(&self, credentials: &Credentials) {
        let removed = self.state().users.remove(&credentials.access_key);
        removed.expect("an access key of this service");
    }

    /// Ends the session of temporary credentials.
    pub fn expire(&self, credentials: &Credentials) {
        self.state().user(credentials).is_expired = true;
    }

    /// Takes the right to an operation, such as `Encrypt`.
    pub fn deny(&self, credentials: &Credentials, operation: &str) {
        self.state().user(credentials).denied.insert(operation.to_owned());
    }

    /// Creates a symmetric key, and returns its ARN.
    pub fn create_key(&self) -> String {
        self.state().create_key()
    }

    /// Creates or moves an alias.
    pub fn point_alias(&self, alias: &str, arn: &str) {
        self.state().aliases.insert(alias.to_owned(), arn.to_owned());
    }

    /// Adds material to a key, which encrypts from now on. The old material still decrypts.
    pub fn rotate(&self, arn: &str) {
        self.state().key(arn).rotate();
    }

    /// Disables a key.
    pub fn disable(&self, arn: &str) {
        self.state().key(arn).state = KeyState::Disabled;
    }

    /// Enables a key, also one that was to be deleted.
    pub fn enable(&self, arn: &str) {
        self.state().key(arn).state = KeyState::Enabled;
    }

    /// Schedules the deletion of a key.
    pub fn schedule_deletion(&self, arn: &str) {
        self.state().key(arn).state = KeyState::PendingDeletion;
    }

    /// Deletes a key for ever.
    pub fn lose_key(&self, arn: &str) {
        self.state().keys.remove(arn).expect("a key of this service");
    }

    /// Sets the clock of the service forward.
    pub fn set_clock_ahead(&self, time: Duration) {
        self.state().clock_ahead = time;
    }

    /// Moves the service with its keys to another region.
    pub fn move_to_region(&self, region: &str) {
        self.state().region = region.to_owned();
    }
}

#[cfg(test)]
mod tests;
