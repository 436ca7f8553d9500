//! The mount's credential for the cloud: a client secret, else a federated identity, else the
//! machine's own identity.

use crate::settings::EffectiveSettings;
use bulkhead_sdk::Failure;
use bulkhead_sdk::access_token::{AccessToken, ProviderAccess};
use bulkhead_sdk::http::Request;
use bulkhead_sdk::provider::{Provider, ProviderRefusal, ProviderUrl};

/// Type of a client assertion that is a JWT.
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Returns the access for requests to `audience`, an origin.
///
/// # Errors
/// The refusal of the provider or the host; invalid request if `client_id` is missing.
pub(crate) fn access<'a>(
    provider: Provider<'a>,
    settings: &'a EffectiveSettings,
    audience: &'a str,
) -> Result<ProviderAccess<'a>, Failure> {
    let host = provider.host();
    let federated = &settings.config.identity_token_audience;
    let client_secret = settings.client_secret(host)?;
    if client_secret.is_empty() && federated.is_empty() {
        // The host caches this token until shortly before its expiry.
        let token = host.ambient().cloud_token("azure", &format!("{audience}/"))?.token;
        return Ok(ProviderAccess::with_token(host, token));
    }
    if settings.client_id.is_empty() {
        return Err(Failure::invalid("client_id is required to ask the cloud about a login"));
    }
    let writes = settings.config.writes.to_string();
    let credential = [
        writes.as_str(),
        settings.cloud.authority,
        settings.tenant.as_str(),
        settings.client_id.as_str(),
        client_secret.as_str(),
        federated.as_str(),
    ]
    .join("\n");
    ProviderAccess::kept(host, &credential, audience, move || {
        let token = match client_secret.as_str() {
            "" => by_federation(&provider, settings, audience)?,
            secret => by_secret(&provider, settings, secret, audience),
        };
        token.map_err(|why| why.about("get an access token of the cloud"))
    })
}

/// Requests an access token with a client secret. The token is not cached.
pub(crate) fn by_secret(
    provider: &Provider<'_>,
    settings: &EffectiveSettings,
    secret: &str,
    audience: &str,
) -> Result<AccessToken, ProviderRefusal> {
    ask(provider, settings, audience, &[("client_secret", secret)], secret)
}

/// Tells if the provider refused the secret itself. Any other refusal, such as a rate limit, says
/// nothing about the secret.
pub(crate) fn is_refused_secret(refusal: &ProviderRefusal) -> bool {
    let ProviderRefusal::Said { status: 400 | 401, code, .. } = refusal else { return false };
    let word = code.split(',').next().unwrap_or_default();
    ["invalid_client", "invalid_grant", "unauthorized_client"].contains(&word)
}

/// Requests an access token with a Bulkhead identity token, which names this mount.
fn by_federation(
    provider: &Provider<'_>,
    settings: &EffectiveSettings,
    audience: &str,
) -> Result<Result<AccessToken, ProviderRefusal>, Failure> {
    let config = &settings.config;
    let own = provider.host().identity();
    let own = own.token(&config.identity_token_audience, config.identity_token_ttl)?.token;
    let proof = [("client_assertion_type", ASSERTION), ("client_assertion", own.as_str())];
    Ok(ask(provider, settings, audience, &proof, &own))
}

fn ask(
    provider: &Provider<'_>,
    settings: &EffectiveSettings,
    audience: &str,
    proof: &[(&str, &str)],
    secret: &str,
) -> Result<AccessToken, ProviderRefusal> {
    let scope = format!("{audience}/.default");
    let mut form = vec![
        ("grant_type", "client_credentials"),
        ("client_id", settings.client_id.as_str()),
        ("scope", scope.as_str()),
    ];
    form.extend_from_slice(proof);
    let url = ProviderUrl::of(settings.cloud.authority).path(&[
        &settings.tenant,
        "oauth2",
        "v2.0",
        "token",
    ]);
    let url = url.map_err(ProviderRefusal::Unasked)?;
    provider.json(&Request::safe_post(url.text()).secret(secret).form(&form))
}
