//! Kinds of keys, and their names in words, JWKs and DER.

use der::asn1::ObjectIdentifier;
use x509_cert::spki::AlgorithmIdentifierRef;

pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(crate) const ELLIPTIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// The kind of a key. Each elliptic curve is a kind, because a key is useless on another curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, of any length.
    Rsa,
    /// NIST P-256.
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
    /// Edwards' curve 25519.
    Ed25519,
}

impl KeyKind {
    /// The curves of ECDSA.
    pub(crate) const CURVES: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    /// Returns `rsa`, `ec` or `ed25519`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::P256 | Self::P384 | Self::P521 => "ec",
            Self::Ed25519 => "ed25519",
        }
    }

    /// Returns the name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa => "RSA",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// Returns the bits of a private key on the curve; `None` for RSA, which has no fixed length.
    pub(crate) fn curve_bits(self) -> Option<u32> {
        match self {
            Self::Rsa => None,
            Self::P256 | Self::Ed25519 => Some(256),
            Self::P384 => Some(384),
            Self::P521 => Some(521),
        }
    }

    /// Returns the bytes of a coordinate on the curve, and of a private key.
    pub(crate) fn coordinate_bytes(self) -> usize {
        self.curve_bits().unwrap_or_default().div_ceil(8) as usize
    }

    /// Returns the identifier of an ECDSA curve.
    pub(crate) fn curve(self) -> Option<ObjectIdentifier> {
        match self {
            Self::P256 => Some(P256),
            Self::P384 => Some(P384),
            Self::P521 => Some(P521),
            Self::Rsa | Self::Ed25519 => None,
        }
    }

    /// Returns the kind for the identifier of an ECDSA curve.
    pub(crate) fn of_curve(curve: ObjectIdentifier) -> Option<Self> {
        Self::CURVES.into_iter().find(|kind| kind.curve() == Some(curve))
    }

    /// Returns the kind for a key's algorithm; `None` for unsupported kinds.
    pub(crate) fn of_algorithm(algorithm: &AlgorithmIdentifierRef<'_>) -> Option<Self> {
        match algorithm.oid {
            RSA => Some(Self::Rsa),
            ED25519 => algorithm.parameters.is_none().then_some(Self::Ed25519),
            ELLIPTIC => Self::of_curve(algorithm.parameters_oid().ok()?),
            _ => None,
        }
    }
}
