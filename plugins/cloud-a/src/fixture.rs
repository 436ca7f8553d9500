//! Test fixture for all files: a test bed with a configuration, an issuer that signs any claims,
//! and a cloud with arranged answers.

use crate::CloudA;
use crate::arm_id::ArmId;
use crate::root_records::{PENDING, RETIRED};
use bulkhead_sdk::crypto::GeneratedKey;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::testbed::{AuthBed, TestHost};
use bulkhead_sdk::{Failure, FailureKind, Host, Login, jwt};
use serde_json::{Map, Value, json};

pub(crate) const TENANT: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const SUBSCRIPTION: &str = "51111111-2222-3333-4444-555555555555";
pub(crate) const CLIENT: &str = "c1111111-2222-3333-4444-555555555555";
/// The machine's system-assigned identity, a user-assigned identity, and the application of the
/// latter.
pub(crate) const OWN: &str = "a1111111-2222-3333-4444-555555555555";
pub(crate) const GIVEN: &str = "b1111111-2222-3333-4444-555555555555";
pub(crate) const APP: &str = "b2222222-2222-3333-4444-555555555555";
pub(crate) const RESOURCE: &str = "https://vault.example";
pub(crate) const ISSUER: &str = "https://sts.windows.net/11111111-2222-3333-4444-555555555555/";
pub(crate) const SECRET: &str = "abc-the-first-secret";

pub(crate) const DISCOVERY: &str = "GET https://login.microsoftonline.com/\
                                    11111111-2222-3333-4444-555555555555\
                                    /.well-known/openid-configuration";
pub(crate) const KEYS: &str = "GET https://login.microsoftonline.com/common/discovery/keys";
pub(crate) const TOKEN: &str = "POST https://login.microsoftonline.com/\
                                11111111-2222-3333-4444-555555555555/oauth2/v2.0/token";

/// The test bed.
pub(crate) type CloudBed = AuthBed<CloudA>;

/// Returns a key of the issuer by number. These keys sign for these tests only.
pub(crate) fn key(number: usize) -> GeneratedKey {
    const PEMS: [&str; 2] = [
        include_str!("../fixtures/issuer/key-1.pem"),
        include_str!("../fixtures/issuer/key-2.pem"),
    ];
    let host = TestHost::default();
    let private_key = PEMS[number].to_owned();
    let public_key = (&host as &dyn Host).crypto().read_key(&private_key).ok().unwrap();
    GeneratedKey { private_key, public_key }
}

/// Returns a key set with these ids.
pub(crate) fn key_set(named: &[(&str, &GeneratedKey)]) -> Value {
    let of = |(id, key): &(&str, &GeneratedKey)| {
        let mut jwk: Value = serde_json::from_str(&key.public_key.jwk).unwrap();
        jwk["kid"] = json!(id);
        jwk["use"] = json!("sig");
        jwk
    };
    json!({"keys": named.iter().map(of).collect::<Vec<_>>()})
}

/// Returns an answer of the cloud.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

/// Returns the method on an empty test bed.
pub(crate) fn empty() -> CloudBed {
    let mut bed = CloudBed::new().unwrap();
    bed.mount.accessor = "auth_cloud-a_1".to_owned();
    bed
}

/// Returns a bed with a configuration, an issuer with the key `k1`, and a cloud that issues tokens.
pub(crate) fn ready() -> CloudBed {
    let bed = empty();
    let config = json!({
        "tenant_id": TENANT, "resource": RESOURCE, "client_id": CLIENT, "client_secret": SECRET,
    });
    bed.write("config", &config).unwrap();
    let discovery = json!({
        "issuer": ISSUER, "jwks_uri": "https://login.microsoftonline.com/common/discovery/keys",
    });
    bed.host.answer(DISCOVERY, answer(200, &discovery));
    bed.host.answer(KEYS, answer(200, &key_set(&[("k1", &key(0))])));
    let token = json!({"token_type": "Bearer", "expires_in": 3_599, "access_token": "t-arm"});
    bed.host.answer(TOKEN, answer(200, &token));
    bed.host.steps();
    bed
}

/// Returns [`ready`] with the role `dev`.
pub(crate) fn with_role(role: &Value) -> CloudBed {
    let bed = ready();
    bed.write("role/dev", role).unwrap();
    bed
}

/// Returns the id of a resource in the group `apps`.
pub(crate) fn id(kind: &str, name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/apps/providers/{kind}/{name}")
}

