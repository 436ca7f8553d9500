//! The directory: discovery, published keys, and access tokens for secrets and assertions.

use super::{AccessGrant, CloudA, TENANT, TenantState};
use crate::internet::{Request, Response, held};
use crate::signer::{is_signed, unverified};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const LIFETIME: u64 = 3_599;

pub(super) fn answer(cloud: &CloudA, request: &Request) -> Response {
    let login = cloud.environment.login;
    let tenant = format!("/{TENANT}");
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/common/discovery/keys") => {
            let keys: Vec<Value> = held(&cloud.state).keys.iter().map(|key| key.jwk()).collect();
            Response::json(200, &json!({ "keys": keys }))
        }
        ("GET", path) if path == format!("{tenant}/.well-known/openid-configuration") => {
            Response::json(
                200,
                &json!({
                    "issuer": cloud.issuer(),
                    "jwks_uri": format!("https://{login}/common/discovery/keys"),
                    "token_endpoint": format!("https://{login}/{TENANT}/oauth2/token"),
                    "id_token_signing_alg_values_supported": ["RS256"],
                }),
            )
        }
        ("POST", path) if path == format!("{tenant}/oauth2/v2.0/token") => {
            token(cloud, request).unwrap_or_else(|refused| refused)
        }
        (_, path) if path.ends_with("/oauth2/v2.0/token") || path.contains("/.well-known/") => {
            refused(400, "invalid_tenant", "AADSTS90002: Tenant not found.")
        }
        _ => Response::empty(404),
    }
}

fn token(cloud: &CloudA, request: &Request) -> Result<Response, Response> {
    let field = |name: &str| request.form(name).unwrap_or_default();
    if request.header("content-type") != "application/x-www-form-urlencoded" {
        return Err(refused(400, "invalid_request", "AADSTS900144: The body must be a form."));
    }
    if field("grant_type") != "client_credentials" {
        return Err(refused(400, "unsupported_grant_type", "AADSTS70003: Unsupported grant."));
    }
    let scope = field("scope");
    let audience = scope.split(' ').next().and_then(|scope| scope.strip_suffix("/.default"));
    let audience =
        audience.filter(|audience| audience.starts_with("https://")).ok_or_else(|| {
            refused(400, "invalid_scope", "AADSTS70011: The provided value for scope is not valid.")
        })?;
    let access = cloud.number("t-");
    let mut state = held(&cloud.state);
    check_client(&state, &field)?;
    let until = Instant::now() + Duration::from_secs(LIFETIME);
    state.given.insert(access.clone(), AccessGrant { audience: audience.to_owned(), until });
    Ok(Response::json(
        200,
        &json!({ "token_type": "Bearer", "expires_in": LIFETIME, "ext_expires_in": LIFETIME,
            "access_token": access }),
    ))
}

fn check_client(state: &TenantState, field: &dyn Fn(&str) -> String) -> Result<(), Response> {
    let Some(application) = state.applications.get(&field("client_id")) else {
        return Err(refused(400, "unauthorized_client", "AADSTS700016: Application not found."));
    };
    let assertion = field("client_assertion");
    if !assertion.is_empty() {
        let is_kind = field("client_assertion_type") == JWT_BEARER;
        return match is_kind && is_federated(state, &assertion) {
            true => Ok(()),
            false => Err(refused(
                401,
                "invalid_client",
                "AADSTS700211: No matching federated \
                                  identity record found for presented assertion issuer.",
            )),
        };
    }
    let secret = field("client_secret");
    let found = application.secrets.iter().find(|entry| entry.text == secret);
    match found {
        Some(entry) if entry.usable <= Instant::now() => Ok(()),
        _ => Err(refused(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")),
    }
}

/// Returns `true` if a federated issuer signed the assertion, and subject and audience match.
fn is_federated(state: &TenantState, assertion: &str) -> bool {
    let Some([header, claims]) = unverified(assertion) else { return false };
    let issuer = claims["iss"].as_str().and_then(|issuer| state.federated.get(issuer));
    let Some(federated) = issuer else { return false };
    let keys = federated.jwks["keys"].as_array().into_iter().flatten();
    let is_ours = claims["sub"] == json!(federated.subject)
        && (claims["aud"] == json!(federated.audience)
            || claims["aud"] == json!([federated.audience]))
        && claims["exp"].as_u64().is_some_and(|end| end > super::now());
    let mut named = keys.filter(|key| key["kid"] == header["kid"]);
    is_ours && named.any(|key| is_signed(key, assertion))
}

fn refused(status: u16, error: &str, description: &str) -> Response {
    Response::json(status, &json!({ "error": error, "error_description": description }))
}
