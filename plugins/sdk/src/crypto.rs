//! Keys and certificates as the host reads and makes them, and two small functions that need no
//! host.
//!
//! The operations on keys and certificates are methods of the host's interface
//! [`Crypto`](crate::host::Crypto). A key is a text: a JWK, or PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// Characters per line of base64 in PEM.
const LINE: usize = 64;

/// A parsed public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// `rsa`, `ec` or `ed25519`.
    pub kind: String,
    /// Size of the modulus or of the curve, in bits.
    pub bits: u32,
    /// The key as PEM with the label `PUBLIC KEY`.
    pub pem: String,
    /// The JWK with the required members only, ordered by name: the SHA-256 of this text is the
    /// key's thumbprint.
    pub jwk: String,
}

/// A generated key. No `Debug`: the key is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedKey {
    /// The private key in PEM.
    pub private_key: String,
    /// The public half of the key.
    pub public_key: PublicKey,
}

/// The contents of a certificate, trusted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Subject (RFC 4514), such as `CN=a.example,O=Corp`.
    pub subject: String,
    /// Issuer, in the same form.
    pub issuer: String,
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Serial number in hexadecimal, as are the digests and identifiers below.
    pub serial: String,
    /// Start of validity, in milliseconds since 1970.
    pub not_before: u64,
    /// End of validity, in milliseconds since 1970.
    pub not_after: u64,
    /// True if the certificate may sign other certificates.
    pub is_authority: bool,
    /// Alternative names, each preceded by its kind: `dns`, `ip`, `email` or `uri`.
    pub names: Vec<(String, String)>,
    /// Extended key usages: `client-auth`, `server-auth`, or an object identifier in digits.
    pub usages: Vec<String>,
    /// The certificate's public key, if the host supports its kind.
    pub public_key: Option<PublicKey>,
    /// SHA-1 digest of the certificate, for comparison with the records of other programs only:
    /// SHA-1 proves nothing.
    pub fingerprint_sha1: String,
    /// SHA-256 digest of the certificate.
    pub fingerprint_sha256: String,
    /// Identifier of the certificate's key.
    pub key_id: Option<String>,
    /// Identifier of the key that signed the certificate.
    pub authority_key_id: Option<String>,
}

/// A certificate to verify, with its chain, the trusted roots and the required usage and name. The
/// certificate must be valid at present.
#[derive(Clone, Copy, Debug)]
pub struct CertificateChain<'a> {
    /// The certificate, followed by the intermediate certificates up to the root, in PEM.
    pub certificates: &'a str,
    /// Trusted roots in PEM. No other root is trusted.
    pub roots: &'a str,
    /// Required usage: `client-auth` or `server-auth`.
    pub usage: &'a str,
    /// Required name or address; empty for any name.
    pub name: &'a str,
}

/// A certificate to issue. No `Debug`: the request holds the authority's key.
#[derive(Clone, Default)]
pub struct CertificateRequest {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The authority's private key.
    pub authority_key: String,
    /// The public key of the new certificate.
    pub public_key: String,
    /// Common name of the subject; empty for a subject without a common name.
    pub common_name: String,
    /// Alternative names, each preceded by its kind: `dns`, `ip`, `email` or `uri`.
    pub names: Vec<(String, String)>,
    /// Extended key usages: `client-auth`, `server-auth`, both or none.
    pub usages: Vec<String>,
    /// Start of validity, in milliseconds since 1970, cut to seconds.
    pub not_before: u64,
    /// End of validity, in milliseconds since 1970, cut to seconds. At the latest the end of the
    /// authority's own certificate.
    pub not_after: u64,
    /// Digest size of an RSA authority's signature, in bits: 256, 384 or 512; 0 means 256.
    pub signature_bits: u32,
}

/// Returns true if both values are equal. The time does not tell where the values differ; their
/// lengths are not secret.
#[must_use]
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Encodes DER as PEM, such as `CERTIFICATE` for the content of a header `x5c`.
#[must_use]
pub fn pem(label: &str, der: &[u8]) -> String {
    let packed = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(LINE));
        text.extend([line, "\n"]);
        rest = left;
    }
    text.extend(["-----END ", label, "-----\n"]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_bytes_are_equal() {
        assert!(is_equal(b"", b"") && is_equal(b"abc", b"abc"));
        assert!(!is_equal(b"abc", b"abd") && !is_equal(b"abc", b"ab") && !is_equal(b"", b"a"));
    }

    #[test]
    fn sdk_pem_matches_host_pem() {
        for length in [0, 47, 48, 49, 200] {
            let der = vec![7; length];
            assert_eq!(pem("CERTIFICATE", &der), bulkhead_crypto::encode_pem("CERTIFICATE", &der));
        }
    }
}