/// Returns the id of a machine in the group `apps`.
pub(crate) fn machine(name: &str) -> String {
    id("Microsoft.Compute/virtualMachines", name)
}

/// Returns the id of a scale set in the group `apps`.
pub(crate) fn scale_set(name: &str) -> String {
    id("Microsoft.Compute/virtualMachineScaleSets", name)
}

/// Returns the id of an identity in the group `apps`.
pub(crate) fn identity(name: &str) -> String {
    id("Microsoft.ManagedIdentity/userAssignedIdentities", name)
}

/// Returns the claims of the machine's system-assigned identity, overridden by `over`; null removes
/// a claim.
pub(crate) fn claims(over: &Value) -> Map<String, Value> {
    let now = 1_893_456_000;
    let mut all = json!({
        "aud": RESOURCE, "iss": ISSUER, "iat": now, "nbf": now, "exp": now + 3_600,
        "oid": OWN, "sub": OWN, "tid": TENANT, "appid": APP, "idtyp": "app", "ver": "1.0",
    });
    for (name, value) in over.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all.as_object().unwrap().clone()
}

/// Returns a token with these claims, signed by `by` under the key id `id`.
pub(crate) fn signed(over: &Value, id: Option<&str>, by: &GeneratedKey) -> String {
    let host = TestHost::default();
    jwt::sign(&host, "RS256", id, &claims(over), &by.private_key).unwrap()
}

/// Returns a token with these claims, signed by the issuer's key.
pub(crate) fn token(over: &Value) -> String {
    signed(over, Some("k1"), &key(0))
}

/// Logs in to the role `dev` with these claims and fields.
pub(crate) fn login(bed: &CloudBed, over: &Value, fields: &Value) -> Result<Login, Failure> {
    login_with(bed, &token(over), fields)
}

/// Logs in as [`login`] does, with a complete token.
pub(crate) fn login_with(bed: &CloudBed, jwt: &str, fields: &Value) -> Result<Login, Failure> {
    let mut body = json!({"role": "dev", "jwt": jwt});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    bed.login("login", &body)
}

/// Returns the message of a refused login, which must be an invalid request.
#[track_caller]
pub(crate) fn refusal(login: Result<Login, Failure>) -> String {
    let why = login.err().expect("the login is refused");
    assert_eq!(why.kind, FailureKind::InvalidRequest, "{}", why.message);
    why.message
}

/// Returns the manager's URL for an id.
pub(crate) fn arm_request(id: &str, version: &str) -> String {
    let id = ArmId::parse(id).map_or_else(|| id.to_owned(), |id| id.to_string());
    format!("GET https://management.azure.com{id}?api-version={version}")
}

/// Arranges a machine outside any scale set, with a system-assigned and a user-assigned identity.
pub(crate) fn arrange_machine(bed: &CloudBed, name: &str, over: &Value) {
    let id = machine(name);
    let mut body = json!({
        "id": id.replace("resourceGroups", "resourcegroups"), "name": name, "location": "westus2",
        "identity": {
            "type": "SystemAssigned, UserAssigned", "principalId": OWN.to_uppercase(),
            "userAssignedIdentities": {
                identity("shared"): {"principalId": GIVEN, "clientId": APP},
            },
        },
        "properties": {"vmId": "1"},
    });
    body.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    bed.host.answer(&arm_request(&id, "2023-07-01"), answer(200, &body));
}

/// Arranges a scale set with a system-assigned identity.
pub(crate) fn arrange_scale_set(bed: &CloudBed, name: &str, over: &Value) {
    let id = scale_set(name);
    let mut body = json!({
        "id": id, "name": name, "location": "westus2", "identity": {"principalId": OWN},
    });
    body.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    bed.host.answer(&arm_request(&id, "2023-07-01"), answer(200, &body));
}

/// Arranges an identity with this principal and application.
pub(crate) fn arrange_identity(bed: &CloudBed, name: &str, principal: &str, app: &str) {
    let id = identity(name);
    let body = json!({
        "id": id, "name": name, "location": "westus2",
        "properties": {"principalId": principal, "clientId": app, "tenantId": TENANT},
    });
    bed.host.answer(&arm_request(&id, "2023-01-31"), answer(200, &body));
}

pub(crate) const LIST: &str = "GET https://graph.microsoft.com/v1.0/applications\
                               ?%24filter=appId%20eq%20%27\
                               c1111111-2222-3333-4444-555555555555%27";
