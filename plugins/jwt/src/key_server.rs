//! Servers of published keys: a set of keys (JWKS) at a URL, or at the URL in the discovery
//! document of an issuer.
//!
//! The attacks this file stops:
//!
//! - Keys from an impostor: only `https` is spoken, and no redirect is followed.
//! - A discovery document of another issuer.
//! - Keys of an earlier configuration: the number of writes is part of each name in the cache.

use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::http::{HttpTls, Request};
use bulkhead_sdk::issuer_keys::{self, FetchedKeys};
use bulkhead_sdk::jwt::KeySet;
use bulkhead_sdk::provider::{Provider, RetryPolicy, nonsense};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Failure, Host};
use serde::{Deserialize, Serialize};

/// Seconds for which the URL in a discovery document is cached.
const DISCOVERY: u32 = 43_200;
/// Time limit for fetching the keys, in milliseconds: shorter than the wait of concurrent logins,
/// which then do not fetch the keys as well.
const FETCH: u64 = 9_000;
/// Maximum length of a URL, in bytes.
const LONGEST: usize = 2_048;
/// Path of a discovery document below its issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// Retries within the time limit.
const RETRIES: RetryPolicy = RetryPolicy { most: 2, delay: 500, longest: 2_000 };

/// The URL of a server, and the trusted roots of its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyServer {
    pub(crate) url: String,
    /// Trusted roots in PEM; empty for the public roots.
    pub(crate) ca_pem: String,
}

/// The needed part of a discovery document.
#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: String,
}

/// Returns a provider for the time of one fetch.
pub(crate) fn provider(host: &dyn Host, deadline: StoreTime) -> Provider<'_> {
    let end = deadline.min(host.clock().now().saturating_add(FETCH));
    Provider::new(host, RETRIES, end)
}

impl KeyServer {
    /// Checks the form of the URL.
    ///
    /// # Errors
    /// Invalid request with the field and the URL.
    pub(crate) fn check(&self, field: &str) -> Result<(), Failure> {
        match flaw(&self.url) {
            None => Ok(()),
            Some(flaw) => Err(Failure::invalid(format!("{field} {} {flaw}", quoted(&self.url)))),
        }
    }

    /// Fetches the keys without the cache.
    ///
    /// # Errors
    /// The failure of the request; unreachable for an answer without a key that proves tokens.
    pub(crate) fn fetch(&self, provider: &Provider<'_>) -> Result<FetchedKeys, Failure> {
        let answer = provider.ask(&self.request(&self.url));
        let answer = answer.map_err(|why| why.about("fetch the keys of the issuer"))?;
        let set = KeySet::read(&answer.body).map_err(|_| {
            nonsense("the keys are not a set of at most 100 JWKs and 256 KiB with each member once")
        })?;
        let keys = set.by_any_id();
        match keys.is_empty() {
            true => {
                Err(nonsense("no key of the set can prove a token: each key needs a unique kid"))
            }
            false => Ok(FetchedKeys { keys, lifetime: issuer_keys::lifetime(&answer) }),
        }
    }

    /// Returns the key with this id, from the cache if the key is there.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub(crate) fn key(
        &self,
        provider: &Provider<'_>,
        writes: u64,
        id: &str,
    ) -> Result<Option<String>, Failure> {
        let name = format!("{writes} {}", self.url);
        issuer_keys::find(provider.host(), &name, id, || self.fetch(provider))
    }

    /// Returns the server of the keys that this issuer's discovery document names, without the
    /// cache.
    ///
    /// # Errors
    /// The failure of the request; invalid request if the document is of another issuer;
    /// unreachable if the keys are not at an `https` URL.
    pub(crate) fn discover(&self, provider: &Provider<'_>) -> Result<Self, Failure> {
        let url = format!("{}{WELL_KNOWN}", self.url.trim_end_matches('/'));
        let document = provider.json::<DiscoveryDocument>(&self.request(&url));
        let document = document.map_err(|why| why.about("fetch the discovery document"))?;
        if document.issuer != self.url {
            return Err(Failure::invalid(format!(
                "the discovery document is of issuer {}, not of {}; write oidc_discovery_url \
                 exactly as the issuer, with or without a slash at its end",
                quoted(&document.issuer),
                quoted(&self.url)
            )));
        }
        if flaw(&document.jwks_uri).is_some() {
            return Err(nonsense("the jwks_uri of the discovery document is not an https URL"));
        }
        Ok(Self { url: document.jwks_uri, ca_pem: self.ca_pem.clone() })
    }

    /// As [`discover`](Self::discover), from the cache if the URL is there.
    ///
    /// # Errors
    /// As [`discover`](Self::discover).
    pub(crate) fn discovered(&self, provider: &Provider<'_>, writes: u64) -> Result<Self, Failure> {
        let host = provider.host();
        let name = host.crypto().digest("sha256", format!("{writes} {}", self.url).as_bytes())?;
        let name = format!("discovery/{}", hexadecimal::text(&name));
        let url = host.cache().get_or_make(&name, DISCOVERY, || {
            self.discover(provider).map(|server| server.url.into_bytes())
        })?;
        let url = String::from_utf8(url)
            .map_err(|_| Failure::internal("the cached URL of an issuer's keys is not text"))?;
        Ok(Self { url, ca_pem: self.ca_pem.clone() })
    }

    fn request(&self, url: &str) -> Request {
        let request = Request::get(url);
        match self.ca_pem.as_str() {
            "" => request,
            pem => {
                let root_certificates = Some(pem.to_owned());
                request.tls(HttpTls { root_certificates, ..HttpTls::default() })
            }
        }
    }
}

/// Returns the reason why keys are not fetched from a URL, as the end of a sentence.
fn flaw(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://");
    let authority = rest.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match authority {
        None => {
            Some("does not begin with https://: an attacker on the network could replace the keys")
        }
        Some("") => Some("names no server"),
        Some(authority) if authority.contains('@') => Some("holds credentials; leave them out"),
        Some(_) if !is_plain => Some("has a space, a # or a character outside ASCII"),
        Some(_) if url.len() > LONGEST => Some("is longer than 2048 bytes"),
        Some(_) => None,
    }
}
