//! Keys and certificates as the host reads and makes them, and two small things that need no host.
//!
//! What is done with them is asked of the host, by [`Crypto`](crate::host::Crypto). A key is a
//! text: a JWK, or PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// Characters of a line of base64 in PEM.
const LINE: usize = 64;

/// A public key, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// `rsa`, `ec` or `ed25519`.
    pub kind: String,
    /// Of the modulus, or of the curve.
    pub bits: u32,
    /// `PUBLIC KEY`.
    pub pem: String,
    /// The members that make the key, in the order of their names: its SHA-256 is the key's
    /// thumbprint.
    pub jwk: String,
}

/// A key that was made. No `Debug`: it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedKey {
    /// In PEM.
    pub private_key: String,
    /// Its public half.
    pub public_key: PublicKey,
}

/// What a certificate says, whether or not it is to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is (RFC 4514), such as `CN=a.example,O=Corp`.
    pub subject: String,
    /// Who signed it, in the same form.
    pub issuer: String,
    /// The subject's common name.
    pub common_name: Option<String>,
    /// Hexadecimal, as are the digests and identifiers below.
    pub serial: String,
    /// Milliseconds since 1970.
    pub not_before: u64,
    /// Milliseconds since 1970.
    pub not_after: u64,
    /// It may sign certificates.
    pub is_authority: bool,
    /// Alternative names, each behind its kind: `dns`, `ip`, `email` or `uri`.
    pub names: Vec<(String, String)>,
    /// `client-auth`, `server-auth`, or an identifier in digits.
    pub usages: Vec<String>,
    /// Its key, where that is of a kind that is served.
    pub public_key: Option<PublicKey>,
    /// Of its bytes, to compare with what others wrote: SHA-1 proves nothing.
    pub fingerprint_sha1: String,
    /// Of its bytes.
    pub fingerprint_sha256: String,
    /// What it calls its key.
    pub key_id: Option<String>,
    /// What it calls the key that signed it.
    pub authority_key_id: Option<String>,
}

/// A certificate, and what it is to be believed by. It must be valid now.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// The certificate, and behind it those between it and its root, in PEM.
    pub certificates: &'a str,
    /// Roots in PEM. Others are not asked.
    pub roots: &'a str,
    /// `client-auth` or `server-auth`.
    pub usage: &'a str,
    /// The name or address that it must bear; empty for any.
    pub name: &'a str,
}

/// A certificate that is to be issued. No `Debug`: it holds the authority's key.
#[derive(Clone, Default)]
pub struct CertificateRequest {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The authority's private key.
    pub authority_key: String,
    /// Whose key it is for.
    pub public_key: String,
    /// Empty for a subject without one.
    pub common_name: String,
    /// Each behind its kind: `dns`, `ip`, `email` or `uri`.
    pub names: Vec<(String, String)>,
    /// `client-auth`, `server-auth`, both or none.
    pub usages: Vec<String>,
    /// Milliseconds since 1970, cut to seconds.
    pub not_before: u64,
    /// Milliseconds since 1970, cut to seconds. Not behind the authority's own end.
    pub not_after: u64,
    /// Bits of the digest that an RSA authority signs with: 256 (0 is this), 384 or 512.
    pub signature_bits: u32,
}

/// Whether the two are equal, in a time that tells nothing of where they differ. Their lengths are
/// no secret.
#[must_use]
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// DER in PEM, such as `CERTIFICATE` for what a header `x5c` holds.
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
    fn what_is_equal_is_equal_and_nothing_else() {
        assert!(is_equal(b"", b"") && is_equal(b"abc", b"abc"));
        assert!(!is_equal(b"abc", b"abd") && !is_equal(b"abc", b"ab") && !is_equal(b"", b"a"));
    }

    #[test]
    fn pem_is_what_the_host_writes() {
        for length in [0, 47, 48, 49, 200] {
            let der = vec![7; length];
            assert_eq!(pem("CERTIFICATE", &der), bulkhead_crypto::armour("CERTIFICATE", &der));
        }
    }
}
