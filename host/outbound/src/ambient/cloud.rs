//! Requests to a cloud's metadata service, and the parsing of the answers.
//!
//! Another program may answer in place of the service: the answer is bounded, never quoted, and
//! accepted only if it is a valid token.

use super::AmbientSources;
use crate::http::HttpAnswer;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use url::form_urlencoded::Serializer;

/// Maximum length of an audience, in bytes.
const AUDIENCE_BYTES: usize = 1_024;
/// Maximum length of a token, in bytes.
const TOKEN_BYTES: usize = 32 << 10;
/// Maximum lifetime that is assumed for a token, in milliseconds.
const MAX_TOKEN_LIFETIME_MS: u64 = 24 * 3_600_000;
/// Prefix of an audience that is a scope of Google's.
const SCOPE: &str = "https://www.googleapis.com/auth/";

/// Clouds with a known metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloudProvider {
    /// Azure.
    Azure,
    /// Google Cloud.
    Google,
}

impl CloudProvider {
    /// Returns the cloud with this name in the contract.
    ///
    /// # Errors
    /// `invalid-request` for any other name.
    pub fn of(word: &str) -> Result<Self, Failure> {
        match word {
            "azure" => Ok(Self::Azure),
            "google" => Ok(Self::Google),
            other => Err(Failure::invalid(format!(
                "there is no cloud {}; give azure or google",
                quoted(other)
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Azure => "Azure",
            Self::Google => "Google",
        }
    }
}

/// Returns true if `text` is a valid audience.
pub(crate) fn is_audience(text: &str) -> bool {
    (1..=AUDIENCE_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A request to a metadata service, and the service's address.
pub struct MetadataRequest {
    /// The metadata service.
    pub address: SocketAddr,
    /// The request.
    pub request: Request<Full<Bytes>>,
}

/// A token and its expiry, as store time in milliseconds.
pub struct ExpiringToken {
    /// The token, a secret.
    pub token: String,
    /// Unix time of the end, in seconds.
    pub expires: u64,
}

impl AmbientSources {
    /// Returns the request for a token of `cloud` for `audience`.
    ///
    /// # Errors
    /// `invalid-request` for an invalid audience; `precondition-failed` if the environment names an
    /// unsupported service.
    pub fn question(
        &self,
        cloud: CloudProvider,
        audience: &str,
    ) -> Result<MetadataRequest, Failure> {
        if !is_audience(audience) {
            return Err(Failure::invalid(
                "the audience of a cloud token has 1 to 1024 bytes of printable text",
            ));
        }
        match cloud {
            CloudProvider::Google => self.of_google(audience),
            CloudProvider::Azure => match self.app_service()? {
                Some(service) => self.of_app_service(&service, audience),
                None => self.of_azure(audience),
            },
        }
    }

    fn of_google(&self, audience: &str) -> Result<MetadataRequest, Failure> {
        let (what, query) = match audience.starts_with(SCOPE) {
            true => ("token", query(&[("scopes", audience)])),
            false => ("identity", query(&[("audience", audience), ("format", "full")])),
        };
        let path = format!("/computeMetadata/v1/instance/service-accounts/default/{what}?{query}");
        let headers = [("host", "metadata.google.internal"), ("metadata-flavor", "Google")];
        question(self.google_metadata, &path, headers)
    }

    fn of_azure(&self, audience: &str) -> Result<MetadataRequest, Failure> {
        let query = self.azure_query("2018-02-01", audience);
        let path = format!("/metadata/identity/oauth2/token?{query}");
        let host = self.azure_metadata.to_string();
        let headers = [("host", host.as_str()), ("metadata", "true")];
        question(self.azure_metadata, &path, headers)
    }

    fn of_app_service(
        &self,
        service: &AppService,
        audience: &str,
    ) -> Result<MetadataRequest, Failure> {
        let path = format!("{}?{}", service.path, self.azure_query("2019-08-01", audience));
        let host = service.address.to_string();
        let headers = [("host", host.as_str()), ("x-identity-header", &service.secret)];
        question(service.address, &path, headers)
    }

    fn azure_query(&self, version: &str, audience: &str) -> String {
        let mut pairs = vec![("api-version", version), ("resource", audience)];
        if !self.azure_client_id.is_empty() {
            pairs.push(("client_id", &self.azure_client_id));
        }
        query(&pairs)
    }

    /// Returns the identity endpoint of App Service, if the environment names it.
    fn app_service(&self) -> Result<Option<AppService>, Failure> {
        let Some(endpoint) = self.value("IDENTITY_ENDPOINT")? else { return Ok(None) };
        let unserved = |why: &str| {
            let message = format!(
                "IDENTITY_ENDPOINT of the server's environment {why}; this version asks Azure's \
                 instance metadata service and App Service"
            );
            Err(Failure::new(FailureKind::PreconditionFailed, message))
        };
        if self.value("IDENTITY_SERVER_THUMBPRINT")?.is_some() {
            return unserved("is an endpoint of Service Fabric");
        }
        let Some(secret) = self.value("IDENTITY_HEADER")? else {
            return unserved("comes without IDENTITY_HEADER, as on Azure Arc");
        };
        match endpoint_of(&endpoint) {
            Some((address, path)) => Ok(Some(AppService { address, path, secret })),
            None => unserved("is not an http:// URL of this machine"),
        }
    }
}

/// The identity endpoint of App Service, and the secret header that it requires. No `Debug`,
/// because of the secret.
struct AppService {
    address: SocketAddr,
    path: String,
    secret: String,
}

/// Returns address and path of an endpoint on this machine or its link. Other addresses are
/// refused, because the request is not encrypted.
fn endpoint_of(url: &str) -> Option<(SocketAddr, String)> {
    let url = url::Url::parse(url).ok().filter(|url| url.scheme() == "http")?;
    let address: IpAddr = match url.host()? {
        url::Host::Ipv4(address) => address.into(),
        url::Host::Ipv6(address) => address.into(),
        url::Host::Domain("localhost") => Ipv4Addr::LOCALHOST.into(),
        url::Host::Domain(_) => return None,
    };
    let port = url.port_or_known_default()?;
    is_near(address).then(|| (SocketAddr::new(address, port), url.path().to_owned()))
}

/// Returns true if data for this address does not leave the machine or its link.
#[must_use]
pub fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(four) => four.is_loopback() || four.is_link_local(),
        IpAddr::V6(six) => six.is_loopback() || six.is_unicast_link_local(),
    }
}

fn query(pairs: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn question(
    address: SocketAddr,
    path: &str,
    headers: [(&str, &str); 2],
) -> Result<MetadataRequest, Failure> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::default()).map_err(|_| {
        let message = "the identity endpoint of the server's environment cannot be asked";
        Failure::new(FailureKind::PreconditionFailed, message)
    })?;
    Ok(MetadataRequest { address, request })
}

impl CloudProvider {
    /// Reads the token of an answer.
    ///
    /// # Errors
    /// `unavailable` if the service asks to retry, `invalid-request` if the service refuses,
    /// `unreachable` if the answer is not a token. The message quotes nothing of the answer except
    /// an error code.
    pub fn token_of(self, answered: &HttpAnswer, now: u64) -> Result<ExpiringToken, Failure> {
        let service = format!("{}'s metadata service", self.name());
        match answered.status {
            200 => {}
            status if self.is_retryable(status) => {
                let message = format!("{service} answered {status}; try again later");
                return Err(Failure::new(FailureKind::Unavailable, message));
            }
            status => {
                return Err(Failure::invalid(format!(
                    "{service} refuses with {status}{}; check the audience and this machine's \
                     identity",
                    oauth_error_code(&answered.body)
                )));
            }
        }
        let token = self.read(answered, now).filter(|token| token.expires > now);
        token.ok_or_else(|| {
            let message = format!("{service} answered without a valid token");
            Failure::new(FailureKind::Unreachable, message)
        })
    }

    /// Returns true if the status means that a retry may succeed.
    fn is_retryable(self, status: u16) -> bool {
        // Azure's service answers 404 while it is being updated.
        matches!(status, 408 | 410 | 429 | 500..) || self == Self::Azure && status == 404
    }

    fn read(self, answered: &HttpAnswer, now: u64) -> Option<ExpiringToken> {
        let flavor =
            |(name, value): &(String, String)| name == "metadata-flavor" && value == "Google";
        if self == Self::Google && !answered.headers.iter().any(flavor) {
            return None;
        }
        let token = match serde_json::from_slice::<Value>(&answered.body) {
            Ok(answer) => access_token(&answer, now)?,
            Err(_) if self == Self::Google => identity_token(&answered.body)?,
            Err(_) => return None,
        };
        let expires = token.expires.min(now.saturating_add(MAX_TOKEN_LIFETIME_MS));
        let is_token = (1..=TOKEN_BYTES).contains(&token.token.len())
            && token.token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(ExpiringToken { expires, ..token })
    }
}

/// Returns the code of an OAuth error (RFC 6749), if any, as ` (invalid_resource)`.
fn oauth_error_code(body: &[u8]) -> String {
    let answer = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let word = answer.get("error").and_then(Value::as_str).unwrap_or_default();
    let is_word = (1..=64).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word { format!(" ({word})") } else { String::new() }
}

/// Reads a token from an object. The expiry is in seconds from now or since 1970, as a number or as
/// digits.
fn access_token(answer: &Value, now: u64) -> Option<ExpiringToken> {
    let seconds = |name: &str| {
        let value = answer.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let milliseconds = |seconds: u64| seconds.saturating_mul(1_000);
    let left = seconds("expires_in").map(|left| now.saturating_add(milliseconds(left)));
    let expires = left.or_else(|| seconds("expires_on").map(milliseconds))?;
    Some(ExpiringToken { token: answer.get("access_token")?.as_str()?.to_owned(), expires })
}

/// Reads a token that contains its own expiry.
fn identity_token(body: &[u8]) -> Option<ExpiringToken> {
    let token = std::str::from_utf8(body).ok()?.trim();
    let (_, rest) = token.split_once('.')?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(rest.split_once('.')?.0).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let expires = claims.get("exp")?.as_u64()?.saturating_mul(1_000);
    Some(ExpiringToken { token: token.to_owned(), expires })
}

#[cfg(test)]
mod tests;
