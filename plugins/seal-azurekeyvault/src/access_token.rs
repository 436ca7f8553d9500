//! The access token: the secret of the application, exchanged at the endpoint of its directory (RFC
//! 6749, section 4.4).

use crate::refusal::{token_refused, token_unreadable};
use crate::settings::VaultSettings;
use bulkhead_sdk::Failure;
use bulkhead_sdk::http::Request;
use bulkhead_sdk::seal_plugin::SealHost;
use serde::Deserialize;

/// Timeout of a request, in milliseconds. Three requests fit into a call of the host.
pub(crate) const REQUEST_TIMEOUT: u32 = 9_000;

/// The answer with an access token. No `Debug`: the answer holds the token.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
}

/// Requests an access token.
///
/// # Errors
/// The host's failure if the endpoint does not answer; the refusal of the endpoint; unreachable if
/// the answer has another form.
pub(crate) fn request(host: &dyn SealHost, settings: &VaultSettings) -> Result<String, Failure> {
    let VaultSettings { authority_host, tenant_id, client_id, client_secret, .. } = settings;
    let scope = format!("https://{}/.default", settings.resource);
    let mut request =
        Request::safe_post(&format!("{authority_host}/{tenant_id}/oauth2/v2.0/token"))
            .form(&[
                ("grant_type", "client_credentials"),
                ("client_id", client_id),
                ("client_secret", client_secret),
                ("scope", &scope),
            ])
            .secret(client_secret)
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
