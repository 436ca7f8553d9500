//! Signs tokens like an identity provider, with RSA keys that are generated on demand. Tests choose
//! any headers and claims, also wrong ones.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_RSA_SHA256};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use std::sync::Arc;

/// A key with its published name. Cheap to clone.
#[derive(Clone)]
pub struct Signer {
    pub kid: String,
    key: Arc<RsaKeyPair>,
}

impl Signer {
    pub fn new(kid: &str) -> Self {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("an RSA key");
        Self { kid: kid.to_owned(), key: Arc::new(key) }
    }

    /// Returns the same key under another name.
    #[must_use]
    pub fn named(&self, kid: &str) -> Self {
        Self { kid: kid.to_owned(), key: Arc::clone(&self.key) }
    }

    /// Signs a token with the usual header: RS256 and the key's name.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({ "alg": "RS256", "typ": "JWT", "kid": self.kid }), claims)
    }

    /// Signs a token with this header. The signature is RS256 under any header.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.token_of(&header.to_string(), &claims.to_string())
    }

    /// Like [`Signer::token_with`], for texts that no JSON library would write.
    pub fn token_of(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", part(header.as_bytes()), part(claims.as_bytes()));
        let signature = self.sign(signed.as_bytes());
        format!("{signed}.{}", part(&signature))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = SystemRandom::new();
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
        signed.expect("a signature");
        signature
    }

    /// Returns the claims of a token, if this key signed the token by RS256.
    pub fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let public = self.key.public_key().as_ref();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?)
            .ok()?;
        unverified(token).map(|[_, claims]| claims)
    }

    /// Returns the public key as a member of a JWK set.
    pub fn jwk(&self) -> Value {
        let [modulus, exponent] = integers(self.key.public_key().as_ref());
        let certificate = STANDARD.encode(self.certificate_der());
        json!({
            "kty": "RSA", "use": "sig", "kid": self.kid, "x5t": self.kid,
            "n": part(&modulus), "e": part(&exponent), "x5c": [certificate],
        })
    }

    /// Returns the public key in a self-signed X.509 certificate in PEM.
    pub fn certificate(&self) -> String {
        let text = STANDARD.encode(self.certificate_der());
        let lines: Vec<String> =
            text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }

    fn certificate_der(&self) -> Vec<u8> {
        let key = PrivatePkcs8KeyDer::from(self.pkcs8_der());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_RSA_SHA256).expect("a key");
        let mut own = CertificateParams::new(Vec::new()).expect("no names");
        own.distinguished_name.push(DnType::CommonName, "federated-signon");
        own.self_signed(&key).expect("a certificate").der().to_vec()
    }

    fn pkcs8_der(&self) -> Vec<u8> {
        let der: Pkcs8V1Der<'static> = self.key.as_der().expect("a key can be written");
        der.as_ref().to_vec()
    }

    /// Returns the private key as PKCS #8 in PEM.
    pub fn private_pem(&self) -> String {
        let text = STANDARD.encode(self.pkcs8_der());
        let lines: Vec<String> =
            text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into()).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }
}

/// Decodes header and claims of a token without checking the signature.
pub fn unverified(token: &str) -> Option<[Value; 2]> {
    let mut parts = token.split('.');
    let mut next = || {
        let bytes = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    Some([next()?, next()?])
}

/// Returns `true` if a key of a JWK set signed the token by RS256.
pub fn is_signed(key: &Value, token: &str) -> bool {
    let part = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str()?).ok();
    let (Some(n), Some(e)) = (part("n"), part("e")) else { return false };
    let Some((signed, signature)) = token.rsplit_once('.') else { return false };
    let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
    let public = RsaPublicKeyComponents { n, e };
    public.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).is_ok()
}

fn part(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns modulus and exponent of an `RSAPublicKey` (RFC 8017), without the leading zero of the
/// sign.
fn integers(der: &[u8]) -> [Vec<u8>; 2] {
    let (_, body, _) = element(der);
    let (_, modulus, rest) = element(body);
    let (_, exponent, _) = element(rest);
    let bare = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    [bare(modulus), bare(exponent)]
}

/// Returns the tag and the content of the first element, and the bytes behind the element.
fn element(der: &[u8]) -> (u8, &[u8], &[u8]) {
    let (tag, first) = (der[0], usize::from(der[1]));
    let (length, head) = match first.checked_sub(0x80) {
        None => (first, 2),
        Some(count) => {
            let bytes = &der[2..2 + count];
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), 2 + count)
        }
    };
    (tag, &der[head..head + length], &der[head + length..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_verified_only_by_own_key() {
        let (one, other) = (Signer::new("1"), Signer::new("2"));
        let token = one.token(&json!({ "sub": "a" }));
        assert_eq!(one.claims(&token), Some(json!({ "sub": "a" })));
        assert_eq!(other.claims(&token), None);
        let jwk = one.jwk();
        assert!(is_signed(&jwk, &token) && !is_signed(&other.jwk(), &token));
        let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
        assert_eq!((modulus.len(), jwk["e"].as_str()), (256, Some("AQAB")));
        assert!(one.certificate().starts_with("-----BEGIN CERTIFICATE-----\nMI"));
        assert!(one.private_pem().contains("BEGIN PRIVATE KEY"));
    }
}
