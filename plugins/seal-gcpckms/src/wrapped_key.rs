//! The stored form of a wrapped seal key: the name of the key version, a line end, and the
//! ciphertext of the service.
//!
//! The answer to a decryption does not name the version. Without the name in the stored form, a
//! service that refuses to tell its newest version would look like a rotation.

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::WrappedKey;

/// Maximum length of a name, in bytes: the host stores the name as the id of the key.
const NAME_MAX: usize = 256;

/// Returns whether a text is the name of a version of a key.
pub(crate) fn is_version_name(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
    text.len() <= NAME_MAX
        && parts.iter().all(is_plain)
        && matches!(
            parts[..],
            ["projects", _, "locations", _, "keyRings", _, "cryptoKeys", _, "cryptoKeyVersions", _]
        )
}

/// Returns the name of the version, and the ciphertext.
///
/// # Errors
/// Invalid request if the bytes have another form.
pub(crate) fn read(blob: &[u8]) -> Result<(&str, &[u8]), Failure> {
    let read = WrappedKey::split_name(blob).filter(|(name, _)| is_version_name(name));
    read.ok_or_else(|| {
        Failure::invalid(
            "the wrapped seal key of the data has not the form of seal \"gcpckms\"; give the seal \
             that the data were sealed with",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::VERSION;

    #[test]
    fn stored_form_has_version_and_ciphertext() {
        let written = |name: &str, text: &[u8]| WrappedKey::with_name(name, text).blob;
        let blob = written(VERSION, b"a\nb");
        assert_eq!(read(&blob).unwrap(), (VERSION, b"a\nb".as_slice()));
        for blob in [
            b"".to_vec(),
            b"vault:v1:AAAA".to_vec(),
            written(VERSION, b""),
            written("projects/a", b"b"),
            written(&VERSION.replace("cryptoKeyVersions", "versions"), b"b"),
            written(&format!("{VERSION}{}", "0".repeat(256)), b"b"),
        ] {
            assert!(read(&blob).is_err_and(|why| why.message.contains("has not the form")));
        }
    }
}
