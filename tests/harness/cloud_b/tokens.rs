//! Published certificates, and access tokens for assertions of accounts, for tokens of other
//! issuers and for impersonation.

use super::{CloudB, error, now};
use crate::internet::message::decoded;
use crate::internet::{Request, Response, held};
use crate::signer::{is_signed, unverified};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const LIFETIME: u64 = 3_599;
const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// Answers with Google's own certificates or with the certificates of an account.
pub(super) fn certificates(cloud: &CloudB, request: &Request) -> Response {
    let state = held(&cloud.state);
    let signers = if request.path == "/oauth2/v1/certs" {
        state.keys.clone()
    } else {
        let path = request.path.strip_prefix("/service_accounts/v1/metadata/x509/");
        let name = path.filter(|name| !name.contains('/')).map(decoded);
        let found = name.and_then(|name| {
            state.accounts.values().find(|it| it.email == name || it.unique_id == name)
        });
        match found {
            Some(account) => account.keys.iter().map(|key| key.signer.clone()).collect(),
            None => return error(404, "NOT_FOUND", "Service account not found."),
        }
    };
    let all: Map<String, Value> =
        signers.iter().map(|signer| (signer.kid.clone(), json!(signer.certificate()))).collect();
    Response::json(200, &Value::Object(all)).with("cache-control", "public, max-age=3600")
}

/// Answers `POST /token` with an account's assertion.
pub(super) fn for_assertions(cloud: &CloudB, request: &Request) -> Response {
    let field = |name: &str| request.form(name).unwrap_or_default();
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/token") {
        return Response::empty(404);
    }
    if field("grant_type") != ASSERTION {
        return refused("unsupported_grant_type", "Invalid grant_type");
    }
    match proves(cloud, &field("assertion")) {
        true => {
            let access = give(cloud);
            Response::json(
                200,
                &json!({ "access_token": access, "expires_in": LIFETIME, "token_type": "Bearer" }),
            )
        }
        false => refused("invalid_grant", "Invalid JWT Signature."),
    }
}

/// Returns `true` if a key of the named account signed the assertion for this endpoint, and the
/// lifetime is at most an hour.
fn proves(cloud: &CloudB, assertion: &str) -> bool {
    let Some([header, claims]) = unverified(assertion) else { return false };
    let state = held(&cloud.state);
    let email = claims["iss"].as_str().unwrap_or_default();
    let Some(account) = state.accounts.get(email).filter(|account| !account.disabled) else {
        return false;
    };
    let seconds = |name: &str| claims[name].as_u64().unwrap_or_default();
    let in_time = seconds("exp") > now() && seconds("exp") <= seconds("iat") + 3_600;
    let signing_key = account.keys.iter().find(|key| header["kid"] == json!(key.signer.kid));
    in_time
        && claims["aud"] == json!(TOKEN_URL)
        && claims["scope"].as_str().is_some_and(|scope| !scope.is_empty())
        && signing_key.is_some_and(|key| {
            key.usable <= Instant::now() && key.signer.claims(assertion).is_some()
        })
}

/// Answers `POST /v1/token` with a token of another issuer.
pub(super) fn exchange(cloud: &CloudB, request: &Request) -> Response {
    let field = |name: &str| request.form(name).unwrap_or_default();
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/v1/token") {
        return Response::empty(404);
    }
    let kinds = [field("grant_type"), field("requested_token_type"), field("subject_token_type")];
    if kinds != [EXCHANGE, ACCESS_TOKEN, JWT] || field("scope").is_empty() {
        return refused("invalid_request", "Invalid value for a token type.");
    }
    if !is_federated(cloud, &field("audience"), &field("subject_token")) {
        return refused("invalid_grant", "The credential is not accepted by the provider.");
    }
    let access = cloud.secret("sts.");
    let until = Instant::now() + Duration::from_secs(LIFETIME);
    held(&cloud.state).exchanged.insert(access.clone(), until);
    Response::json(
        200,
        &json!({ "access_token": access, "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer", "expires_in": LIFETIME }),
    )
}

fn is_federated(cloud: &CloudB, audience: &str, token: &str) -> bool {
    let Some([header, claims]) = unverified(token) else { return false };
    let state = held(&cloud.state);
    let Some(federated) = state.federated.get(audience) else { return false };
    let keys = federated.jwks["keys"].as_array().into_iter().flatten();
    let is_for = |text: &str| {
        let audiences = claims["aud"].as_array().cloned().unwrap_or(vec![claims["aud"].clone()]);
        audiences.iter().any(|entry| entry == text || *entry == json!(format!("https:{text}")))
    };
    claims["iss"] == json!(federated.issuer)
        && claims["sub"] == json!(federated.subject)
        && is_for(audience)
        && claims["exp"].as_u64().is_some_and(|end| end > now())
        && keys.filter(|key| key["kid"] == header["kid"]).any(|key| is_signed(key, token))
}

/// Answers `:generateAccessToken` for an exchanged token.
pub(super) fn impersonate(cloud: &CloudB, request: &Request) -> Response {
    let path = decoded(&request.path);
    let email = path
        .strip_prefix("/v1/projects/-/serviceAccounts/")
        .and_then(|rest| rest.strip_suffix(":generateAccessToken"));
    let (Some(email), "POST") = (email, request.method.as_str()) else {
        return error(404, "NOT_FOUND", "no such method");
    };
    let expiry_of = |token: &str| held(&cloud.state).exchanged.get(token).copied();
    if request.bearer().and_then(expiry_of).is_none_or(|until| until <= Instant::now()) {
        return error(401, "UNAUTHENTICATED", "Request had invalid credentials.");
    }
    if !held(&cloud.state).accounts.contains_key(email) {
        return error(403, "PERMISSION_DENIED", "Permission denied on the service account.");
    }
    let body = request.json();
    let is_asked = body["scope"].as_array().is_some_and(|scopes| !scopes.is_empty())
        && body["lifetime"].as_str().is_some_and(|time| time.ends_with('s'));
    match is_asked {
        true => Response::json(
            200,
            &json!({ "accessToken": give(cloud), "expireTime": "2099-01-01T00:00:00Z" }),
        ),
        false => error(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    }
}

fn give(cloud: &CloudB) -> String {
    let access = cloud.secret("ya29.");
    let until = Instant::now() + Duration::from_secs(LIFETIME);
    held(&cloud.state).given.insert(access.clone(), until);
    access
}

fn refused(error: &str, description: &str) -> Response {
    Response::json(400, &json!({ "error": error, "error_description": description }))
}
