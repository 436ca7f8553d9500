//! Stored configuration: the method's identity at the provider, the provider's endpoints, and the
//! metadata of logins.

use crate::credentials::ServiceAccountKey;
use crate::endpoints::CloudService;
use crate::metadata::{OF_ACCOUNTS, OF_INSTANCES, chosen};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::only_copy;
use bulkhead_sdk::rotation::{RotationSettings, RotationTimes};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const KEY: &str = "config";
/// Timer for the rotation of the stored key.
pub(crate) const ROTATION: &str = "rotation";
/// Default lifetime of an identity token, in seconds.
const IDENTITY_TOKEN_TTL: u64 = 3_600;
/// Alias type that uses the role's id.
pub(crate) const ROLE_ID: &str = "role_id";

/// The configuration of a mount. No `Debug`, because it contains a key.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    /// `None` if the method uses another credential.
    pub(crate) credentials: Option<ServiceAccountKey>,
    /// Account to impersonate with `identity_token_audience`.
    pub(crate) service_account_email: String,
    pub(crate) identity_token_audience: String,
    /// Seconds; `None` means the default, and is left out of a read, as clients expect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity_token_ttl: Option<u64>,
    /// Empty for the role's id, like the next field.
    pub(crate) iam_alias: String,
    pub(crate) gce_alias: String,
    /// `None` for all fields, like the next field.
    pub(crate) iam_metadata: Option<Vec<String>>,
    pub(crate) gce_metadata: Option<Vec<String>>,
    /// Endpoints as written, by service.
    pub(crate) custom_endpoint: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) rotation: RotationSettings,
    #[serde(flatten)]
    pub(crate) times: RotationTimes,
    /// Id of the key that the last rotation replaced; empty for a key that no rotation made. The
    /// provider may accept the replaced key for some time, so that a login by it proves nothing.
    pub(crate) replaced_key_id: String,
    /// Counter incremented at each write, so that nothing fetched under an older configuration is
    /// used.
    pub(crate) generation: u64,
}

stored!(Config, "config", reads_stored_configs);

/// A service account, and the endpoints that receive its access tokens. Part of stored records:
/// later fields need a default.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyPlace {
    pub(crate) account: String,
    /// As in [`Config::custom_endpoint`].
    pub(crate) endpoints: BTreeMap<String, String>,
}

/// A key that a rotation made. Part of stored records. No `Debug`, because it is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RotatedKey {
    pub(crate) key: ServiceAccountKey,
    /// Id of the key that the rotation replaced; empty if unknown.
    pub(crate) follows: String,
    /// Time of the first use. `None` if the key was never in use.
    pub(crate) rotated: Option<StoreTime>,
}

impl Config {
    /// Returns the configuration, or the defaults if none was written.
    pub(crate) fn find(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Stores the configuration as the next generation and sets the timer of its rotation.
    pub(crate) fn store(mut self, host: &dyn Host) -> Result<(), Failure> {
        self.generation = self.generation.saturating_add(1);
        match self.times.due.filter(|_| self.credentials.is_some()) {
            Some(due) => host.clock().schedule(ROTATION, due, ROTATION)?,
            None => host.clock().cancel(ROTATION)?,
        }
        let rotated = self.credentials.as_ref().filter(|_| self.times.last.is_some());
        let note = |key: &ServiceAccountKey| {
            format!("the key {} of {}", quoted(&key.private_key_id), quoted(&key.client_email))
        };
        only_copy::set_note(host, KEY, rotated.map(note))?;
        host.storage().put(KEY, &self)
    }

    /// Returns the account of the key with the endpoints; `None` without a key.
    pub(crate) fn place(&self) -> Option<KeyPlace> {
        self.credentials.as_ref().map(|key| self.place_of(key))
    }

    /// Returns the account of `key` with the endpoints of this configuration.
    pub(crate) fn place_of(&self, key: &ServiceAccountKey) -> KeyPlace {
        KeyPlace { account: key.client_email.clone(), endpoints: self.custom_endpoint.clone() }
    }

    /// Returns the key if a rotation made it: a key that an operator writes resets the time of the
    /// last rotation.
    pub(crate) fn rotated_key(&self) -> Option<RotatedKey> {
        let (key, rotated) = (self.credentials.clone()?, self.times.last?);
        Some(RotatedKey { key, follows: self.replaced_key_id.clone(), rotated: Some(rotated) })
    }

    /// Puts a key that a rotation made in use.
    ///
    /// # Errors
    /// Internal if the stored schedule does not parse.
    pub(crate) fn set_rotated_key(
        &mut self,
        rotated: RotatedKey,
        now: StoreTime,
    ) -> Result<(), Failure> {
        self.times = self.rotation.rotated_at(rotated.rotated.unwrap_or(now))?;
        self.replaced_key_id = rotated.follows;
        self.credentials = Some(rotated.key);
        Ok(())
    }

    /// Returns the lifetime of identity tokens, in seconds.
    pub(crate) fn identity_token_ttl(&self) -> u64 {
        self.identity_token_ttl.unwrap_or(IDENTITY_TOKEN_TTL)
    }

    /// Returns the base URL of a service without a trailing slash.
    pub(crate) fn base(&self, service: CloudService) -> Result<String, Failure> {
        service.base(&self.custom_endpoint)
    }

    /// Returns the alias type for accounts: `role_id` or `unique_id`.
    pub(crate) fn iam_alias(&self) -> &str {
        if self.iam_alias.is_empty() { ROLE_ID } else { &self.iam_alias }
    }

    /// Returns the alias type for instances: `role_id` or `instance_id`.
    pub(crate) fn gce_alias(&self) -> &str {
        if self.gce_alias.is_empty() { ROLE_ID } else { &self.gce_alias }
    }

    /// Returns the metadata fields shown for an account.
    pub(crate) fn iam_metadata(&self) -> Vec<String> {
        chosen(self.iam_metadata.as_deref(), OF_ACCOUNTS)
    }

    /// Returns the metadata fields shown for an instance.
    pub(crate) fn gce_metadata(&self) -> Vec<String> {
        chosen(self.gce_metadata.as_deref(), OF_INSTANCES)
    }
}
