//! DER structures of keys (RFC 5915, 5958, 8017). No single dependency has all of these structures.

use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Decode, Sequence};
use x509_cert::attr::Attributes;
use x509_cert::spki::AlgorithmIdentifierRef;

/// `RSAPublicKey`.
#[derive(Sequence)]
pub(crate) struct RsaPublicKey<'a> {
    pub(crate) modulus: UintRef<'a>,
    pub(crate) exponent: UintRef<'a>,
}

/// `RSAPrivateKey` with two primes.
#[derive(Sequence)]
pub(crate) struct RsaPrivateKey<'a> {
    pub(crate) version: u8,
    pub(crate) modulus: UintRef<'a>,
    pub(crate) public_exponent: UintRef<'a>,
    pub(crate) private_exponent: UintRef<'a>,
    pub(crate) prime1: UintRef<'a>,
    pub(crate) prime2: UintRef<'a>,
    pub(crate) exponent1: UintRef<'a>,
    pub(crate) exponent2: UintRef<'a>,
    pub(crate) coefficient: UintRef<'a>,
}

/// `ECPrivateKey`.
#[derive(Sequence)]
pub(crate) struct EcPrivateKey<'a> {
    pub(crate) version: u8,
    pub(crate) private_key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) public_key: Option<BitStringRef<'a>>,
}

/// `OneAsymmetricKey`, formerly `PrivateKeyInfo`: PKCS#8.
#[derive(Sequence)]
pub(crate) struct PrivateKeyInfo<'a> {
    pub(crate) version: u8,
    pub(crate) algorithm: AlgorithmIdentifierRef<'a>,
    pub(crate) private_key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub(crate) attributes: Option<Attributes>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(crate) public_key: Option<BitStringRef<'a>>,
}

/// Returns the key inside PKCS#8, in the format of its kind.
pub(crate) fn inner_key(pkcs8: &[u8]) -> der::Result<Vec<u8>> {
    Ok(PrivateKeyInfo::from_der(pkcs8)?.private_key.as_bytes().to_vec())
}
