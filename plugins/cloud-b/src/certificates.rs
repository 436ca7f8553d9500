//! The keys that sign tokens of logins: those of the provider itself, and those of each service
//! account, both published as certificates.
//!
//! The attack this file stops: a token whose subject names the place where its key is to be found.
//! A subject that is no account's address or number never reaches a URL.

use crate::cloud::Cloud;
use crate::endpoints::Service;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::issuer_keys::{Fetched, find, lifetime};
use bulkhead_sdk::provider::{Refusal, Url, nonsense};
use bulkhead_sdk::wire::json;
use serde_json::Value;
use std::collections::BTreeMap;

/// The certificate of that name among those by which the provider signs identity tokens.
///
/// # Errors
/// Why they cannot be had.
pub(crate) fn of_provider(cloud: &Cloud<'_>, id: &str) -> Result<Option<String>, Failure> {
    let url = cloud.url(Service::Api, &["oauth2", "v1", "certs"])?;
    kept(cloud, &url, id)
}

/// The certificate of that name among those of a service account, whose name must have been
/// checked. An account that is not known has none.
///
/// # Errors
/// Why they cannot be had.
pub(crate) fn of_account(
    cloud: &Cloud<'_>,
    account: &str,
    id: &str,
) -> Result<Option<String>, Failure> {
    let path = ["service_accounts", "v1", "metadata", "x509", account];
    let url = cloud.url(Service::Api, &path)?;
    kept(cloud, &url, id)
}

/// The certificate of a set that is kept until it ends, or until the configuration is written.
fn kept(cloud: &Cloud<'_>, url: &Url, id: &str) -> Result<Option<String>, Failure> {
    let set = format!("{} {}", cloud.config.generation, url.text());
    find(cloud.host(), &set, id, || fetch(cloud, url))
}

fn fetch(cloud: &Cloud<'_>, url: &Url) -> Result<Fetched, Failure> {
    match cloud.provider.ask(&Request::get(url.text())) {
        Ok(answer) => Ok(Fetched { keys: certificates(&answer)?, lifetime: lifetime(&answer) }),
        // Kept like a set, so that an account that is not there is not asked for at each login.
        Err(refusal) if refusal.is(404) => Ok(Fetched::default()),
        Err(refusal) => Err(unfetched(refusal)),
    }
}

fn unfetched(refusal: Refusal) -> Failure {
    refusal.about("get the keys that tokens are signed by")
}

/// One JSON object of certificates by the names of their keys, each name once.
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
