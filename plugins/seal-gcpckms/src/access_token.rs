//! The access token: an assertion that the key of the service account signs, exchanged at the
//! endpoint for tokens (RFC 7523).
//!
//! This file prevents an assertion from being accepted elsewhere or later: the assertion names the
//! endpoint as its audience, the scope of Cloud KMS alone, and an end.

use crate::refusal::{token_refused, token_unreadable};
use crate::settings::KmsSettings;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::Deserialize;
use serde_json::json;

/// Timeout of a request, in milliseconds. Three requests fit into a call of the host.
pub(crate) const REQUEST_TIMEOUT: u32 = 9_000;

/// Scope of the access token.
const SCOPE: &str = "https://www.googleapis.com/auth/cloudkms";
/// Lifetime of an assertion, in seconds.
const ASSERTION_TTL: u64 = 600;
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The answer with an access token. No `Debug`: the answer holds the token.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
}

/// Requests an access token.
///
/// # Errors
/// The host's failure if the endpoint does not answer or the private key cannot sign; the refusal
/// of the endpoint; unreachable if the answer has another form.
pub(crate) fn request(host: &dyn SealHost, settings: &KmsSettings) -> Result<String, Failure> {
    let assertion = assertion(host, settings)?;
    let mut request = Request::safe_post(&settings.token_uri)
        .form(&[("grant_type", GRANT_TYPE), ("assertion", &assertion)])
        .secret(&assertion)
        .timeout(REQUEST_TIMEOUT);
    if let Some(tls) = &settings.tls {
        request = request.tls(tls.clone());
    }
    let answer = host.send(&request)?;
    if answer.status != 200 {
        return Err(token_refused(settings, &answer));
    }
    let answer: TokenAnswer =
        serde_json::from_slice(&answer.body).map_err(|_| token_unreadable(settings))?;
    let token = answer.access_token;
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token),
        false => Err(token_unreadable(settings)),
    }
}

fn assertion(host: &dyn SealHost, settings: &KmsSettings) -> Result<String, Failure> {
    let now = host.now() / 1_000;
    let mut header = json!({ "alg": "RS256", "typ": "JWT" });
    if let (Some(header), false) = (header.as_object_mut(), settings.private_key_id.is_empty()) {
        header.insert("kid".to_owned(), json!(settings.private_key_id));
    }
    let claims = json!({
        "iss": settings.client_email, "scope": SCOPE, "aud": settings.token_uri, "iat": now,
        "exp": now.saturating_add(ASSERTION_TTL),
    });
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let signed =
        format!("{}.{}", part(header.to_string().as_bytes()), part(claims.to_string().as_bytes()));
    let signature =
        host.sign("RS256", &settings.private_key, signed.as_bytes()).map_err(|why| Failure {
            message: format!(
                "private_key of the service account {} cannot sign; write a key file of the \
                 service account into credentials",
                settings.client_email
            ),
            ..why
        })?;
    Ok(format!("{signed}.{}", part(&signature)))
}
