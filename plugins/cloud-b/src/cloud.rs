//! The provider, asked by the configuration within the time of one call: who the method is there,
//! and one request with its access token.

use crate::access;
use crate::endpoints::Service;
use crate::settings::Config;
use bulkhead_sdk::access_token::Access;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, Refusal, Retries, Url};
use bulkhead_sdk::{Failure, Host};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Two more tries, soon: a caller waits.
const RETRIES: Retries = Retries { most: 2, delay: 500, longest: 2_000 };

/// The provider, as the configuration says.
pub(crate) struct Cloud<'a> {
    pub(crate) provider: Provider<'a>,
    pub(crate) config: &'a Config,
}

impl<'a> Cloud<'a> {
    /// The provider until `deadline`.
    pub(crate) fn new(host: &'a dyn Host, config: &'a Config, deadline: StoreTime) -> Self {
        Self { provider: Provider::new(host, RETRIES, deadline), config }
    }

    /// The host through which it is asked.
    pub(crate) fn host(&self) -> &'a dyn Host {
        self.provider.host()
    }

    /// The access of the method.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn access(&self) -> Result<Access<'a>, Failure> {
        access::of_method(self.provider, self.config)
    }

    /// A URL of a service, of segments that are encoded.
    pub(crate) fn url(&self, service: Service, segments: &[&str]) -> Result<Url, Failure> {
        Url::of(&self.config.base(service)?).path(segments)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// Why the method has no access, behind `tried`; and the provider's refusal.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<Result<T, Refusal>, Failure> {
        let request = Request::get(url.text());
        let access = self.access()?;
        Ok(access.send(|token| self.provider.json(&request.clone().bearer(token))))
    }

    /// Asks by a POST that changes nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        url: &Url,
        body: &Value,
    ) -> Result<Result<T, Refusal>, Failure> {
        let request = Request::asking(url.text()).json(body)?;
        let access = self.access()?;
        Ok(access.send(|token| self.provider.json(&request.clone().bearer(token))))
    }
}
