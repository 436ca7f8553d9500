//! Cross-check: every token that our parser accepts is accepted by `jsonwebtoken` with the same
//! claims.
//!
//! The signatures are checked by the test bed's code, so the comparison covers everything else:
//! parts, header, key set, claims.

use super::{Claims, ExpectedClaims};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_crypto::VerifyingKey;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Validation};
use serde_json::{Map, Value, json};

const PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

struct ReferenceVerifier(Algorithm, VerifyingKey);

impl Verifier<Vec<u8>> for ReferenceVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        match self.1.verify(message, signature) {
            Ok(true) => Ok(()),
            _ => Err(signature::Error::new()),
        }
    }
}

impl JwtVerifier for ReferenceVerifier {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwk = match (key.kind(), algorithm) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, _) => {
            json!({ "kty": "RSA", "n": text(n), "e": text(e) })
        }
        (DecodingKeyKind::SecretOrDer(x), Algorithm::EdDSA) => {
            json!({ "kty": "OKP", "crv": "Ed25519", "x": text(x) })
        }
        (DecodingKeyKind::SecretOrDer(point), algorithm) => {
            let curve = if *algorithm == Algorithm::ES256 { "P-256" } else { "P-384" };
            let (x, y) = point[1..].split_at(point.len() / 2);
            json!({ "kty": "EC", "crv": curve, "x": text(x), "y": text(y) })
        }
    };
    let refused =
        |why: bulkhead_wire::failure::Failure| new_error(ErrorKind::Provider(why.message));
    let key = VerifyingKey::read(&format!("{algorithm:?}"), &jwk.to_string()).map_err(refused)?;
    Ok(Box::new(ReferenceVerifier(*algorithm, key)))
}

/// Checks a token that our parser accepted with `key`, a JWK. Skips ES512, which the library does
/// not support.
#[track_caller]
pub(super) fn agrees(token: &str, key: &str, expected: &ExpectedClaims<'_>, proven: &Claims) {
    // Another test of this process may have installed the provider before.
    PROVIDER.install_default().ok();
    if serde_json::from_str::<Value>(key).expect("a JWK")["crv"] == "P-521" {
        return;
    }
    let header = jsonwebtoken::decode_header(token).expect("a header");
    let mut validation = Validation::new(header.alg);
    // The test's clock is not the system's clock.
    validation.validate_exp = false;
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.audience]);
    let jwk: Jwk = serde_json::from_str(key).expect("a JWK");
    let key = DecodingKey::from_jwk(&jwk).expect("a key");
    let decoded = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation);
    assert_eq!(&decoded.expect("the second library accepts the token").claims, proven.all());
}
