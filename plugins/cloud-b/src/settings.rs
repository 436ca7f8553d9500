//! The configuration as it is stored: who the method is towards the provider, where the provider
//! is, and what of a login is shown.

use crate::credentials::Credentials;
use crate::endpoints::Service;
use crate::metadata::{OF_ACCOUNTS, OF_INSTANCES, chosen};
use bulkhead_sdk::rotation::{Settings, Times};
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const KEY: &str = "config";
/// The timer of the rotation of the stored key.
pub(crate) const ROTATION: &str = "rotation";
/// The id of a role as the name of an alias.
pub(crate) const ROLE_ID: &str = "role_id";

/// A configuration. No `Debug`: it holds a key.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    /// `None` where another way to the provider is used.
    pub(crate) credentials: Option<Credentials>,
    /// Whom the method is to act as by `identity_token_audience`.
    pub(crate) service_account_email: String,
    pub(crate) identity_token_audience: String,
    /// Seconds.
    pub(crate) identity_token_ttl: u64,
    /// Empty for the role's id, as below.
    pub(crate) iam_alias: String,
    pub(crate) gce_alias: String,
    /// `None` for all that there is, as below.
    pub(crate) iam_metadata: Option<Vec<String>>,
    pub(crate) gce_metadata: Option<Vec<String>>,
    /// As they were written, by the word of their service.
    pub(crate) custom_endpoint: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) rotation: Settings,
    #[serde(flatten)]
    pub(crate) times: Times,
    /// Grows with each write, so that nothing that was fetched by another configuration is used.
    pub(crate) generation: u64,
}

stored!(Config, "config", reads_stored_configs);

impl Default for Config {
    fn default() -> Self {
        Self {
            credentials: None,
            service_account_email: String::new(),
            identity_token_audience: String::new(),
            identity_token_ttl: 3_600,
            iam_alias: String::new(),
            gce_alias: String::new(),
            iam_metadata: None,
            gce_metadata: None,
            custom_endpoint: BTreeMap::new(),
            rotation: Settings::default(),
            times: Times::default(),
            generation: 0,
        }
    }
}

impl Config {
    /// The configuration; what is usual where none was written.
    pub(crate) fn find(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Stores it as the next generation, with the timer of its rotation.
    pub(crate) fn store(mut self, host: &dyn Host) -> Result<(), Failure> {
        self.generation = self.generation.saturating_add(1);
        match self.times.due.filter(|_| self.credentials.is_some()) {
            Some(due) => host.clock().schedule(ROTATION, due, ROTATION)?,
            None => host.clock().cancel(ROTATION)?,
        }
        host.storage().put(KEY, &self)
    }

    /// Where a service is, without a slash at the end.
    pub(crate) fn base(&self, service: Service) -> Result<String, Failure> {
        service.base(&self.custom_endpoint)
    }

    /// What an alias of an account is called by: `role_id` or `unique_id`.
    pub(crate) fn iam_alias(&self) -> &str {
        if self.iam_alias.is_empty() { ROLE_ID } else { &self.iam_alias }
    }

    /// What an alias of an instance is called by: `role_id` or `instance_id`.
    pub(crate) fn gce_alias(&self) -> &str {
        if self.gce_alias.is_empty() { ROLE_ID } else { &self.gce_alias }
    }

    /// What is shown of an account.
    pub(crate) fn iam_metadata(&self) -> Vec<String> {
        chosen(self.iam_metadata.as_deref(), OF_ACCOUNTS)
    }

    /// What is shown of an instance.
    pub(crate) fn gce_metadata(&self) -> Vec<String> {
        chosen(self.gce_metadata.as_deref(), OF_INSTANCES)
    }
}
