//! Effective settings of a call: the stored configuration and, for values that are not configured,
//! the server's environment. The contract's variable names take precedence over the provider's
//! names.

use crate::arm_id::is_guid;
use crate::cloud::{ASKS, NationalCloud};
use crate::configuration::Config;
use crate::rotated_secret::SecretPlace;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::provider::{Provider, RetryPolicy};
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host};

/// Tenant names that do not name a single tenant. They would admit the tokens of every tenant.
const SHARED_TENANTS: [&str; 3] = ["common", "organizations", "consumers"];
/// Maximum number of retries that a configuration can request.
const MOST_RETRIES: i64 = 100;

/// The effective settings. No `Debug`, because the configuration contains a secret.
pub(crate) struct EffectiveSettings {
    pub(crate) config: Config,
    pub(crate) cloud: &'static NationalCloud,
    pub(crate) tenant: String,
    /// Required audience of tokens.
    pub(crate) resource: String,
    pub(crate) client_id: String,
}

impl EffectiveSettings {
    /// Returns the settings of the mount.
    ///
    /// # Errors
    /// Invalid request if a setting is missing or wrong.
    pub(crate) fn stored(host: &dyn Host) -> Result<Self, Failure> {
        Self::of(host, Config::find(host)?.unwrap_or_default())
    }

    /// Returns the settings for a configuration.
    ///
    /// # Errors
    /// As [`stored`](Self::stored).
    pub(crate) fn of(host: &dyn Host, config: Config) -> Result<Self, Failure> {
        let tenant = chosen(host, &config.tenant_id, ["CLOUDA_TENANT_ID", "AZURE_TENANT_ID"])?;
        check_tenant(&tenant)?;
        let resource = chosen(host, &config.resource, ["CLOUDA_AD_RESOURCE", "AZURE_AD_RESOURCE"])?;
        if resource.is_empty() {
            return Err(Failure::invalid(
                "resource is required: give the audience of the tokens shown at login",
            ));
        }
        let cloud = chosen(host, &config.environment, ["CLOUDA_ENVIRONMENT", "AZURE_ENVIRONMENT"])?;
        let client_id = chosen(host, &config.client_id, ["CLOUDA_CLIENT_ID", "AZURE_CLIENT_ID"])?;
        let cloud = NationalCloud::named(&cloud)?;
        Ok(Self { config, cloud, tenant, resource, client_id })
    }

    /// Returns the client secret, or an empty text if there is none or a federated identity
    /// replaces the secret. Only the step that uses the secret loads it, so that an unproven login
    /// never has it.
    ///
    /// # Errors
    /// The host's refusal.
    pub(crate) fn client_secret(&self, host: &dyn Host) -> Result<String, Failure> {
        if !self.config.identity_token_audience.is_empty() {
            return Ok(String::new());
        }
        let names = ["CLOUDA_CLIENT_SECRET", "AZURE_CLIENT_SECRET"];
        chosen(host, &self.config.client_secret, names)
    }

    /// Returns a client for the provider that retries as configured, until `deadline`.
    pub(crate) fn provider<'a>(&self, host: &'a dyn Host, deadline: StoreTime) -> Provider<'a> {
        Provider::new(host, self.retries(), deadline).within(CallLimits::asked(ASKS))
    }

    /// Returns a client for the provider that sends each request once: for the trial of a secret,
    /// which a timer repeats.
    pub(crate) fn impatient_provider<'a>(
        &self,
        host: &'a dyn Host,
        deadline: StoreTime,
    ) -> Provider<'a> {
        Provider::new(host, RetryPolicy::NONE, deadline).within(CallLimits::asked(ASKS))
    }

    /// Returns the application and the authority to which the client secret is sent.
    pub(crate) fn place(&self) -> SecretPlace {
        SecretPlace {
            authority: self.cloud.authority.to_owned(),
            tenant: self.tenant.clone(),
            client_id: self.client_id.clone(),
        }
    }

    fn retries(&self) -> RetryPolicy {
        let Config { max_retries, retry_delay, max_retry_delay, .. } = &self.config;
        let non_negative = |number: i64| u64::try_from(number).unwrap_or_default();
        RetryPolicy {
            most: u32::try_from((*max_retries).clamp(0, MOST_RETRIES)).unwrap_or_default(),
            delay: non_negative(retry_delay.0),
            longest: u64::try_from(max_retry_delay.0).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the stored value, else the first of the named environment variables that is set. A
/// variable that the operator did not grant counts as not set.
fn chosen(host: &dyn Host, stored: &str, names: [&str; 2]) -> Result<String, Failure> {
    if !stored.is_empty() {
        return Ok(stored.to_owned());
    }
    for name in names {
        match host.ambient().environment(name) {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(why) if why.kind == FailureKind::PermissionDenied => {}
            Err(why) => return Err(why),
        }
    }
    Ok(String::new())
}

/// Accepts a GUID or a domain verified by the tenant, because the value becomes part of a URL path.
fn check_tenant(tenant: &str) -> Result<(), Failure> {
    if tenant.is_empty() {
        return Err(Failure::invalid(
            "tenant_id is required: give the directory of the accepted tokens",
        ));
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_domain = tenant.len() <= 253 && tenant.contains('.') && tenant.split('.').all(is_label);
    let is_shared = SHARED_TENANTS.iter().any(|shared| tenant.eq_ignore_ascii_case(shared));
    if is_shared || !(is_guid(tenant) || is_domain) {
        let tenant = quoted(tenant);
        return Err(Failure::invalid(format!(
            "tenant_id {tenant} is neither the GUID nor a domain of a single tenant"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_tenant;

    #[test]
    fn a_tenant_is_one_and_cannot_lead_elsewhere() {
        for tenant in ["11111111-2222-3333-4444-555555555555", "contoso.onmicrosoft.com", "a-b.de"]
        {
            assert!(check_tenant(tenant).is_ok(), "{tenant}");
        }
        for tenant in [
            "",
            "common",
            "Organizations",
            "CONSUMERS",
            "../x",
            "x?y=",
            "a.b/c",
            "evil.example@x",
            "a..b",
            ".",
            "..",
            "contoso",
            "a.b#",
            "a.b%2f",
            "a.b:443",
            "a.b\n",
        ] {
            assert!(check_tenant(tenant).is_err(), "{tenant}");
        }
    }
}
