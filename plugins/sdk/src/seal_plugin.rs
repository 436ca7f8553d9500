//! The contract of a seal plugin: the types of `wit/seal.wit` in Rust, and the trait that a plugin
//! implements.
//!
//! A seal plugin keeps nothing between calls. The plugin runs before any data are open, so that
//! HTTP to the origins of its addresses, the time, signatures and the operator's log are its whole
//! view of the host.

use crate::database_plugin::StoreTime;
use crate::host::{Http, Log};
use bulkhead_wire::description::SealDescription;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};

/// The settings of a seal: a JSON object whose names stand in the description.
pub type SealSettings = Map<String, Value>;

/// A seal key as the service wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The service's key that wrapped the seal key: 1 to 256 bytes of printable ASCII.
    pub key_id: String,
    /// The wrapped key, 1 byte to 64 KiB.
    pub blob: Vec<u8>,
}

/// An unwrapped seal key. No `Debug`: the key is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenedKey {
    /// The seal key.
    pub key: Vec<u8>,
    /// The newest key of the service.
    pub newest_key_id: String,
}

/// The system's clock, for the times of signatures. No store corrects the clock before the data are
/// open.
pub trait SystemClock {
    /// Returns milliseconds since 1970.
    fn now(&self) -> StoreTime;
}

/// Signatures with a private key of the settings.
pub trait KeySigner {
    /// Signs the message by an algorithm with its JOSE name, such as `RS256`.
    ///
    /// # Errors
    /// Invalid request for an unreadable key.
    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure>;
}

/// A seal plugin's view of the host.
pub trait SealHost: Http + Log + SystemClock + KeySigner {}

impl<H: Http + Log + SystemClock + KeySigner> SealHost for H {}

/// A seal plugin. The contract of each function is in `wit/seal.wit`.
pub trait SealPlugin {
    /// Returns the static facts: name, version, and the settings.
    fn description() -> SealDescription;

    /// Wraps a seal key of 32 bytes with the newest key of the service.
    ///
    /// # Errors
    /// The refusal of the settings or of the service, with the remedy, and without a secret.
    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure>;

    /// Unwraps a blob of [`wrap_key`](Self::wrap_key).
    ///
    /// # Errors
    /// As `wrap_key`; also if the service returns a key of another length.
    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure>;

    /// Renews the plugin's own credentials. Returns the seconds until the next renewal, at least 1;
    /// `None` if the credentials never need another renewal.
    ///
    /// # Errors
    /// As `wrap_key`.
    fn renew_credentials(
        host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure>;

    /// Checks that the service would wrap a key now.
    ///
    /// # Errors
    /// As `wrap_key`.
    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure>;
}
