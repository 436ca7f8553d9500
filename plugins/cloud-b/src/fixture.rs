//! Test fixture for all files: a provider with an account and an instance, correctly signed tokens,
//! a configuration, and roles.

use crate::CloudB;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::testbed::{AuthBed, TestHost};
use bulkhead_sdk::{Failure, FailureKind, Host, Login, jwt};
use serde_json::{Map, Value, json};

/// The account of the configured key.
pub(crate) const OWN: &str = "bulkhead@home.iam.gserviceaccount.com";
/// The account that logs in, and its number.
pub(crate) const EMAIL: &str = "app@p1.iam.gserviceaccount.com";
pub(crate) const ID: &str = "112233445566778899001";
/// The number of the instance that logs in.
pub(crate) const INSTANCE: &str = "1234567890123456789";
/// Creation time of the instance.
pub(crate) const MADE: i64 = 1_704_190_000;

/// Keys that sign identity tokens and tokens of accounts.
pub(crate) const GOOGLE_KEY: &str = include_str!("../fixtures/keys/google.key");
pub(crate) const ACCOUNT_KEY: &str = include_str!("../fixtures/keys/account.key");
pub(crate) const OTHER_KEY: &str = include_str!("../fixtures/keys/other.key");
pub(crate) const SHORT_KEY: &str = include_str!("../fixtures/keys/short.key");
pub(crate) const GOOGLE: &str = include_str!("../fixtures/keys/google.pem");
pub(crate) const ACCOUNT: &str = include_str!("../fixtures/keys/account.pem");
pub(crate) const OTHER: &str = include_str!("../fixtures/keys/other.pem");
pub(crate) const SHORT: &str = include_str!("../fixtures/keys/short.pem");

/// Requests to the provider in most logins.
pub(crate) const CERTS: &str = "GET https://www.googleapis.com/oauth2/v1/certs";
pub(crate) const TOKENS: &str = "POST https://oauth2.googleapis.com/token";

/// Returns the URL of an account's certificates.
pub(crate) fn certs_of(account: &str) -> String {
    let account = account.replace('@', "%40");
    format!("GET https://www.googleapis.com/service_accounts/v1/metadata/x509/{account}")
}

/// Returns the URL of an account at IAM.
pub(crate) fn account_at(account: &str) -> String {
    let account = account.replace('@', "%40");
    format!("GET https://iam.googleapis.com/v1/projects/-/serviceAccounts/{account}")
}

/// The URL of the instance at Compute.
pub(crate) const INSTANCE_AT: &str =
    "GET https://compute.googleapis.com/compute/v1/projects/p1/zones/us-east1-b/instances/i1";

/// Returns the URL of the filtered members of a group at a location such as `zones/us-east1-b`.
pub(crate) fn members_at(location: &str, group: &str) -> String {
    format!(
        "POST https://compute.googleapis.com/compute/v1/projects/p1/{location}/instanceGroups/\
         {group}/listInstances?filter=instance%20eq%20https%3A%2F%2Fwww.googleapis.com%2Fcompute\
         %2Fv1%2Fprojects%2Fp1%2Fzones%2Fus-east1-b%2Finstances%2Fi1"
    )
}

pub(crate) const LINK: &str =
    "https://www.googleapis.com/compute/v1/projects/p1/zones/us-east1-b/instances/i1";

/// Returns a JSON answer.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

/// Returns a service account's key file, with a token endpoint that must never be used.
pub(crate) fn key_file(key_id: &str, key: &str) -> Value {
    json!({
        "type": "service_account",
        "client_email": OWN,
        "client_id": "100000000000000000001",
        "private_key_id": key_id,
        "private_key": key,
        "project_id": "home",
        "token_uri": "https://evil.example/token",
    })
}

/// Returns IAM's data about the account.
pub(crate) fn account() -> Value {
    json!({
        "name": format!("projects/p1/serviceAccounts/{EMAIL}"),
        "projectId": "p1", "uniqueId": ID, "email": EMAIL, "oauth2ClientId": ID,
    })
}

/// Returns Compute's data about the instance.
pub(crate) fn instance() -> Value {
    json!({
        "id": INSTANCE, "name": "i1", "selfLink": LINK, "status": "RUNNING",
        "zone": "https://www.googleapis.com/compute/v1/projects/p1/zones/us-east1-b",
        "creationTimestamp": "2024-01-02T02:06:40.678-08:00",
        "labels": {"team": "blue", "tier": ""},
        "serviceAccounts": [{"email": EMAIL, "scopes": []}],
    })
}

/// Returns a bed without a configuration.
pub(crate) fn empty() -> AuthBed<CloudB> {
    AuthBed::new().unwrap()
}

