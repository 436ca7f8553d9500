//! Digests and HMACs of the SHA-2 family.

use crate::limits::{MESSAGE_BYTES, check_length};
use aws_lc_rs::{digest as digests, hmac as keyed};
use bulkhead_wire::failure::{Failure, quoted};

/// Returns the digest of `data` by `sha256`, `sha384` or `sha512`.
///
/// # Errors
/// Invalid request for another algorithm, or for more than 1 MiB.
pub fn digest(algorithm: &str, data: &[u8]) -> Result<Vec<u8>, Failure> {
    check_length("the data", data.len(), MESSAGE_BYTES)?;
    let algorithm = match algorithm {
        "sha256" => &digests::SHA256,
        "sha384" => &digests::SHA384,
        "sha512" => &digests::SHA512,
        other => return Err(unknown_algorithm(other)),
    };
    Ok(digests::digest(algorithm, data).as_ref().to_vec())
}

/// Returns the SHA-256 digest of data of any length.
#[must_use]
pub fn sha256(data: &[u8]) -> Vec<u8> {
    digests::digest(&digests::SHA256, data).as_ref().to_vec()
}

/// Returns the HMAC (RFC 2104) of `data` by `sha256`, `sha384` or `sha512`.
///
/// # Errors
/// As [`digest`].
pub fn hmac(algorithm: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Failure> {
    check_length("the key", key.len(), MESSAGE_BYTES)?;
    check_length("the data", data.len(), MESSAGE_BYTES)?;
    let algorithm = match algorithm {
        "sha256" => keyed::HMAC_SHA256,
        "sha384" => keyed::HMAC_SHA384,
        "sha512" => keyed::HMAC_SHA512,
        other => return Err(unknown_algorithm(other)),
    };
    Ok(keyed::sign(&keyed::Key::new(algorithm, key), data).as_ref().to_vec())
}

fn unknown_algorithm(algorithm: &str) -> Failure {
    let algorithm = quoted(algorithm);
    Failure::invalid(format!("{algorithm} is not a digest: sha256, sha384 or sha512"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_match_standard_test_vectors() {
        let of = |algorithm| digest(algorithm, b"abc").map(|digest| hexadecimal(&digest));
        assert_eq!(
            of("sha256").as_deref(),
            Ok("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert_eq!(of("sha384").map(|digest| digest.len()), Ok(96));
        assert_eq!(of("sha512").map(|digest| digest.len()), Ok(128));
        for weak in ["sha1", "md5", "SHA256", ""] {
            assert!(of(weak).is_err(), "{weak}");
        }
        assert!(digest("sha256", &vec![0; MESSAGE_BYTES + 1]).is_err());
    }

    /// RFC 4231, test case 2.
    #[test]
    fn keyed_digests_match_standard_test_vectors() {
        let mac = hmac("sha256", b"Jefe", b"what do ya want for nothing?").unwrap();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hexadecimal(&mac), expected);
        assert!(hmac("sha1", b"Jefe", b"").is_err());
    }
}
