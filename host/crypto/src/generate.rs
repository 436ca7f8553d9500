//! Generation of new keys.

use crate::asn1::inner_key;
use crate::kind::KeyKind;
use crate::pem;
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair,
};
use bulkhead_wire::failure::{Failure, quoted};
use zeroize::Zeroizing;

/// The parameters of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParameters {
    kind: KeyKind,
    /// Size of an RSA key; `None` for other kinds.
    size: Option<KeySize>,
    form: KeyFormat,
}

/// The format of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// `PRIVATE KEY`, for every kind of key.
    Pkcs8,
    /// `RSA PRIVATE KEY` and `EC PRIVATE KEY`, for older programs.
    Traditional,
}

/// A new key pair.
pub struct GeneratedKeyPair {
    /// Private key in PEM.
    pub private_key: Zeroizing<String>,
    /// Public key.
    pub public_key: PublicKey,
}

impl KeyParameters {
    /// Parses the parameters: `rsa` with 2048, 3072 or 4096 bits, `ec` with 256, 384 or 521, or
    /// `ed25519`; in the form `pkcs8` or `traditional`. 0 bits means the default: 2048 for RSA,
    /// else 256.
    ///
    /// # Errors
    /// Invalid request for other words and numbers.
    pub fn read(kind: &str, bits: u32, form: &str) -> Result<Self, Failure> {
        let (kind, size) = match (kind, bits) {
            ("rsa", 0 | 2_048) => (KeyKind::Rsa, Some(KeySize::Rsa2048)),
            ("rsa", 3_072) => (KeyKind::Rsa, Some(KeySize::Rsa3072)),
            ("rsa", 4_096) => (KeyKind::Rsa, Some(KeySize::Rsa4096)),
            ("ec", 0 | 256) => (KeyKind::P256, None),
            ("ec", 384) => (KeyKind::P384, None),
            ("ec", 521) => (KeyKind::P521, None),
            ("ed25519", 0 | 256) => (KeyKind::Ed25519, None),
            _ => {
                let kind = quoted(kind);
                return Err(Failure::invalid(format!(
                    "no key of kind {kind} and {bits} bits is made: rsa of 2048, 3072 or 4096, ec \
                     of 256, 384 or 521, or ed25519"
                )));
            }
        };
        let form = match form {
            "pkcs8" => KeyFormat::Pkcs8,
            "traditional" => KeyFormat::Traditional,
            other => {
                let form = quoted(other);
                return Err(Failure::invalid(format!("{form} is neither pkcs8 nor traditional")));
            }
        };
        Ok(Self { kind, size, form })
    }

    /// Returns the bits of the RSA key to generate, or `None` for other kinds. Generating an RSA
    /// key takes tenths of a second.
    #[must_use]
    pub fn rsa_bits(self) -> Option<u32> {
        self.size.and_then(|size| u32::try_from(size.len().saturating_mul(8)).ok())
    }

    /// Generates the key.
    ///
    /// # Errors
    /// Internal if the host's library fails.
    pub fn generate_key(self) -> Result<GeneratedKeyPair, Failure> {
        let pkcs8 = self.pkcs8().map_err(|_| generation_failure())?;
        let private_key = Zeroizing::new(self.encode_private_key(&pkcs8)?);
        let public_key = PrivateKey::read(&private_key)?.public()?;
        Ok(GeneratedKeyPair { private_key, public_key })
    }

    fn pkcs8(self) -> Result<Zeroizing<Vec<u8>>, Unspecified> {
        match self.kind {
            KeyKind::Rsa => {
                let pair = RsaKeyPair::generate(self.size.unwrap_or(KeySize::Rsa2048))?;
                let der: Pkcs8V1Der<'_> = pair.as_der()?;
                Ok(Zeroizing::new(der.as_ref().to_vec()))
            }
            KeyKind::P256 => elliptic(&ECDSA_P256_SHA256_ASN1_SIGNING),
            KeyKind::P384 => elliptic(&ECDSA_P384_SHA384_ASN1_SIGNING),
            KeyKind::P521 => elliptic(&ECDSA_P521_SHA512_ASN1_SIGNING),
            KeyKind::Ed25519 => {
                let document = Ed25519KeyPair::generate()?.to_pkcs8v1()?;
                Ok(Zeroizing::new(document.as_ref().to_vec()))
            }
        }
    }