/// Returns a bed with credentials.
pub(crate) fn configured() -> AuthBed<CloudB> {
    let bed = empty();
    let credentials = key_file("k-own", ACCOUNT_KEY).to_string();
    bed.write("config", &json!({ "credentials": credentials })).unwrap();
    bed.host.steps();
    bed
}

/// Returns a bed with credentials and a provider that knows the account and the instance.
pub(crate) fn served() -> AuthBed<CloudB> {
    let bed = configured();
    serve(&bed.host);
    bed
}

fn serve(host: &TestHost) {
    let token = json!({"access_token": "t-1", "expires_in": 3599, "token_type": "Bearer"});
    host.answer(TOKENS, answer(200, &token));
    host.answer(CERTS, answer(200, &json!({ "g1": GOOGLE })));
    for name in [EMAIL, ID] {
        host.answer(&certs_of(name), answer(200, &json!({ "s1": ACCOUNT })));
        host.answer(&account_at(name), answer(200, &account()));
    }
    host.answer(INSTANCE_AT, answer(200, &instance()));
}

/// Returns [`served`] with a role for accounts and a role for instances.
pub(crate) fn ready() -> AuthBed<CloudB> {
    let bed = served();
    let policies = json!("app");
    bed.write(
        "role/dev",
        &json!({"type": "iam", "bound_service_accounts": EMAIL, "token_policies": policies}),
    )
    .unwrap();
    bed.write(
        "role/vm",
        &json!({"type": "gce", "bound_projects": "p1", "token_policies": policies}),
    )
    .unwrap();
    bed.host.steps();
    bed
}

/// Returns the bed's time in seconds since 1970.
pub(crate) fn now(bed: &AuthBed<CloudB>) -> u64 {
    let host: &dyn Host = &bed.host;
    host.clock().now() / 1_000
}

/// Returns the claims of the account for a login to the role `dev`, with a change.
pub(crate) fn claims(bed: &AuthBed<CloudB>, change: Value) -> Value {
    changed(json!({"sub": EMAIL, "aud": "vault/dev", "exp": now(bed) + 600}), change)
}

/// Returns the provider's claims for an instance that logs in to the role `vm`, with a change.
pub(crate) fn identity(bed: &AuthBed<CloudB>, change: Value) -> Value {
    let token = json!({
        "iss": "https://accounts.google.com", "aud": "http://vault/vm", "azp": ID, "sub": ID,
        "email": EMAIL, "email_verified": true, "iat": now(bed), "exp": now(bed) + 3_600,
        "google": {"compute_engine": compute_engine(json!({}))},
    });
    changed(token, change)
}

/// Returns the provider's claims about the instance, with a change.
pub(crate) fn compute_engine(change: Value) -> Value {
    let claims = json!({
        "project_id": "p1", "project_number": 123_456, "zone": "us-east1-b",
        "instance_id": INSTANCE, "instance_name": "i1", "instance_creation_timestamp": MADE,
    });
    changed(claims, change)
}

/// Returns the object with some members replaced; null removes a member.
pub(crate) fn changed(mut object: Value, change: Value) -> Value {
    let Value::Object(change) = change else { panic!("a change is an object") };
    for (name, value) in change {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(&name)),
            value => object[name] = value,
        }
    }
    object
}

/// Returns a signed token.
pub(crate) fn signed(id: &str, key: &str, claims: &Value) -> String {
    let claims: &Map<String, Value> = claims.as_object().unwrap();
    jwt::sign(&TestHost::default(), "RS256", Some(id), claims, key).unwrap()
}

/// Logs in with a token.
pub(crate) fn log_in(bed: &AuthBed<CloudB>, role: &str, jwt: &str) -> Result<Login, Failure> {
    bed.login("login", &json!({ "role": role, "jwt": jwt }))
}

/// Logs in with a token signed by the account.
pub(crate) fn log_in_as_account(bed: &AuthBed<CloudB>, change: Value) -> Result<Login, Failure> {
    log_in(bed, "dev", &signed("s1", ACCOUNT_KEY, &claims(bed, change)))
}

/// Logs in with a token signed by the provider for the instance.
pub(crate) fn log_in_as_instance(bed: &AuthBed<CloudB>, change: Value) -> Result<Login, Failure> {
    log_in(bed, "vm", &signed("g1", GOOGLE_KEY, &identity(bed, change)))
}

/// Returns the URL of the keys of the own account.
pub(crate) fn keys_at() -> String {
    let own = OWN.replace('@', "%40");
    format!("https://iam.googleapis.com/v1/projects/-/serviceAccounts/{own}/keys")
}

/// Returns the request for the list of the keys.
pub(crate) fn listing() -> String {
    format!("GET {}?keyTypes=USER_MANAGED", keys_at())
}

