//! The stage on which the tests of every noun begin: a bed with a configuration, an issuer that
//! signs what a test wants, and a cloud whose answers are arranged.

use crate::CloudA;
use crate::arm_id::ArmId;
use bulkhead_sdk::crypto::GeneratedKey;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::{AuthBed, TestHost};
use bulkhead_sdk::{Failure, Host, Login, jwt};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

pub(crate) const TENANT: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const SUBSCRIPTION: &str = "51111111-2222-3333-4444-555555555555";
pub(crate) const CLIENT: &str = "c1111111-2222-3333-4444-555555555555";
/// The machine's own identity, one that was given to it, and the application of that one.
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

/// The bed of the tests.
pub(crate) type Bed = AuthBed<CloudA>;

/// A key of the issuer; each number is another one.
pub(crate) fn key(number: usize) -> &'static GeneratedKey {
    static KEYS: [OnceLock<GeneratedKey>; 2] = [OnceLock::new(), OnceLock::new()];
    KEYS[number].get_or_init(|| {
        let host = TestHost::default();
        (&host as &dyn Host).crypto().generate_key("rsa", 2_048, "pkcs8").ok().unwrap()
    })
}

/// A set of keys with these ids.
pub(crate) fn key_set(named: &[(&str, &GeneratedKey)]) -> Value {
    let of = |(id, key): &(&str, &GeneratedKey)| {
        let mut jwk: Value = serde_json::from_str(&key.public_key.jwk).unwrap();
        jwk["kid"] = json!(id);
        jwk["use"] = json!("sig");
        jwk
    };
    json!({"keys": named.iter().map(of).collect::<Vec<_>>()})
}

/// An answer of the cloud.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

/// The method on a test bed with nothing in it.
pub(crate) fn empty() -> Bed {
    let mut bed = Bed::new().unwrap();
    bed.mount.accessor = "auth_cloud-a_1".to_owned();
    bed
}

/// A bed with a configuration, an issuer with the key `k1`, and a cloud that gives tokens.
pub(crate) fn ready() -> Bed {
    let bed = empty();
    let config = json!({
        "tenant_id": TENANT, "resource": RESOURCE, "client_id": CLIENT, "client_secret": SECRET,
    });
    bed.write("config", &config).unwrap();
    let discovery = json!({
        "issuer": ISSUER, "jwks_uri": "https://login.microsoftonline.com/common/discovery/keys",
    });
    bed.host.answer(DISCOVERY, answer(200, &discovery));
    bed.host.answer(KEYS, answer(200, &key_set(&[("k1", key(0))])));
    let token = json!({"token_type": "Bearer", "expires_in": 3_599, "access_token": "t-arm"});
    bed.host.answer(TOKEN, answer(200, &token));
    bed.host.steps();
    bed
}

/// As [`ready`], with the role `dev`.
pub(crate) fn with_role(role: &Value) -> Bed {
    let bed = ready();
    bed.write("role/dev", role).unwrap();
    bed
}

/// The id of a resource in the group `apps`.
pub(crate) fn id(kind: &str, name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/apps/providers/{kind}/{name}")
}

/// The id of a machine in the group `apps`.
pub(crate) fn machine(name: &str) -> String {
    id("Microsoft.Compute/virtualMachines", name)
}

/// The id of a scale set in the group `apps`.
pub(crate) fn scale_set(name: &str) -> String {
    id("Microsoft.Compute/virtualMachineScaleSets", name)
}

/// The id of an identity in the group `apps`.
pub(crate) fn identity(name: &str) -> String {
    id("Microsoft.ManagedIdentity/userAssignedIdentities", name)
}

/// What a machine's own identity claims, with other claims over it; null takes one away.
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

/// A token with these claims, by a key of that id.
pub(crate) fn signed(over: &Value, id: Option<&str>, by: &GeneratedKey) -> String {
    let host = TestHost::default();
    jwt::sign(&host, "RS256", id, &claims(over), &by.private_key).unwrap()
}

/// A token with these claims, by the issuer's key.
pub(crate) fn token(over: &Value) -> String {
    signed(over, Some("k1"), key(0))
}

/// Logs in by the role `dev`, with these claims and fields.
pub(crate) fn login(bed: &Bed, over: &Value, fields: &Value) -> Result<Login, Failure> {
    login_with(bed, &token(over), fields)
}

/// As [`login`], with a token as it stands.
pub(crate) fn login_with(bed: &Bed, jwt: &str, fields: &Value) -> Result<Login, Failure> {
    let mut body = json!({"role": "dev", "jwt": jwt});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    bed.login("login", &body)
}

/// The words in which a login is refused, which is the caller's mistake.
#[track_caller]
pub(crate) fn refusal(login: Result<Login, Failure>) -> String {
    let why = login.err().expect("it is refused");
    assert_eq!(why.kind, bulkhead_sdk::Kind::InvalidRequest, "{}", why.message);
    why.message
}

/// The URL under which the manager is asked for an id.
pub(crate) fn asked(id: &str, version: &str) -> String {
    let id = ArmId::parse(id).map_or_else(|| id.to_owned(), |id| id.to_string());
    format!("GET https://management.azure.com{id}?api-version={version}")
}

/// Arranges a machine: of no scale set, with its own identity and one that was given to it.
pub(crate) fn arrange_machine(bed: &Bed, name: &str, over: &Value) {
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
    bed.host.answer(&asked(&id, "2023-07-01"), answer(200, &body));
}

/// Arranges a scale set with its own identity.
pub(crate) fn arrange_scale_set(bed: &Bed, name: &str, over: &Value) {
    let id = scale_set(name);
    let mut body = json!({
        "id": id, "name": name, "location": "westus2", "identity": {"principalId": OWN},
    });
    body.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    bed.host.answer(&asked(&id, "2023-07-01"), answer(200, &body));
}

/// Arranges an identity, of that principal and application.
pub(crate) fn arrange_identity(bed: &Bed, name: &str, principal: &str, app: &str) {
    let id = identity(name);
    let body = json!({
        "id": id, "name": name, "location": "westus2",
        "properties": {"principalId": principal, "clientId": app, "tenantId": TENANT},
    });
    bed.host.answer(&asked(&id, "2023-01-31"), answer(200, &body));
}
