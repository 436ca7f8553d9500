//! A mount with a configuration, a role and an issuer that signs any claims, for the tests of this
//! crate.

use crate::Jwt;
use bulkhead_sdk::crypto::GeneratedKey;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::{AuthBed, TestHost};
use bulkhead_sdk::{Failure, FailureKind, Host, Login, jwt};
use serde_json::{Map, Value, json};

/// The time of the test bed, in seconds since 1970.
pub(crate) const NOW: u64 = 1_893_456_000;
pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const DISCOVERY: &str = "GET https://issuer.example/.well-known/openid-configuration";
pub(crate) const KEYS: &str = "GET https://issuer.example/keys";

/// A mount with the role `dev`, and a key of its issuer.
pub(crate) struct Stage {
    pub(crate) bed: AuthBed<Jwt>,
    pub(crate) key: GeneratedKey,
}

/// Generates a key.
pub(crate) fn key(kind: &str, bits: u32) -> GeneratedKey {
    let host = TestHost::default();
    (&host as &dyn Host).crypto().generate_key(kind, bits, "pkcs8").ok().unwrap()
}

/// Returns `base` with the members of `over`; null removes a member.
pub(crate) fn changed(mut base: Value, over: &Value) -> Value {
    for (name, value) in over.as_object().unwrap() {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(name)),
            value => base[name] = value.clone(),
        }
    }
    base
}

/// Returns a set with these keys and ids; a key without an id has none.
pub(crate) fn key_set(named: &[(&str, &GeneratedKey)]) -> Value {
    let of = |(id, key): &(&str, &GeneratedKey)| {
        let mut jwk: Value = serde_json::from_str(&key.public_key.jwk).unwrap();
        if !id.is_empty() {
            jwk["kid"] = json!(id);
        }
        jwk
    };
    json!({"keys": named.iter().map(of).collect::<Vec<_>>()})
}

/// Returns an answer of a server.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

/// Returns usual claims, changed by `over`.
pub(crate) fn claims(over: &Value) -> Map<String, Value> {
    let usual = json!({
        "iss": ISSUER, "sub": "web", "aud": "bulkhead", "iat": NOW, "exp": NOW + 300,
    });
    changed(usual, over).as_object().unwrap().clone()
}

/// Returns a token with these claims.
pub(crate) fn signed(algorithm: &str, id: Option<&str>, over: &Value, by: &GeneratedKey) -> String {
    jwt::sign(&TestHost::default(), algorithm, id, &claims(over), &by.private_key).unwrap()
}

/// Returns the message of a refusal, which must be the caller's mistake.
#[track_caller]
pub(crate) fn message<T>(refused: Result<T, Failure>) -> String {
    let why = refused.err().expect("the login is refused");
    assert_eq!(why.kind, FailureKind::InvalidRequest, "{}", why.message);
    why.message
}

impl Stage {
    /// A mount without a configuration.
    pub(crate) fn empty() -> Self {
        Self { bed: AuthBed::new().unwrap(), key: key("ec", 256) }
    }

    /// A mount with a written key, and the role `dev`, changed by `role`.
    pub(crate) fn new(role: &Value) -> Self {
        let stage = Self::empty();
        stage.configure(&json!({"jwt_validation_pubkeys": stage.key.public_key.pem}));
        stage.role(role);
        stage
    }

    /// A mount whose keys come from the issuer's discovery document.
    pub(crate) fn discovering(role: &Value) -> Self {
        let stage = Self::empty();
        let document = json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")});
        stage.bed.host.answer(DISCOVERY, answer(200, &document));
        stage.publish(&[("k1", &stage.key)]);
        stage.configure(&json!({"oidc_discovery_url": ISSUER}));
        stage.role(role);
        stage.bed.host.requests();
        stage
    }

    /// Arranges a further answer of the server of keys.
    pub(crate) fn publish(&self, named: &[(&str, &GeneratedKey)]) {
        self.bed.host.answer(KEYS, answer(200, &key_set(named)));
    }

    #[track_caller]
    pub(crate) fn configure(&self, config: &Value) {
        self.bed.write("config", config).unwrap();
    }

    /// Writes the role `dev`.
    #[track_caller]
    pub(crate) fn role(&self, over: &Value) {
        let usual = json!({"user_claim": "sub", "bound_audiences": "bulkhead"});
        self.bed.write("role/dev", &changed(usual, over)).unwrap();
    }

    /// Returns a token by the key of this stage, with the key id `k1`.
    pub(crate) fn token(&self, over: &Value) -> String {
        signed("ES256", Some("k1"), over, &self.key)
    }

    /// Logs in with these claims.
    pub(crate) fn login(&self, over: &Value) -> Result<Login, Failure> {
        self.login_with(&self.token(over))
    }

    /// Logs in with this token.
    pub(crate) fn login_with(&self, jwt: &str) -> Result<Login, Failure> {
        self.bed.login("login", &json!({"role": "dev", "jwt": jwt}))
    }

    /// Returns the message of a refused login with these claims.
    #[track_caller]
    pub(crate) fn refusal(&self, over: &Value) -> String {
        message(self.login(over))
    }
}