    fn encode_private_key(self, pkcs8: &[u8]) -> Result<String, Failure> {
        match (self.form, self.kind) {
            (KeyFormat::Pkcs8, _) | (KeyFormat::Traditional, KeyKind::Ed25519) => {
                Ok(pem::encode_pem("PRIVATE KEY", pkcs8))
            }
            (KeyFormat::Traditional, KeyKind::Rsa) => {
                let inner = Zeroizing::new(inner_key(pkcs8).map_err(|_| generation_failure())?);
                Ok(pem::encode_pem("RSA PRIVATE KEY", &inner))
            }
            (KeyFormat::Traditional, curve) => {
                let inner = Zeroizing::new(inner_key(pkcs8).map_err(|_| generation_failure())?);
                let named = crate::private_key::with_curve(curve, &inner)?;
                Ok(pem::encode_pem("EC PRIVATE KEY", &named))
            }
        }
    }
}

fn elliptic(algorithm: &'static EcdsaSigningAlgorithm) -> Result<Zeroizing<Vec<u8>>, Unspecified> {
    let document = EcdsaKeyPair::generate(algorithm)?.to_pkcs8v1()?;
    Ok(Zeroizing::new(document.as_ref().to_vec()))
}

fn generation_failure() -> Failure {
    Failure::internal("the host's library made no key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{VerifyingKey, sign};

    #[test]
    fn every_generated_key_signs_and_public_half_verifies() {
        for (kind, bits, traditional, algorithm) in [
            ("rsa", 0, "RSA PRIVATE KEY", "PS384"),
            ("rsa", 3_072, "RSA PRIVATE KEY", "RS256"),
            ("ec", 256, "EC PRIVATE KEY", "ES256"),
            ("ec", 384, "EC PRIVATE KEY", "ES384"),
            ("ec", 521, "EC PRIVATE KEY", "ES512"),
            ("ed25519", 0, "PRIVATE KEY", "EdDSA"),
        ] {
            for (form, label) in [("pkcs8", "PRIVATE KEY"), ("traditional", traditional)] {
                let key_pair =
                    KeyParameters::read(kind, bits, form).unwrap().generate_key().unwrap();
                assert!(key_pair.private_key.starts_with(&format!("-----BEGIN {label}-----\n")));
                assert_eq!(key_pair.public_key.kind().word(), kind);
                let least = if kind == "rsa" { 2_048 } else { 256 };
                assert_eq!(key_pair.public_key.bits(), bits.max(least));
                let key = PrivateKey::read(&key_pair.private_key).unwrap();
                let signature = sign(algorithm, &key, b"message").unwrap();
                for text in [key_pair.public_key.pem().unwrap(), key_pair.public_key.jwk().unwrap()]
                {
                    let public = VerifyingKey::read(algorithm, &text).unwrap();
                    assert_eq!(public.verify(b"message", &signature), Ok(true), "{text}");
                    assert_eq!(public.verify(b"massage", &signature), Ok(false), "{text}");
                }
            }
        }
    }

    #[test]
    fn keys_that_prove_nothing_are_not_made() {
        for (kind, bits) in
            [("rsa", 1_024), ("rsa", 2_047), ("rsa", 8_192), ("ec", 224), ("dsa", 0), ("", 0)]
        {
            assert!(KeyParameters::read(kind, bits, "pkcs8").is_err(), "{kind} {bits}");
        }
        assert!(KeyParameters::read("ec", 256, "openssh").is_err());
    }
}
