//! Creation of signing keys, and signing.
//!
//! This file prevents a private key from leaking. `Debug` hides its bytes, memory is wiped, and
//! only signing and the store's sealing read the bytes.

use super::algorithm::TokenAlgorithm;
use super::public_key::PublicJwk;
use crate::random;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    KeyPair as _,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_crypto::{VerifyingKey, encode_pem};
use bulkhead_wire::failure::Failure;
use jsonwebtoken::errors::Error;
use jsonwebtoken::{DecodingKey, EncodingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use zeroize::Zeroizing;

/// A private key as PKCS#8, stored in base64.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PrivateKey(Zeroizing<Vec<u8>>);

/// The public half of a key, with the key id that tokens contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedKey {
    /// Key id, a UUID.
    pub(super) kid: String,
    pub(super) alg: TokenAlgorithm,
    #[serde(flatten)]
    pub(super) public: PublicJwk,
}

/// A key that signs, or that will sign next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSigningKey {
    #[serde(flatten)]
    pub(super) published: PublishedKey,
    private: PrivateKey,
}

/// The key type of an algorithm.
enum KeyType {
    Rsa,
    Elliptic(&'static EcdsaSigningAlgorithm, &'static str),
    Ed25519,
}

impl TokenAlgorithm {
    fn kind(self) -> KeyType {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 => KeyType::Rsa,
            Self::Es256 => KeyType::Elliptic(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"),
            Self::Es384 => KeyType::Elliptic(&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384"),
            Self::Es512 => KeyType::Elliptic(&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521"),
            Self::EdDsa => KeyType::Ed25519,
        }
    }

    /// Returns the curve of the algorithm's keys, as published keys name it.
    pub(super) fn curve(self) -> Option<&'static str> {
        match self.kind() {
            KeyType::Rsa => None,
            KeyType::Elliptic(_, name) => Some(name),
            KeyType::Ed25519 => Some("Ed25519"),
        }
    }
}

impl TokenSigningKey {
    /// Creates a key. An RSA key takes several tenths of a second of CPU time.
    ///
    /// # Errors
    /// 500 when the machine's random generator fails.
    pub(super) fn make(alg: TokenAlgorithm) -> Result<Self, Failure> {
        let key_pair = match alg.kind() {
            KeyType::Rsa => make_rsa(),
            KeyType::Elliptic(curve, name) => make_ecdsa(curve, name),
            KeyType::Ed25519 => make_ed25519(),
        };
        let (private, public) =
            key_pair.ok_or_else(|| Failure::internal(format!("no {} key was made", alg.word())))?;
        let published = PublishedKey { kid: random::uuid()?, alg, public };
        Ok(Self { published, private })
    }

    /// Returns the signature of `message`. RSA takes about a millisecond.
    ///
    /// # Errors
    /// 500 when the stored key is damaged.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let (alg, PrivateKey(private)) = (self.published.alg, &self.private);
        let pem = Zeroizing::new(encode_pem("PRIVATE KEY", private));
        bulkhead_crypto::PrivateKey::read(&pem)
            .and_then(|key| bulkhead_crypto::sign(alg.word(), &key, message))
            .map_err(|_| self.signs_nothing())
    }

    /// Returns the failure for a damaged stored key.
    pub(super) fn signs_nothing(&self) -> Failure {
        let (alg, kid) = (self.published.alg.word(), &self.published.kid);
        Failure::internal(format!("the {alg} key {kid} signs nothing"))
    }

    /// Returns the private half for `jsonwebtoken`, which wipes its copy too.
    pub(super) fn encoding_key(&self) -> EncodingKey {
        let PrivateKey(private) = &self.private;
        match self.published.alg.kind() {
            KeyType::Rsa => EncodingKey::from_rsa_der(private),
            KeyType::Elliptic(..) => EncodingKey::from_ec_der(private),
            KeyType::Ed25519 => EncodingKey::from_ed_der(private),
        }
    }
}

