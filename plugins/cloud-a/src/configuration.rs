//! The stored configuration, and the timer of its next rotation.

use crate::delay::RetryDelay;
use crate::rotated_secret::{FormerSecret, RotatedSecret, SecretPlace};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::only_copy;
use bulkhead_sdk::rotation::{self, RotationTimes};
use bulkhead_sdk::wire::failure::quoted;
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
    /// Application of a secret made by a rotation. `None` for any other secret, and if an earlier
    /// release made the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_place: Option<SecretPlace>,
    /// The secret that the rotation replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former_secret: Option<FormerSecret>,
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
            secret_place: None,
            former_secret: None,
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
        let secret = format!(
            "the client secret {} of application {}",
            quoted(&self.secret_key_id),
            quoted(&self.client_id)
        );
        only_copy::set_note(host, KEY, self.rotated_secret().map(|_| secret))?;
        host.storage().put(KEY, self)
    }

    /// Returns the secret if a rotation made it.
    pub(crate) fn rotated_secret(&self) -> Option<RotatedSecret> {
        (!self.secret_key_id.is_empty()).then(|| RotatedSecret {
            secret: self.client_secret.clone(),
            key_id: self.secret_key_id.clone(),
            expires: self.secret_expires,
            former: self.former_secret.clone(),
        })
    }

    /// Puts a secret that a rotation made in force.
    pub(crate) fn set_rotated_secret(&mut self, rotated: RotatedSecret, place: SecretPlace) {
        self.client_secret = rotated.secret;
        self.secret_key_id = rotated.key_id;
        self.secret_expires = rotated.expires;
        self.former_secret = rotated.former;
        self.secret_place = Some(place);
        self.generation = self.generation.saturating_add(1);
        self.writes = self.writes.saturating_add(1);
    }

    /// Marks the secret as one that no rotation made.
    pub(crate) fn clear_rotation(&mut self) {
        self.secret_key_id = String::new();
        (self.secret_expires, self.secret_place, self.former_secret) = (None, None, None);
    }
}

/// Formats a store time in UTC, in whole seconds.
pub(crate) fn rfc3339(at: StoreTime) -> Option<String> {
    let seconds = i64::try_from(at / 1_000).ok()?;
    OffsetDateTime::from_unix_timestamp(seconds).ok()?.format(&Rfc3339).ok()
}
