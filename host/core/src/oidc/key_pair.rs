//! Making keys and signing with them.
//!
//! The attack this file stops: a private key where it does not belong. Its bytes have no `Debug`,
//! are wiped from memory, and are read by what signs and by what seals them in the store alone.

use super::algorithm::Algorithm;
use super::public_key::{self, PublicKey};
use crate::random;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, Ed25519KeyPair,
    KeyPair as _, RsaEncoding, RsaKeyPair, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_wire::failure::Failure;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use zeroize::Zeroizing;

/// A private key, as PKCS#8; in base64 where it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PrivateKey(Zeroizing<Vec<u8>>);

/// The public half of a key, with the name by which tokens refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedKey {
    /// A uuid.
    pub(super) kid: String,
    pub(super) alg: Algorithm,
    #[serde(flatten)]
    pub(super) public: PublicKey,
}

/// A key that signs, or will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SigningKey {
    #[serde(flatten)]
    pub(super) published: PublishedKey,
    private: PrivateKey,
}

/// What keys of an algorithm sign with, and are read with.
enum Scheme {
    Rsa {
        signs: &'static dyn RsaEncoding,
        reads: &'static RsaParameters,
    },
    Ecdsa {
        signs: &'static EcdsaSigningAlgorithm,
        reads: &'static EcdsaVerificationAlgorithm,
        curve: &'static str,
    },
    Ed25519,
}

impl Algorithm {
    fn scheme(self) -> Scheme {
        match self {
            Self::Rs256 => Scheme::Rsa {
                signs: &signature::RSA_PKCS1_SHA256,
                reads: &signature::RSA_PKCS1_2048_8192_SHA256,
            },
            Self::Rs384 => Scheme::Rsa {
                signs: &signature::RSA_PKCS1_SHA384,
                reads: &signature::RSA_PKCS1_2048_8192_SHA384,
            },
            Self::Rs512 => Scheme::Rsa {
                signs: &signature::RSA_PKCS1_SHA512,
                reads: &signature::RSA_PKCS1_2048_8192_SHA512,
            },
            Self::Es256 => Scheme::Ecdsa {
                signs: &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
                reads: &signature::ECDSA_P256_SHA256_FIXED,
                curve: "P-256",
            },
            Self::Es384 => Scheme::Ecdsa {
                signs: &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
                reads: &signature::ECDSA_P384_SHA384_FIXED,
                curve: "P-384",
            },
            Self::Es512 => Scheme::Ecdsa {
                signs: &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
                reads: &signature::ECDSA_P521_SHA512_FIXED,
                curve: "P-521",
            },
            Self::EdDsa => Scheme::Ed25519,
        }
    }
}

impl SigningKey {
    /// Makes a key. An RSA key takes some tenths of a second of a processor.
    ///
    /// # Errors
    /// 500 when the machine's random generator fails.
    pub(super) fn make(alg: Algorithm) -> Result<Self, Failure> {
        let made = match alg.scheme() {
            Scheme::Rsa { .. } => make_rsa(),
            Scheme::Ecdsa { signs, curve, .. } => make_ecdsa(signs, curve),
            Scheme::Ed25519 => make_ed25519(),
        };
        let (private, public) =
            made.ok_or_else(|| Failure::internal(format!("no {} key was made", alg.word())))?;
        let published = PublishedKey { kid: random::uuid()?, alg, public };
        Ok(Self { published, private })
    }

    /// The signature of `message`. Takes about a millisecond with RSA.
    ///
    /// # Errors
    /// 500 when the stored key is none.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let (alg, PrivateKey(private)) = (self.published.alg, &self.private);
        let signed = match alg.scheme() {
            Scheme::Rsa { signs, .. } => sign_rsa(signs, private, message),
            Scheme::Ecdsa { signs, .. } => EcdsaKeyPair::from_pkcs8(signs, private)
                .map_err(Unspecified::from)
                .and_then(|pair| pair.sign(&SystemRandom::new(), message))
                .map(|signed| signed.as_ref().to_vec()),
            Scheme::Ed25519 => Ed25519KeyPair::from_pkcs8(private)
                .map_err(Unspecified::from)
                .map(|pair| pair.sign(message).as_ref().to_vec()),
        };
        let kid = &self.published.kid;
        signed.map_err(|_| Failure::internal(format!("the {} key {kid} signs nothing", alg.word())))
    }
}

