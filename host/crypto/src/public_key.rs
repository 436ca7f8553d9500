//! Public keys: parsed from JWKs, PEM and certificates, checked, and written.
//!
//! The attacks this file prevents: keys so short that the private half can be computed, keys so
//! long that each verification is slow, points outside their curve, and a private key passed around
//! in place of its public half.

use crate::asn1::RsaPublicKey;
use crate::jwk::{self, Jwk, member};
use crate::kind::{self, KeyKind};
use crate::limits;
use crate::pem;
use crate::x509;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use bulkhead_wire::failure::Failure;
use der::asn1::{Any, BitString, Null, UintRef};
use der::{Decode, Encode};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

/// A checked public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// As in a `SubjectPublicKeyInfo`: an `RSAPublicKey`, a point, or 32 bytes.
    bytes: Vec<u8>,
    /// The only permitted algorithm, if the key names an algorithm.
    alg: Option<String>,
}

impl PublicKey {
    /// Reads a JWK, or PEM of a public key (`PUBLIC KEY`, `RSA PUBLIC KEY`) or certificate.
    ///
    /// # Errors
    /// Invalid request unless the text is a public key of a supported kind: RSA of 2048 to 8192
    /// bits, P-256, P-384, P-521, Ed25519. A private key is refused, too.
    pub fn read(text: &str) -> Result<Self, Failure> {
        match jwk::is_json(text) {
            true => Self::from_jwk(&Jwk::read(text)?),
            false => Self::from_pem(text),
        }
    }

    fn from_jwk(jwk: &Jwk) -> Result<Self, Failure> {
        if jwk.d.is_some() {
            return Err(private_instead());
        }
        Self::half_of_jwk(jwk)
    }

