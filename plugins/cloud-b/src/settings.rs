//! Stored configuration: the method's identity at the provider, the provider's endpoints, and the
//! metadata of logins.

use crate::credentials::ServiceAccountKey;
use crate::endpoints::CloudService;
use crate::metadata::{OF_ACCOUNTS, OF_INSTANCES, chosen};
use bulkhead_sdk::rotation::{RotationSettings, RotationTimes};
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
    /// Counter incremented at each write, so that nothing fetched under an older configuration is
    /// used.
    pub(crate) generation: u64,
}

stored!(Config, "config", reads_stored_configs);

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
        host.storage().put(KEY, &self)
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
