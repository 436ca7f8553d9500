//! The stored configuration, and the timer of its next rotation.

use crate::delay::RetryDelay;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::rotation::{self, RotationTimes};
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Storage key of the configuration.
pub(crate) const KEY: &str = "config";
/// Timer that starts the rotation of the client secret.
pub(crate) const DUE: &str = "root";
/// Default lifetime of a rotated secret, in seconds: half a year.
const ROOT_PASSWORD_TTL: u64 = 15_768_000;

/// The configuration of a mount. No `Debug`, because it contains a secret.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) tenant_id: String,
    pub(crate) resource: String,
    /// The cloud's name as written. If empty, the server's environment decides, then the public
    /// cloud.
    pub(crate) environment: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) identity_token_audience: String,
    /// Seconds.
    pub(crate) identity_token_ttl: u64,
    /// Seconds.
    pub(crate) root_password_ttl: u64,
    pub(crate) max_retries: i64,
    pub(crate) retry_delay: RetryDelay,
    pub(crate) max_retry_delay: RetryDelay,
    #[serde(flatten)]
    pub(crate) rotation: rotation::RotationSettings,
    #[serde(flatten)]
    pub(crate) times: RotationTimes,
    /// The provider's id of a secret made by a rotation; empty for any other secret.
    pub(crate) secret_key_id: String,
    /// End of a secret made by a rotation.
    pub(crate) secret_expires: Option<StoreTime>,
    /// Counter incremented at each change of the credential.
    pub(crate) generation: u64,
    /// Counter incremented at each write. Keys and tokens cached before a write are not used
    /// afterwards.
    #[serde(default)]
    pub(crate) writes: u64,
}

stored!(Config, "config", reads_stored_configurations);

impl Default for Config {
    fn default() -> Self {
        Self {
            tenant_id: String::new(),
            resource: String::new(),
            environment: String::new(),
            client_id: String::new(),
            client_secret: String::new(),
            identity_token_audience: String::new(),
            identity_token_ttl: 3_600,
            root_password_ttl: ROOT_PASSWORD_TTL,
            max_retries: 3,
            retry_delay: RetryDelay(4_000),
            max_retry_delay: RetryDelay(60_000),
            rotation: rotation::RotationSettings::default(),
            times: RotationTimes::default(),
            secret_key_id: String::new(),
            secret_expires: None,
            generation: 0,
            writes: 0,
        }
    }
}

impl Config {
    /// Returns the stored configuration, if any.
    pub(crate) fn find(host: &dyn Host) -> Result<Option<Self>, Failure> {
        host.storage().get(KEY)
    }

    /// Stores the configuration and sets the timer of its next rotation.
    pub(crate) fn store(&self, host: &dyn Host) -> Result<(), Failure> {
        match self.times.due {
            Some(at) => host.clock().schedule(DUE, at, DUE)?,
            None => host.clock().cancel(DUE)?,
        }
        host.storage().put(KEY, self)
    }
}

/// Formats a store time in UTC, in whole seconds.
pub(crate) fn rfc3339(at: StoreTime) -> Option<String> {
    let seconds = i64::try_from(at / 1_000).ok()?;
    OffsetDateTime::from_unix_timestamp(seconds).ok()?.format(&Rfc3339).ok()
}