impl PublishedKey {
    /// Whether the private half of this key signed `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verifies = |by: &'static dyn VerificationAlgorithm, key: Vec<u8>| {
            UnparsedPublicKey::new(by, key).verify(message, signature).is_ok()
        };
        match (self.alg.scheme(), &self.public) {
            (Scheme::Rsa { reads, .. }, PublicKey::Rsa { n, e }) => {
                let (Some(n), Some(e)) = (public_key::bytes(n), public_key::bytes(e)) else {
                    return false;
                };
                RsaPublicKeyComponents { n, e }.verify(reads, message, signature).is_ok()
            }
            (Scheme::Ecdsa { reads, .. }, key) => {
                key.point().is_some_and(|key| verifies(reads, key))
            }
            (Scheme::Ed25519, PublicKey::Okp { x, .. }) => {
                public_key::bytes(x).is_some_and(|key| verifies(&signature::ED25519, key))
            }
            _ => false,
        }
    }
}

type Made = Option<(PrivateKey, PublicKey)>;

fn make_rsa() -> Made {
    let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).ok()?;
    let private: Pkcs8V1Der<'_> = pair.as_der().ok()?;
    Some((PrivateKey::of(private.as_ref()), PublicKey::of_rsa(pair.public_key().as_ref())?))
}

fn make_ecdsa(curve: &'static EcdsaSigningAlgorithm, name: &str) -> Made {
    let pair = EcdsaKeyPair::generate(curve).ok()?;
    let private = pair.to_pkcs8v1().ok()?;
    let public = PublicKey::of_point(name, pair.public_key().as_ref())?;
    Some((PrivateKey::of(private.as_ref()), public))
}

fn make_ed25519() -> Made {
    let pair = Ed25519KeyPair::generate().ok()?;
    let private = pair.to_pkcs8().ok()?;
    Some((PrivateKey::of(private.as_ref()), PublicKey::of_ed25519(pair.public_key().as_ref())))
}

fn sign_rsa(
    encoding: &'static dyn RsaEncoding,
    private: &[u8],
    message: &[u8],
) -> Result<Vec<u8>, Unspecified> {
    let pair = RsaKeyPair::from_pkcs8(private)?;
    let mut signed = vec![0; pair.public_modulus_len()];
    pair.sign(encoding, &SystemRandom::new(), message, &mut signed)?;
    Ok(signed)
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
        // What is not understood is not repeated.
        let bytes = STANDARD.decode(&*text).map_err(|_| de::Error::custom("no private key"))?;
        Ok(Self(Zeroizing::new(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"who it is";

    #[test]
    fn what_each_algorithm_signs_its_published_key_verifies_also_after_it_was_stored() {
        for alg in Algorithm::ALL {
            let made = SigningKey::make(alg).unwrap();
            let stored = serde_json::to_vec(&made).unwrap();
            let read: SigningKey = serde_json::from_slice(&stored).unwrap();
            assert_eq!(read, made);
            let signed = read.sign(MESSAGE).unwrap();
            assert!(made.published.verifies(MESSAGE, &signed), "{alg:?}");
            assert!(!made.published.verifies(b"another", &signed), "{alg:?}");
            let other = SigningKey::make(alg).unwrap().published;
            assert!(!other.verifies(MESSAGE, &signed), "{alg:?}");
            for alg in Algorithm::ALL.into_iter().filter(|other| *other != alg) {
                let misread = PublishedKey { alg, ..made.published.clone() };
                assert!(!misread.verifies(MESSAGE, &signed), "{alg:?}");
            }
        }
    }

    #[test]
    fn a_private_key_is_not_shown_and_bytes_that_are_none_sign_nothing() {
        let made = SigningKey::make(Algorithm::EdDsa).unwrap();
        let shown = format!("{made:?}");
        assert!(shown.contains("PrivateKey(hidden)"), "{shown}");
        for alg in Algorithm::ALL {
            let (private, published) = (PrivateKey::of(b"no key"), made.published.clone());
            let wrong = SigningKey { private, published: PublishedKey { alg, ..published } };
            assert!(wrong.sign(MESSAGE).is_err(), "{alg:?}");
        }
        let refused = serde_json::from_str::<PrivateKey>(r#""c4n4ry!""#).unwrap_err();
        assert!(!refused.to_string().contains("c4n4ry"), "{refused}");
    }
}
