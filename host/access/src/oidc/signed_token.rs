//! Signed claims: a JSON Web Token in compact form, made by `jsonwebtoken`. The library lacks
//! ES512, so this file assembles ES512 tokens.

use super::crypto_provider;
use super::key_pair::TokenSigningKey;
use super::named_key::NamedKey;
use super::provider::OidcProvider;
use super::public_key;
use bulkhead_wire::failure::Failure;
use jsonwebtoken::Header;
use serde_json::{Value, json};

impl OidcProvider {
    /// Signs the claims with the key.
    ///
    /// # Errors
    /// 500 when the stored key is damaged.
    pub(super) async fn sign(&self, key: &NamedKey, claims: Value) -> Result<String, Failure> {
        let signing = key.signing().clone();
        self.compute(move || sign(&signing, &claims)).await
    }

    /// Returns store time in seconds since 1970, the unit of tokens.
    pub(super) fn now(&self) -> u64 {
        self.store.now() / 1_000
    }
}

fn sign(key: &TokenSigningKey, claims: &Value) -> Result<String, Failure> {
    let published = &key.published;
    if let Some(algorithm) = published.alg.in_library() {
        crypto_provider::install()?;
        let kid = Some(published.kid.clone());
        let header = Header { kid, ..Header::new(algorithm) };
        return jsonwebtoken::encode(&header, claims, &key.encoding_key())
            .map_err(|_| key.signs_nothing());
    }
    let header = json!({ "alg": published.alg, "kid": published.kid, "typ": "JWT" });
    let part = |value: &Value| public_key::encode_base64(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = public_key::encode_base64(&key.sign(message.as_bytes())?);
    Ok(format!("{message}.{signature}"))
}

#[cfg(test)]
mod tests {
    use super::super::TokenAlgorithm;
    use super::*;

    #[test]
    fn signed_token_has_three_parts_and_key_id() {
        for alg in TokenAlgorithm::ALL {
            let key = TokenSigningKey::make(alg).unwrap();
            let token = sign(&key, &json!({"sub": "me"})).unwrap();
            let parts: Vec<Vec<u8>> =
                token.split('.').map(|part| public_key::bytes(part).unwrap()).collect();
            let json = |part: &[u8]| serde_json::from_slice::<Value>(part).unwrap();
            let header = json!({"alg": alg, "kid": key.published.kid, "typ": "JWT"});
            assert_eq!([json(&parts[0]), json(&parts[1])], [header, json!({"sub": "me"})]);
            let (message, _) = token.rsplit_once('.').unwrap();
            assert_eq!(parts.len(), 3);
            assert!(key.published.verifies(message.as_bytes(), &parts[2]), "{alg:?}");
        }
    }
}
