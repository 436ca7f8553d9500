//! The method's credential for the provider: a service account's key, else a Bulkhead identity
//! token trusted by the provider, else the identity of the machine.
//!
//! Proofs of identity go only to the provider's own endpoints, which no configuration can change.

use crate::credentials::ServiceAccountKey;
use crate::endpoints;
use crate::settings::Config;
use bulkhead_sdk::access_token::{AccessToken, ProviderAccess};
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, ProviderRefusal, ProviderUrl, nonsense};
use bulkhead_sdk::{Failure, Host, jwt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Scope of access tokens; the account's own permissions limit them further.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKENS: &str = "https://oauth2.googleapis.com/token";
const EXCHANGE: &str = "https://sts.googleapis.com/v1/token";
const IMPERSONATION: &str = "https://iamcredentials.googleapis.com";
/// Lifetime of signed assertions, in seconds.
const ASSERTION_TTL_SECS: u64 = 3_600;
/// Lifetime in seconds of the impersonated account's tokens, unless `identity_token_ttl` is set.
const DEFAULT_TOKEN_TTL_SECS: u64 = 3_600;

/// Returns the method's access.
///
/// # Errors
/// The refusal of the provider or the host. Invalid request if a token obtained without
/// `credentials` would be sent outside the provider's domain.
pub(crate) fn of_method<'a>(
    provider: Provider<'a>,
    config: &'a Config,
) -> Result<ProviderAccess<'a>, Failure> {
    let host = provider.host();
    let generation = config.generation;
    if let Some(key) = &config.credentials {
        let credential = format!("key/{generation}/{}", key.private_key_id);
        return ProviderAccess::kept(host, &credential, SCOPE, move || by_key(&provider, key));
    }
    if let Some(service) = endpoints::foreign(&config.custom_endpoint) {
        return Err(Failure::invalid(format!(
            "custom_endpoint {service} is outside googleapis.com, and gets access tokens by \
             credentials only; write config with credentials and custom_endpoint"
        )));
    }
    if !config.identity_token_audience.is_empty() {
        let credential = format!("federation/{generation}");
        return ProviderAccess::kept(host, &credential, SCOPE, move || {
            by_federation(&provider, config)
        });
    }
    // The host caches this token.
    Ok(ProviderAccess::with_token(host, host.ambient().cloud_token("google", SCOPE)?.token))
}

/// Requests an access token of the key's account.
///
/// # Errors
/// The provider's refusal, also if the provider does not yet know the key, or no longer knows it.
pub(crate) fn by_key(
    provider: &Provider<'_>,
    key: &ServiceAccountKey,
) -> Result<AccessToken, Failure> {
    ask_by_key(provider, key)?.map_err(|why| why.about("get an access token by credentials"))
}

/// Answer of the provider to a key.
pub(crate) enum KeyProof {
    Accepted,
    Refused,
    /// The provider did not answer, or its answer says nothing about the key.
    Unknown(Failure),
}

/// Tries a key at the provider. The access token is dropped.
///
/// # Errors
/// The failure to sign with the key.
pub(crate) fn prove(provider: &Provider<'_>, key: &ServiceAccountKey) -> Result<KeyProof, Failure> {
    Ok(match ask_by_key(provider, key)? {
        Ok(_) => KeyProof::Accepted,
        Err(refusal) if is_refused_key(&refusal) => KeyProof::Refused,
        Err(refusal) => KeyProof::Unknown(refusal.about("try a key of the service account")),
    })
}

/// Tells if the provider refused the key itself. Any other refusal, such as a rate limit, says
/// nothing about the key.
fn is_refused_key(refusal: &ProviderRefusal) -> bool {
    let ProviderRefusal::Said { status: 400 | 401, code, .. } = refusal else { return false };
    ["invalid_grant", "invalid_client", "unauthorized_client"].contains(&code.as_str())
}

fn ask_by_key(
    provider: &Provider<'_>,
    key: &ServiceAccountKey,
) -> Result<Result<AccessToken, ProviderRefusal>, Failure> {
    let host = provider.host();
    let now = host.clock().now() / 1_000;
    let claims = json!({
        "iss": key.client_email,
        "scope": SCOPE,
        "aud": TOKENS,
        "iat": now,
        "exp": now.saturating_add(ASSERTION_TTL_SECS),
    });
    let claims = claims.as_object().cloned().unwrap_or_else(Map::new);
    let signed = jwt::sign(host, "RS256", Some(&key.private_key_id), &claims, &key.private_key)?;
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", signed.as_str()),
    ];
    let request = Request::safe_post(TOKENS).secret(&signed).form(&form);
    Ok(provider.json(&request))
}

/// Exchanges an identity token of the method for an access token of `service_account_email`.
fn by_federation(provider: &Provider<'_>, config: &Config) -> Result<AccessToken, Failure> {
    let host = provider.host();
    let audience = &config.identity_token_audience;
    let own = host.identity().token(audience, config.identity_token_ttl())?.token;
    let form = [
        ("audience", audience.strip_prefix("https:").unwrap_or(audience)),
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("subject_token", own.as_str()),
        ("scope", SCOPE),
    ];
    let request = Request::safe_post(EXCHANGE).secret(&own).form(&form);
    let exchanged: AccessToken = provider
        .json(&request)
        .map_err(|why| why.about("exchange the identity token for an access token"))?;
    let email = &config.service_account_email;
    let url =
        ProviderUrl::of(IMPERSONATION).path(&["v1", "projects", "-", "serviceAccounts", email])?;
    let ttl = if config.identity_token_ttl() == 0 {
        DEFAULT_TOKEN_TTL_SECS
    } else {
        config.identity_token_ttl()
    };
    let request = Request::safe_post(url.verb("generateAccessToken").text())
        .bearer(&exchanged.token)
        .json(&json!({ "lifetime": format!("{ttl}s"), "scope": [SCOPE] }))?;
    let answered: Value = provider
        .json(&request)
        .map_err(|why| why.about("get an access token of service_account_email"))?;
    ImpersonatedToken::deserialize(&answered).map_err(|_| shapeless())?.token(host)
}

/// Answer to an impersonation request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImpersonatedToken {
    access_token: String,
    expire_time: String,
}

impl ImpersonatedToken {
    fn token(self, host: &dyn Host) -> Result<AccessToken, Failure> {
        let end = OffsetDateTime::parse(&self.expire_time, &Rfc3339).map_err(|_| shapeless())?;
        let end = u64::try_from(end.unix_timestamp()).map_err(|_| shapeless())?;
        let lifetime = end.saturating_sub(host.clock().now() / 1_000);
        Ok(AccessToken { token: self.access_token, lifetime })
    }
}

fn shapeless() -> Failure {
    nonsense("an access token of another account has no accessToken or no expireTime")
}
