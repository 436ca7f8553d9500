//! `jsonwebtoken` reads tokens signed by the provider, as a reader of another make does: the reader
//! knows the published set of keys and nothing else.

use crate::bed::Bed;
use crate::identity::text;
use crate::oidc::opened;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_wire::description::Verb;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

const ISSUER: &str = "https://bulkhead.example.com:8200/v1/identity/oidc";

impl Bed {
    /// A token about the caller, signed by a new key of that algorithm.
    async fn signed_by(&self, caller: &str, algorithm: &str) -> String {
        let key = json!({"algorithm": algorithm, "allowed_client_ids": ["web"]});
        self.written(&format!("identity/oidc/key/{algorithm}"), key).await;
        let template = r#"{"name": {{identity.entity.name}}, "groups": ["a", "b"]}"#;
        let role = json!({"key": algorithm, "client_id": "web", "template": template});
        self.written(&format!("identity/oidc/role/{algorithm}"), role).await;
        let path = format!("identity/oidc/token/{algorithm}");
        let (status, answer) = self.call_as(caller, Verb::Read, &path, json!({})).await;
        assert_eq!(status, 200, "{answer}");
        text(&answer["data"]["token"]).to_owned()
    }
}

/// The claims, if a key of the set verifies the token.
fn verified(token: &str, keys: &JwkSet, algorithm: Algorithm) -> Option<Value> {
    let header = jsonwebtoken::decode_header(token).unwrap();
    assert_eq!((header.alg, header.typ.as_deref()), (algorithm, Some("JWT")));
    let key = keys.find(header.kid.as_deref().unwrap())?;
    let mut validation = Validation::new(algorithm);
    validation.set_issuer(&[ISSUER]);
    validation.set_audience(&["web"]);
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    let key = DecodingKey::from_jwk(key).unwrap();
    jsonwebtoken::decode(token, &key, &validation).map(|decoded| decoded.claims).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn independent_library_verifies_tokens_of_all_known_algorithms() {
    let bed = Bed::with_issuer("opinion").await;
    let (eve, _) = bed.eve().await;
    for algorithm in ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"] {
        let token = bed.signed_by(&eve, algorithm).await;
        assert!(bed.is_active(&token, "web").await, "{algorithm}: our own reader");
        let published = bed.read("identity/oidc/.well-known/keys").await.1;
        let keys: JwkSet = serde_json::from_value(published).unwrap();
        let Ok(parsed_algorithm) = algorithm.parse() else {
            assert_eq!(algorithm, "ES512", "the only one that the library does not know");
            continue;
        };
        assert_eq!(
            verified(&token, &keys, parsed_algorithm),
            Some(opened(&token)[1].clone()),
            "{algorithm}"
        );
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (head, _) = message.split_once('.').unwrap();
        let mut other = opened(&token)[1].clone();
        other["sub"] = json!("another");
        let forged = format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(other.to_string()));
        assert_eq!(verified(&forged, &keys, parsed_algorithm), None, "{algorithm}");
        assert!(!bed.is_active(&forged, "web").await, "{algorithm}");
    }
    bed.end().await;
}