    /// Returns the public half of any JWK.
    pub(crate) fn half_of_jwk(jwk: &Jwk) -> Result<Self, Failure> {
        let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (member("n", jwk.n.as_ref())?, member("e", jwk.e.as_ref())?);
                let key = RsaPublicKey { modulus: uint(&n)?, exponent: uint(&e)? };
                Self::check_key(KeyKind::Rsa, key.to_der().map_err(|_| damaged_failure())?)?
            }
            ("EC", Some(curve)) => {
                let kind = KeyKind::CURVES.into_iter().find(|kind| kind.name() == curve);
                let kind = kind.ok_or_else(unsupported_failure)?;
                let (x, y) = (member("x", jwk.x.as_ref())?, member("y", jwk.y.as_ref())?);
                let size = kind.coordinate_bytes();
                if x.len() != size || y.len() != size {
                    return Err(Failure::invalid(format!(
                        "the JWK's members x and y must have {size} bytes each on {curve}"
                    )));
                }
                Self::check_key(kind, [&[4], x.as_slice(), y.as_slice()].concat())?
            }
            ("OKP", Some("Ed25519")) => {
                Self::check_key(KeyKind::Ed25519, member("x", jwk.x.as_ref())?.to_vec())?
            }
            ("oct", _) => {
                return Err(Failure::invalid(
                    "the key is a shared secret (kty oct); give a public key",
                ));
            }
            _ => return Err(unsupported_failure()),
        };
        Ok(Self { alg: jwk.alg.clone(), ..key })
    }

    fn from_pem(text: &str) -> Result<Self, Failure> {
        let sections = pem::read("the key", text)?;
        let mut sections = sections.iter().filter(|section| section.label != "EC PARAMETERS");
        let (Some(section), None) = (sections.next(), sections.next()) else {
            return Err(Failure::invalid("the PEM text must hold one public key or certificate"));
        };
        match section.label.as_str() {
            "PUBLIC KEY" => {
                let spki = SubjectPublicKeyInfoOwned::from_der(&section.bytes);
                Self::from_spki(&spki.map_err(|_| damaged_failure())?)
            }
            "RSA PUBLIC KEY" => Self::check_key(KeyKind::Rsa, section.bytes.to_vec()),
            "CERTIFICATE" => Self::from_spki(&x509::public_key_of(&section.bytes)?),
            label if label.ends_with("PRIVATE KEY") => Err(private_instead()),
            _ => Err(Failure::invalid(
                "the PEM text holds neither PUBLIC KEY, RSA PUBLIC KEY nor CERTIFICATE",
            )),
        }
    }

    /// Returns the key of a certificate or of a `PUBLIC KEY` section.
    pub(crate) fn from_spki(spki: &SubjectPublicKeyInfoOwned) -> Result<Self, Failure> {
        let algorithm = x509_cert::spki::AlgorithmIdentifierRef {
            oid: spki.algorithm.oid,
            parameters: spki.algorithm.parameters.as_ref().map(Into::into),
        };
        let kind = KeyKind::of_algorithm(&algorithm).ok_or_else(unsupported_failure)?;
        let bytes = spki.subject_public_key.as_bytes().ok_or_else(damaged_failure)?;
        Self::check_key(kind, bytes.to_vec())
    }

    /// Returns a key after checking every part.
    pub(crate) fn check_key(kind: KeyKind, bytes: Vec<u8>) -> Result<Self, Failure> {
        if kind == KeyKind::Rsa {
            check_rsa(&bytes)?;
        }
        let key = Self { kind, bytes, alg: None };
        // The library checks the rest: the point is on the curve, the exponent is odd, and so on.
        let any: &'static dyn VerificationAlgorithm = match kind {
            KeyKind::Rsa => &RSA_PKCS1_2048_8192_SHA256,
            KeyKind::P256 => &ECDSA_P256_SHA256_FIXED,
            KeyKind::P384 => &ECDSA_P384_SHA384_FIXED,
            KeyKind::P521 => &ECDSA_P521_SHA512_FIXED,
            KeyKind::Ed25519 => &ED25519,
        };
        key.parse(any).map(|_| key)
    }

    /// Returns the library's form of the key, for a single algorithm.
    pub(crate) fn parse(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
    ) -> Result<ParsedPublicKey, Failure> {
        ParsedPublicKey::new(algorithm, &self.bytes).map_err(|_| {
            let name = self.kind.name();
            Failure::invalid(format!("the key is not a {name} key for signatures"))
        })
    }

    /// Returns the kind of the key.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns the bits of the modulus, or of the curve.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.kind.curve_bits().unwrap_or_else(|| {
            RsaPublicKey::from_der(&self.bytes).map_or(0, |key| bit_length(key.modulus))
        })
    }

    pub(crate) fn alg(&self) -> Option<&str> {
        self.alg.as_deref()
    }

    /// Returns the content of the bit string in a `SubjectPublicKeyInfo`.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn to_spki(&self) -> Result<SubjectPublicKeyInfoOwned, Failure> {
        let (oid, parameters) = match self.kind {
            KeyKind::Rsa => (kind::RSA, Some(Any::from(Null))),
            KeyKind::Ed25519 => (kind::ED25519, None),
            curve => (kind::ELLIPTIC, curve.curve().as_ref().map(Any::from)),
        };
        let key = BitString::from_bytes(&self.bytes).map_err(|_| damaged_failure())?;
        let algorithm = AlgorithmIdentifierOwned { oid, parameters };
        Ok(SubjectPublicKeyInfoOwned { algorithm, subject_public_key: key })
    }

    /// Returns the key in PEM, `PUBLIC KEY`.
    ///
    /// # Errors
    /// None for a key that was read.
    pub fn pem(&self) -> Result<String, Failure> {
        let der = self.to_spki()?.to_der().map_err(|_| damaged_failure())?;
        Ok(pem::encode_pem("PUBLIC KEY", &der))
    }

    /// Returns a JSON object with the members required by RFC 7638, sorted by name; the digest is
    /// the key's thumbprint.
    ///
    /// # Errors
    /// None for a key that was read.
    pub fn jwk(&self) -> Result<String, Failure> {
        if self.kind == KeyKind::Rsa {
            let key = RsaPublicKey::from_der(&self.bytes).map_err(|_| damaged_failure())?;
            let (n, e) = (key.modulus.as_bytes(), key.exponent.as_bytes());
            let (n, e) = (jwk::encode(n), jwk::encode(e));
            return Ok(format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#));
        }
        if self.kind == KeyKind::Ed25519 {
            let x = jwk::encode(&self.bytes);
            return Ok(format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#));
        }
        let point = self.bytes.get(1..).unwrap_or_default();
        let (x, y) =
            point.split_at_checked(self.kind.coordinate_bytes()).ok_or_else(damaged_failure)?;
        let (curve, x, y) = (self.kind.name(), jwk::encode(x), jwk::encode(y));
        Ok(format!(r#"{{"crv":"{curve}","kty":"EC","x":"{x}","y":"{y}"}}"#))
    }
}

fn check_rsa(bytes: &[u8]) -> Result<(), Failure> {
    let key = RsaPublicKey::from_der(bytes).map_err(|_| damaged_failure())?;
    let bits = bit_length(key.modulus);
    if !limits::RSA_BITS.contains(&bits) {
        let (least, most) = limits::RSA_BITS.into_inner();
        return Err(Failure::invalid(format!(
            "the RSA key has {bits} bits; give one of {least} to {most}"
        )));
    }
    let exponent = key.exponent.as_bytes();
    let is_odd = exponent.last().is_some_and(|last| last & 1 == 1);
    let is_one = exponent == [1];
    if is_odd && !is_one && bit_length(key.exponent) <= limits::RSA_EXPONENT_BITS {
        return Ok(());
    }
    Err(Failure::invalid("the RSA key's exponent is not an odd number from 3 to 4294967295"))
}

pub(crate) fn uint(bytes: &[u8]) -> Result<UintRef<'_>, Failure> {
    UintRef::new(bytes).map_err(|_| damaged_failure())
}

/// Returns the bits of a number without its leading zeros.
fn bit_length(number: UintRef<'_>) -> u32 {
    let bytes = number.as_bytes();
    let Some(first) = bytes.first() else { return 0 };
    let bits = u32::try_from(bytes.len()).unwrap_or(u32::MAX).saturating_mul(8);
    bits.saturating_sub(first.leading_zeros())
}

fn damaged_failure() -> Failure {
    Failure::invalid("the key is damaged: the bytes do not match the label, or other bytes follow")
}

fn unsupported_failure() -> Failure {
    Failure::invalid("the key is of an unsupported kind; give RSA, P-256, P-384, P-521 or Ed25519")
}

fn private_instead() -> Failure {
    Failure::invalid("the key is a private key; give the public half")
}