impl PublishedKey {
    /// Returns whether the private half of this key signed `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = VerifyingKey::read(self.alg.word(), &self.public.jwk());
        key.and_then(|key| key.verify(message, signature)) == Ok(true)
    }

    /// Returns the key for `jsonwebtoken`.
    ///
    /// # Errors
    /// Refuses a key with numbers that are not valid base64.
    pub(super) fn decoding_key(&self) -> Result<DecodingKey, Error> {
        match &self.public {
            PublicJwk::Rsa { n, e } => DecodingKey::from_rsa_components(n, e),
            PublicJwk::Ec { x, y, .. } => DecodingKey::from_ec_components(x, y),
            PublicJwk::Okp { x, .. } => DecodingKey::from_ed_components(x),
        }
    }
}

type NewKeyPair = Option<(PrivateKey, PublicJwk)>;

fn make_rsa() -> NewKeyPair {
    let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).ok()?;
    let private: Pkcs8V1Der<'_> = pair.as_der().ok()?;
    Some((PrivateKey::of(private.as_ref()), PublicJwk::of_rsa(pair.public_key().as_ref())?))
}

fn make_ecdsa(curve: &'static EcdsaSigningAlgorithm, name: &str) -> NewKeyPair {
    let pair = EcdsaKeyPair::generate(curve).ok()?;
    let private = pair.to_pkcs8v1().ok()?;
    let public = PublicJwk::of_point(name, pair.public_key().as_ref())?;
    Some((PrivateKey::of(private.as_ref()), public))
}

fn make_ed25519() -> NewKeyPair {
    let pair = Ed25519KeyPair::generate().ok()?;
    let private = pair.to_pkcs8().ok()?;
    Some((PrivateKey::of(private.as_ref()), PublicJwk::of_ed25519(pair.public_key().as_ref())))
}

impl PrivateKey {
    fn of(pkcs8: &[u8]) -> Self {
        Self(Zeroizing::new(pkcs8.to_vec()))
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(hidden)")
    }
}

impl Serialize for PrivateKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(STANDARD.encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for PrivateKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        // The error must not repeat text that may be part of a key.
        let bytes = STANDARD.decode(&*text).map_err(|_| de::Error::custom("no private key"))?;
        Ok(Self(Zeroizing::new(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"who it is";

    #[test]
    fn published_key_verifies_signatures_before_and_after_storage() {
        for alg in TokenAlgorithm::ALL {
            let key = TokenSigningKey::make(alg).unwrap();
            let stored = serde_json::to_vec(&key).unwrap();
            let read: TokenSigningKey = serde_json::from_slice(&stored).unwrap();
            assert_eq!(read, key);
            let signed = read.sign(MESSAGE).unwrap();
            assert!(key.published.verifies(MESSAGE, &signed), "{alg:?}");
            assert!(!key.published.verifies(b"another", &signed), "{alg:?}");
            let other = TokenSigningKey::make(alg).unwrap().published;
            assert!(!other.verifies(MESSAGE, &signed), "{alg:?}");
            for alg in TokenAlgorithm::ALL.into_iter().filter(|other| *other != alg) {
                let misread = PublishedKey { alg, ..key.published.clone() };
                assert!(!misread.verifies(MESSAGE, &signed), "{alg:?}");
            }
        }
    }

    #[test]
    fn private_key_is_hidden_and_invalid_bytes_fail() {
        let key = TokenSigningKey::make(TokenAlgorithm::EdDsa).unwrap();
        let shown = format!("{key:?}");
        assert!(shown.contains("PrivateKey(hidden)"), "{shown}");
        for alg in TokenAlgorithm::ALL {
            let (private, published) = (PrivateKey::of(b"no key"), key.published.clone());
            let wrong = TokenSigningKey { private, published: PublishedKey { alg, ..published } };
            assert!(wrong.sign(MESSAGE).is_err(), "{alg:?}");
        }
        let refused = serde_json::from_str::<PrivateKey>(r#""c4n4ry!""#).unwrap_err();
        assert!(!refused.to_string().contains("c4n4ry"), "{refused}");
    }
}
