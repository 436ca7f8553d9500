//! Private keys: parsed for a single use, and wiped afterwards.

use crate::asn1::{EcPrivateKey, PrivateKeyInfo, RsaPrivateKey};
use crate::jwk::{self, Jwk, member};
use crate::kind::{self, KeyKind};
use crate::limits;
use crate::pem::{self, PemSection};
use crate::public_key::{PublicKey, uint};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use bulkhead_wire::failure::Failure;
use der::asn1::{BitStringRef, OctetStringRef};
use der::{Decode, Encode};
use std::fmt;
use x509_cert::spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

/// A private key. `Debug` shows only the kind.
pub struct PrivateKey {
    kind: KeyKind,
    form: KeyStructure,
    der: Zeroizing<Vec<u8>>,
    alg: Option<String>,
}

/// The DER structure of a key.
#[derive(Clone, Copy)]
enum KeyStructure {
    Pkcs8,
    Pkcs1,
    Sec1,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.kind.name())
    }
}

impl PrivateKey {
    /// Reads a JWK, or PEM (`PRIVATE KEY`, `RSA PRIVATE KEY`, `EC PRIVATE KEY`).
    ///
    /// # Errors
    /// Invalid request for an unsupported kind of private key, any other text, or an encrypted key.
    /// The parts of a PEM key are checked at first use.
    pub fn read(text: &str) -> Result<Self, Failure> {
        if jwk::is_json(text) {
            return Self::from_jwk(&Jwk::read(text)?);
        }
        let sections = pem::read("the key", text)?;
        let mut keys = sections.iter().filter(|section| section.label.ends_with("PRIVATE KEY"));
        match (keys.next(), keys.next()) {
            (Some(section), None) => Self::from_section(section),
            _ => Err(Failure::invalid("the PEM text must hold one private key")),
        }
    }

    fn from_section(section: &PemSection) -> Result<Self, Failure> {
        let der = section.bytes.clone();
        let (kind, form) = match section.label.as_str() {
            "PRIVATE KEY" => {
                let info = PrivateKeyInfo::from_der(&der).map_err(|_| damaged_failure())?;
                (
                    KeyKind::of_algorithm(&info.algorithm).ok_or_else(unsupported_failure)?,
                    KeyStructure::Pkcs8,
                )
            }
            "RSA PRIVATE KEY" => (KeyKind::Rsa, KeyStructure::Pkcs1),
            "EC PRIVATE KEY" => {
                let key = EcPrivateKey::from_der(&der).map_err(|_| damaged_failure())?;
                let curve = key.curve.and_then(KeyKind::of_curve);
                (curve.ok_or_else(unsupported_failure)?, KeyStructure::Sec1)
            }
            "ENCRYPTED PRIVATE KEY" => {
                return Err(Failure::invalid("the private key is encrypted; decrypt it first"));
            }
            _ => return Err(unsupported_failure()),
        };
        Ok(Self { kind, form, der, alg: None })
    }

    fn from_jwk(jwk: &Jwk) -> Result<Self, Failure> {
        let public = PublicKey::half_of_jwk(jwk)?;
        let secret = member("d", jwk.d.as_ref())?;
        let (form, der) = match public.kind() {
            KeyKind::Rsa => (KeyStructure::Pkcs1, rsa_of_jwk(jwk)?),
            KeyKind::Ed25519 => (KeyStructure::Pkcs8, pkcs8_of_seed(&secret)?),
            curve => (KeyStructure::Sec1, sec1(curve, &secret, public.as_bytes())?),
        };
        let key = Self { kind: public.kind(), form, der, alg: jwk.alg.clone() };
        if key.public()?.as_bytes() != public.as_bytes() {
            return Err(mismatch_failure());
        }
        Ok(key)
    }