/// Returns a key in a list of keys.
pub(crate) fn key(id: &str, creation_time: &str) -> Value {
    let name = format!("projects/home/serviceAccounts/{OWN}/keys/{id}");
    json!({ "name": name, "validAfterTime": creation_time })
}

/// Returns a list of keys.
pub(crate) fn list(keys: &[Value]) -> Value {
    json!({ "keys": keys })
}

/// Returns the answer to the creation of a key.
pub(crate) fn created_key(id: &str, key: &str) -> Value {
    let file = BASE64_STANDARD.encode(key_file(id, key).to_string());
    let name = format!("projects/home/serviceAccounts/{OWN}/keys/{id}");
    json!({ "name": name, "privateKeyData": file })
}

/// Returns a bed whose provider creates the key `k-new` and can remove every key.
pub(crate) fn rotating() -> AuthBed<CloudB> {
    rotating_with(answer(200, &created_key("k-new", OTHER_KEY)))
}

/// Returns a bed whose provider answers `making` to the creation of a key and can remove every key.
pub(crate) fn rotating_with(making: Response) -> AuthBed<CloudB> {
    let bed = unending_with(making);
    ends(&bed, &["k-own", "k-new"]);
    bed
}

/// Returns a bed as [`rotating_with`], whose provider cannot remove any key.
pub(crate) fn unending_with(making: Response) -> AuthBed<CloudB> {
    let bed = served();
    bed.host.answer(&listing(), answer(200, &list(&[key("k-own", "2020-01-01T00:00:00Z")])));
    bed.host.answer(&format!("POST {}", keys_at()), making);
    bed.host.steps();
    bed
}

/// Lets the provider remove these keys.
pub(crate) fn ends(bed: &AuthBed<CloudB>, keys: &[&str]) {
    for id in keys {
        bed.host.answer(&format!("DELETE {}/{id}", keys_at()), answer(200, &json!({})));
    }
}

/// Rotates the key.
pub(crate) fn rotate(bed: &AuthBed<CloudB>) -> Result<Value, Failure> {
    Ok(Value::Object(bed.write("config/rotate-root", &json!({}))?.data))
}

/// Returns the id of the key in use.
pub(crate) fn in_use(bed: &AuthBed<CloudB>) -> Value {
    bed.read("config").unwrap().data["private_key_id"].clone()
}

/// Returns the keys for which the provider was asked for a removal since the last call.
pub(crate) fn ended(bed: &AuthBed<CloudB>) -> Vec<String> {
    let removals = bed.host.requests().into_iter().filter(|request| request.method == "DELETE");
    removals.map(|request| request.url.rsplit('/').next().unwrap().to_owned()).collect()
}

/// Removes the former keys that are due a minute from now.
pub(crate) fn end_former(bed: &AuthBed<CloudB>) {
    bed.host.advance(60);
    bed.wake("former-keys", 1).unwrap();
}

/// Replaces the answers of the token endpoint; `false` refuses the key, and the last one stays.
pub(crate) fn answer_tokens(bed: &AuthBed<CloudB>, works: &[bool]) {
    for works in works {
        let answered = match works {
            true => answer(200, &json!({"access_token": "t-2", "expires_in": 3_599})),
            false => answer(400, &json!({"error": "invalid_grant"})),
        };
        bed.host.answer(TOKENS, answered);
    }
    drop_token(bed);
}

/// Consumes the first of several answers of the token endpoint: the one that stayed.
pub(crate) fn drop_token(bed: &AuthBed<CloudB>) {
    let host: &dyn Host = &bed.host;
    host.http().send(&Request::post(TOKENS.trim_start_matches("POST "))).unwrap();
    bed.host.requests();
}

/// Returns the ids of the keys for which tokens were asked since the last call.
pub(crate) fn tried(bed: &AuthBed<CloudB>) -> Vec<String> {
    let of = |request: Request| {
        let form = String::from_utf8(request.body).ok()?;
        let assertion = form.split('&').find_map(|pair| pair.strip_prefix("assertion="))?;
        let header = BASE64_URL_SAFE_NO_PAD.decode(assertion.split('.').next()?).ok()?;
        let header: Value = serde_json::from_slice(&header).ok()?;
        Some(header["kid"].as_str()?.to_owned())
    };
    bed.host.requests().into_iter().filter_map(of).collect()
}

/// Lets the next request fail without an answer.
pub(crate) fn lose_request(bed: &AuthBed<CloudB>) {
    bed.host.refuse("send", Failure::new(FailureKind::Unreachable, "down"));
}

/// Returns a key file of an account.
pub(crate) fn key_of(account: &str, key_id: &str) -> Value {
    changed(key_file(key_id, OTHER_KEY), json!({ "client_email": account }))
}
