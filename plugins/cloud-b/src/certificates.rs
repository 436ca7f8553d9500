//! Keys that sign login tokens: the provider's own keys, and the keys of each service account. Both
//! are published as certificates.
//!
//! This file prevents a token whose subject redirects the key look-up. A subject that is not an
//! account's address or number never reaches a URL.

use crate::cloud::CloudClient;
use crate::endpoints::CloudService;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::issuer_keys::{FetchedKeys, find, find_admitted, lifetime};
use bulkhead_sdk::provider::{ProviderRefusal, ProviderUrl, nonsense};
use bulkhead_sdk::wire::json;
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the provider's certificate with this key id for identity tokens.
///
/// # Errors
/// The failure to fetch the certificates.
pub(crate) fn of_provider(cloud: &CloudClient<'_>, id: &str) -> Result<Option<String>, Failure> {
    let url = cloud.url(CloudService::Api, &["oauth2", "v1", "certs"])?;
    find(cloud.host(), &set_of(cloud, &url), id, || fetch(cloud, &url))
}

/// Returns the service account's certificate with this key id. The caller must have checked the
/// account's name. An unknown account has no certificates. `admit` is called before a request to
/// the provider: the account is the word of a token that is not proven yet.
///
/// # Errors
/// The failure to fetch the certificates, and that of `admit`.
pub(crate) fn of_account(
    cloud: &CloudClient<'_>,
    (account, id): (&str, &str),
    admit: impl Fn() -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let path = ["service_accounts", "v1", "metadata", "x509", account];
    let url = cloud.url(CloudService::Api, &path)?;
    find_admitted(cloud.host(), &set_of(cloud, &url), id, admit, || fetch(cloud, &url))
}

/// Returns the name of a cached set of certificates, which ends with its expiry or the next write
/// of the configuration.
fn set_of(cloud: &CloudClient<'_>, url: &ProviderUrl) -> String {
    format!("{} {}", cloud.config.generation, url.text())
}

fn fetch(cloud: &CloudClient<'_>, url: &ProviderUrl) -> Result<FetchedKeys, Failure> {
    match cloud.provider.ask(&Request::get(url.text())) {
        Ok(answer) => Ok(FetchedKeys { keys: certificates(&answer)?, lifetime: lifetime(&answer) }),
        // The empty set is cached, so that a missing account is not requested at each login.
        Err(refusal) if refusal.is(404) => Ok(FetchedKeys::default()),
        Err(refusal) => Err(unfetched(refusal)),
    }
}

fn unfetched(refusal: ProviderRefusal) -> Failure {
    refusal.about("get the public keys of tokens")
}

/// Parses a JSON object that maps unique key ids to certificates.
fn certificates(answer: &Response) -> Result<BTreeMap<String, String>, Failure> {
    let set = json::object(&answer.body)
        .map_err(|_| nonsense("a set of certificates is not JSON with each key once"))?;
    let mut found = BTreeMap::new();
    for (id, value) in set {
        match value {
            Value::String(pem) if pem.contains("-----BEGIN CERTIFICATE-----") => {
                found.insert(id, pem);
            }
            _ => return Err(nonsense("a set of certificates holds something else")),
        }
    }
    Ok(found)
}