    /// Returns the kind of the key.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    pub(crate) fn alg(&self) -> Option<&str> {
        self.alg.as_deref()
    }

    /// Returns the public half.
    ///
    /// # Errors
    /// Invalid request for a key with parts that do not belong together.
    pub fn public(&self) -> Result<PublicKey, Failure> {
        let bytes = match self.kind {
            KeyKind::Rsa => self.rsa()?.public_key().as_ref().to_vec(),
            KeyKind::Ed25519 => self.ed25519()?.public_key().as_ref().to_vec(),
            KeyKind::P256 => self.public_point(&ECDSA_P256_SHA256_ASN1_SIGNING)?,
            KeyKind::P384 => self.public_point(&ECDSA_P384_SHA384_ASN1_SIGNING)?,
            KeyKind::P521 => self.public_point(&ECDSA_P521_SHA512_ASN1_SIGNING)?,
        };
        PublicKey::check_key(self.kind, bytes)
    }

    fn public_point(&self, algorithm: &'static EcdsaSigningAlgorithm) -> Result<Vec<u8>, Failure> {
        Ok(self.ecdsa(algorithm)?.public_key().as_ref().to_vec())
    }

    /// Returns the RSA key pair, if short enough to sign in bounded time.
    pub(crate) fn rsa(&self) -> Result<RsaKeyPair, Failure> {
        let pair = match self.form {
            KeyStructure::Pkcs8 => RsaKeyPair::from_pkcs8(&self.der),
            KeyStructure::Pkcs1 | KeyStructure::Sec1 => RsaKeyPair::from_der(&self.der),
        };
        let pair = pair.map_err(|_| {
            let least = limits::RSA_BITS.start();
            Failure::invalid(format!(
                "the private key is not an RSA key of {least} bits or more with matching parts"
            ))
        })?;
        let bits = pair.public_modulus_len().saturating_mul(8);
        let most = limits::PRIVATE_RSA_BITS;
        if bits > most as usize {
            return Err(Failure::invalid(format!(
                "the RSA key has {bits} bits; a signing key has at most {most}"
            )));
        }
        Ok(pair)
    }

    /// Returns the ECDSA key pair. The key's curve must be the algorithm's.
    pub(crate) fn ecdsa(
        &self,
        algorithm: &'static EcdsaSigningAlgorithm,
    ) -> Result<EcdsaKeyPair, Failure> {
        let pair = EcdsaKeyPair::from_private_key_der(algorithm, &self.der);
        pair.map_err(|_| mismatch_failure())
    }

    pub(crate) fn ed25519(&self) -> Result<Ed25519KeyPair, Failure> {
        Ed25519KeyPair::from_pkcs8(&self.der).map_err(|_| mismatch_failure())
    }
}

/// Returns the `RSAPrivateKey` of a JWK. All parts must be present.
fn rsa_of_jwk(jwk: &Jwk) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let (n, e) = (member("n", jwk.n.as_ref())?, member("e", jwk.e.as_ref())?);
    let (d, p) = (member("d", jwk.d.as_ref())?, member("p", jwk.p.as_ref())?);
    let (q, dp) = (member("q", jwk.q.as_ref())?, member("dp", jwk.dp.as_ref())?);
    let (dq, qi) = (member("dq", jwk.dq.as_ref())?, member("qi", jwk.qi.as_ref())?);
    let key = RsaPrivateKey {
        version: 0,
        modulus: uint(&n)?,
        public_exponent: uint(&e)?,
        private_exponent: uint(&d)?,
        prime1: uint(&p)?,
        prime2: uint(&q)?,
        exponent1: uint(&dp)?,
        exponent2: uint(&dq)?,
        coefficient: uint(&qi)?,
    };
    key.to_der().map(Zeroizing::new).map_err(|_| damaged_failure())
}

/// Returns an `ECPrivateKey` with its curve and public half.
fn sec1(kind: KeyKind, secret: &[u8], point: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if secret.len() != kind.coordinate_bytes() {
        return Err(mismatch_failure());
    }
    let key = EcPrivateKey {
        version: 1,
        private_key: OctetStringRef::new(secret).map_err(|_| damaged_failure())?,
        curve: kind.curve(),
        public_key: Some(BitStringRef::from_bytes(point).map_err(|_| damaged_failure())?),
    };
    key.to_der().map(Zeroizing::new).map_err(|_| damaged_failure())
}

/// Returns a standalone `ECPrivateKey`: inside PKCS#8 the curve stands only in the outer structure.
pub(crate) fn with_curve(kind: KeyKind, der: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let key = EcPrivateKey::from_der(der).map_err(|_| damaged_failure())?;
    let named = EcPrivateKey { curve: kind.curve(), ..key };
    named.to_der().map(Zeroizing::new).map_err(|_| damaged_failure())
}

/// Returns PKCS#8 for the seed of an Ed25519 key (RFC 8410).
fn pkcs8_of_seed(seed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let inner = OctetStringRef::new(seed).and_then(|seed| seed.to_der());
    let inner = Zeroizing::new(inner.map_err(|_| damaged_failure())?);
    let info = PrivateKeyInfo {
        version: 0,
        algorithm: AlgorithmIdentifierRef { oid: kind::ED25519, parameters: None },
        private_key: OctetStringRef::new(&inner).map_err(|_| damaged_failure())?,
        attributes: None,
        public_key: None,
    };
    info.to_der().map(Zeroizing::new).map_err(|_| damaged_failure())
}

fn damaged_failure() -> Failure {
    Failure::invalid("the private key is damaged: the bytes do not match the label")
}

fn unsupported_failure() -> Failure {
    Failure::invalid(
        "the private key is of an unsupported kind; give RSA, P-256, P-384, P-521 or Ed25519",
    )
}

fn mismatch_failure() -> Failure {
    Failure::invalid("the parts of the private key do not belong together")
}
