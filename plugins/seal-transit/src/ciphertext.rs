//! The text of a ciphertext of transit: `vault:v3:` and base64.
//!
//! This file prevents an answer of another program from being stored as the wrapped key: the form
//! is checked before the data depend on the key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Fewest bytes of a ciphertext: the nonce and the tag of the shortest cipher of transit.
const MIN_CIPHERTEXT_BYTES: usize = 28;

/// A ciphertext of transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransitCiphertext {
    pub(crate) text: String,
    /// Version of the key that encrypted, from 1.
    pub(crate) version: u64,
}

impl TransitCiphertext {
    /// Parses a ciphertext. `None`: the text has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, body) = text.strip_prefix("vault:v")?.split_once(':')?;
        let version: u64 = number.parse().ok().filter(|version| *version > 0)?;
        let is_exact = version.to_string() == number;
        let bytes = STANDARD.decode(body).ok()?;
        (is_exact && bytes.len() >= MIN_CIPHERTEXT_BYTES)
            .then(|| Self { text: text.to_owned(), version })
    }

    /// Returns the id of the key version that encrypted: `v3`.
    pub(crate) fn key_id(&self) -> String {
        format!("v{}", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ciphertext;

    #[test]
    fn ciphertext_has_version_and_base64() {
        let read = TransitCiphertext::parse(&ciphertext(12)).unwrap();
        assert_eq!((read.version, read.key_id().as_str()), (12, "v12"));
        assert_eq!(read.text, ciphertext(12));
        let body = ciphertext(1).split(':').next_back().unwrap().to_owned();
        for text in [
            String::new(),
            "vault:v1".to_owned(),
            "vault:v1:".to_owned(),
            "vault:v1:AAAA".to_owned(),
            format!("vault:v0:{body}"),
            format!("vault:v01:{body}"),
            format!("vault:v+1:{body}"),
            format!("vault:v18446744073709551616:{body}"),
            format!("vault:1:{body}"),
            format!("Vault:v1:{body}"),
            format!(" vault:v1:{body}"),
            format!("vault:v1:{body}\n"),
            format!("vault:v1:{body}:v2"),
            format!("bao:v1:{body}"),
            format!("vault:v1:{}", body.trim_end_matches('=').replace('+', "-") + "_"),
        ] {
            assert_eq!(TransitCiphertext::parse(&text), None, "{text:?}");
        }
    }
}
