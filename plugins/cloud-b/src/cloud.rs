//! Client for the provider: the method's access, and requests with its access token, within the
//! time limit of a call.

use crate::access;
use crate::endpoints::{ASKS, CloudService};
use crate::settings::Config;
use bulkhead_sdk::access_token::ProviderAccess;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, ProviderRefusal, ProviderUrl, RetryPolicy};
use bulkhead_sdk::wire::call_limits::CallLimits;
use bulkhead_sdk::{Failure, Host};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// 2 more attempts with short delays, because a caller waits.
const RETRIES: RetryPolicy = RetryPolicy { most: 2, delay: 500, longest: 2_000 };

/// Returns a client for the provider that sends each request once: for the trial of a key, which a
/// timer repeats.
pub(crate) fn impatient_provider(host: &dyn Host, deadline: StoreTime) -> Provider<'_> {
    Provider::new(host, RetryPolicy::NONE, deadline).within(CallLimits::asked(ASKS))
}

/// Client for the provider with a mount's configuration.
pub(crate) struct CloudClient<'a> {
    pub(crate) provider: Provider<'a>,
    pub(crate) config: &'a Config,
}

impl<'a> CloudClient<'a> {
    /// Creates a client that makes requests until `deadline`.
    pub(crate) fn new(host: &'a dyn Host, config: &'a Config, deadline: StoreTime) -> Self {
        let provider = Provider::new(host, RETRIES, deadline).within(CallLimits::asked(ASKS));
        Self { provider, config }
    }

    /// Returns the host of this client's requests.
    pub(crate) fn host(&self) -> &'a dyn Host {
        self.provider.host()
    }

    /// Returns the method's access to the provider.
    ///
    /// # Errors
    /// The failure to get access.
    pub(crate) fn access(&self) -> Result<ProviderAccess<'a>, Failure> {
        access::of_method(self.provider.clone(), self.config)
    }

    /// Builds the URL of a service from segments, which are percent-encoded.
    pub(crate) fn url(
        &self,
        service: CloudService,
        segments: &[&str],
    ) -> Result<ProviderUrl, Failure> {
        ProviderUrl::of(&self.config.base(service)?).path(segments)
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// The failure to get access. A refusal of the provider is the inner result.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        url: &ProviderUrl,
    ) -> Result<Result<T, ProviderRefusal>, Failure> {
        let request = Request::get(url.text());
        let access = self.access()?;
        Ok(access.send(|token| self.provider.json(&request.clone().bearer(token))))
    }

    /// Sends a POST request that changes nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        url: &ProviderUrl,
        body: &Value,
    ) -> Result<Result<T, ProviderRefusal>, Failure> {
        let request = Request::safe_post(url.text()).json(body)?;
        let access = self.access()?;
        Ok(access.send(|token| self.provider.json(&request.clone().bearer(token))))
    }
}
