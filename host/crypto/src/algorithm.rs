//! Signature algorithms by their JOSE names (RFC 7518, 8037).
//!
//! The attack this file prevents: an algorithm that proves nothing. `none` and the algorithms for
//! shared secrets are not supported, and no supported algorithm uses SHA-1.

use crate::kind::KeyKind;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    VerificationAlgorithm,
};
use bulkhead_wire::failure::{Failure, quoted};
use std::str::FromStr;

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// RSA with PKCS #1 v1.5 padding, and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 padding, and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 padding, and SHA-512.
    Rs512,
    /// RSA with PSS padding, SHA-256, and a salt as long as the digest.
    Ps256,
    /// RSA with PSS padding, SHA-384, and a salt as long as the digest.
    Ps384,
    /// RSA with PSS padding, SHA-512, and a salt as long as the digest.
    Ps512,
    /// ECDSA on P-256 with SHA-256; the signature is both numbers concatenated, 64 bytes.
    Es256,
    /// ECDSA on P-384 with SHA-384, 96 bytes.
    Es384,
    /// ECDSA on P-521 with SHA-512, 132 bytes.
    Es512,
    /// Ed25519.
    EdDsa,
}

const JOSE_NAMES: [(SignatureAlgorithm, &str); 10] = [
    (SignatureAlgorithm::Rs256, "RS256"),
    (SignatureAlgorithm::Rs384, "RS384"),
    (SignatureAlgorithm::Rs512, "RS512"),
    (SignatureAlgorithm::Ps256, "PS256"),
    (SignatureAlgorithm::Ps384, "PS384"),
    (SignatureAlgorithm::Ps512, "PS512"),
    (SignatureAlgorithm::Es256, "ES256"),
    (SignatureAlgorithm::Es384, "ES384"),
    (SignatureAlgorithm::Es512, "ES512"),
    (SignatureAlgorithm::EdDsa, "EdDSA"),
];

impl FromStr for SignatureAlgorithm {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        // The newer name (RFC 9864).
        let text = if text == "Ed25519" { "EdDSA" } else { text };
        let found =
            JOSE_NAMES.iter().find(|(_, name)| *name == text).map(|(algorithm, _)| *algorithm);
        found.ok_or_else(|| {
            let names = JOSE_NAMES.map(|(_, name)| name).join(", ");
            Failure::invalid(format!("{} is not a signature algorithm: {names}", quoted(text)))
        })
    }
}

impl SignatureAlgorithm {
    /// Returns the JOSE name.
    #[must_use]
    pub fn name(self) -> &'static str {
        JOSE_NAMES.iter().find(|(algorithm, _)| *algorithm == self).map_or("", |(_, name)| name)
    }

    /// Returns the kind of key required.
    #[must_use]
    pub fn kind(self) -> KeyKind {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 => KeyKind::Rsa,
            Self::Ps256 | Self::Ps384 | Self::Ps512 => KeyKind::Rsa,
            Self::Es256 => KeyKind::P256,
            Self::Es384 => KeyKind::P384,
            Self::Es512 => KeyKind::P521,
            Self::EdDsa => KeyKind::Ed25519,
        }
    }

    /// Returns the verification algorithm, which also refuses RSA keys of unsupported lengths.
    pub(crate) fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
            Self::Es512 => &ECDSA_P521_SHA512_FIXED,
            Self::EdDsa => &ED25519,
        }
    }

    /// Refuses a key of another kind, or a key with another algorithm in its `alg`.
    pub(crate) fn check(self, kind: KeyKind, alg: Option<&str>) -> Result<(), Failure> {
        let name = self.name();
        if kind != self.kind() {
            let (wanted, key_kind) = (self.kind().name(), kind.name());
            return Err(Failure::invalid(format!(
                "{name} takes a key of kind {wanted}; the key is of kind {key_kind}"
            )));
        }
        match alg.map(str::parse::<Self>) {
            None => Ok(()),
            Some(Ok(own)) if own == self => Ok(()),
            Some(_) => {
                Err(Failure::invalid(format!("the key's alg is for another algorithm than {name}")))
            }
        }
    }
}