pub(crate) const ADD: &str = "POST https://graph.microsoft.com/v1.0/applications/app-1/addPassword";
pub(crate) const REMOVE: &str =
    "POST https://graph.microsoft.com/v1.0/applications/app-1/removePassword";
/// The new secret.
pub(crate) const NEW: &str = "xyz-the-second-secret";

/// Returns the application with these passwords.
pub(crate) fn listed(passwords: &Value) -> Response {
    answer(
        200,
        &json!({"value": [
            {"id": "app-1", "appId": CLIENT, "passwordCredentials": passwords},
        ]}),
    )
}

/// Returns the answer to the creation of the password `key-2`.
pub(crate) fn added() -> Response {
    answer(200, &json!({"keyId": "key-2", "secretText": NEW, "hint": "xyz"}))
}

/// Returns the configured password.
pub(crate) fn ours() -> Value {
    json!({"keyId": "key-1", "displayName": "first", "hint": "abc"})
}

/// Returns a bed whose application has the configured password and another password.
pub(crate) fn with_application() -> CloudBed {
    let bed = ready();
    bed.host.answer(LIST, listed(&json!([ours(), {"keyId": "key-9", "hint": "oth"}])));
    bed.host.answer(REMOVE, answer(204, &Value::Null));
    bed
}

/// Returns [`with_application`], whose cloud creates [`NEW`].
pub(crate) fn with_new_secret() -> CloudBed {
    let bed = with_application();
    bed.host.answer(ADD, added());
    bed
}

/// Rotates the secret and returns the warnings.
pub(crate) fn rotate(bed: &CloudBed) -> Result<Vec<String>, Failure> {
    bed.write("rotate-root", &json!({})).map(|reply| reply.warnings)
}

/// Returns the stored secret.
pub(crate) fn secret(bed: &CloudBed) -> String {
    bed.host.stored("config").unwrap()["client_secret"].as_str().unwrap().to_owned()
}

/// Returns the passwords removed since the last call.
pub(crate) fn removed(bed: &CloudBed) -> Vec<Value> {
    let of = |request: Request| {
        request.url.ends_with("removePassword").then(|| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body["keyId"].clone()
        })
    };
    bed.host.requests().into_iter().filter_map(of).collect()
}

/// Fires a timer that is due.
#[track_caller]
pub(crate) fn ring(bed: &CloudBed, key: &str) {
    assert!(bed.host.timer(key).unwrap() <= bed.host.clock().now(), "{key} is due");
    bed.wake(key, 1).unwrap();
}

/// Returns a bed after a rotation, whose former password is not removed yet.
pub(crate) fn with_former_secret() -> CloudBed {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.host.advance(60);
    ring(&bed, PENDING);
    bed.host.answer(LIST, listed(&json!([ours(), {"keyId": "key-2"}])));
    drop_answer(&bed, LIST);
    bed
}

/// Returns a bed after a rotation.
pub(crate) fn rotated() -> CloudBed {
    let bed = with_former_secret();
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-1"]);
    bed
}

/// Replaces the answers of the token endpoint; `false` refuses the secret, and the last one stays.
pub(crate) fn answer_tokens(bed: &CloudBed, works: &[bool]) {
    for works in works {
        let answered = match works {
            true => answer(200, &json!({"expires_in": 3_599, "access_token": "t-2"})),
            false => answer(401, &json!({"error": "invalid_client"})),
        };
        bed.host.answer(TOKEN, answered);
    }
    drop_answer(bed, TOKEN);
}

/// Consumes the first of several answers to `request`: the one that stayed.
pub(crate) fn drop_answer(bed: &CloudBed, request: &str) {
    let (method, url) = request.split_once(' ').unwrap();
    let host: &dyn Host = &bed.host;
    host.http().send(&Request::new(method, url)).unwrap();
    bed.host.requests();
}

/// Returns the secrets for which tokens were asked since the last call.
pub(crate) fn tried(bed: &CloudBed) -> Vec<String> {
    let of = |request: Request| {
        let form = String::from_utf8(request.body).ok()?;
        let secret = form.split('&').find_map(|pair| pair.strip_prefix("client_secret="))?;
        Some(secret.to_owned())
    };
    bed.host.requests().into_iter().filter_map(of).collect()
}

/// Lets the next request fail without an answer.
pub(crate) fn lose_request(bed: &CloudBed) {
    bed.host.refuse("send", Failure::new(FailureKind::Unreachable, "down"));
}
