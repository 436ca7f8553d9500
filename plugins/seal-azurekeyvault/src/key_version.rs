//! The version of a key, and the stored form of a wrapped seal key: the version, a line end, and
//! the ciphertext of the service.
//!
//! This file prevents an answer, or edited data, from moving a request to another path or server:
//! a version is two plain names, and the host in an answer is not used.

use bulkhead_sdk::Failure;
use bulkhead_sdk::seal_plugin::WrappedKey;

/// A version of a key: `name/version`, of at most 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyVersion(String);

impl KeyVersion {
    /// Reads the id of a key: `https://…/keys/name/version`. `None`: the text has another form.
    pub(crate) fn of_id(id: &str) -> Option<Self> {
        let (start, rest) = id.split_once("/keys/")?;
        start.starts_with("http").then(|| Self::parse(rest)).flatten()
    }

    fn parse(text: &str) -> Option<Self> {
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let (name, version) = text.split_once('/')?;
        let is_fit = is_plain(name) && is_plain(version) && text.len() <= 256;
        is_fit.then(|| Self(text.to_owned()))
    }

    /// Returns `name/version`.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether the version belongs to the key `name`. The vault answers the name in the
    /// case of its creation.
    pub(crate) fn is_of_key(&self, name: &str) -> bool {
        self.0.split_once('/').is_some_and(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// Returns the stored form of a ciphertext of this version.
    pub(crate) fn stored(&self, ciphertext: &[u8]) -> WrappedKey {
        WrappedKey::with_name(&self.0, ciphertext)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Invalid request if the bytes have another form.
    pub(crate) fn read(blob: &[u8]) -> Result<(Self, &[u8]), Failure> {
        let parts = WrappedKey::split_name(blob);
        let read = parts.and_then(|(version, rest)| Some((Self::parse(version)?, rest)));
        read.ok_or_else(|| {
            Failure::invalid(
                "the wrapped seal key of the data has not the form of seal \"azurekeyvault\"; give \
                 the seal that the data were sealed with",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_two_plain_names() {
        let read = KeyVersion::of_id("https://kv.vault.azure.net/keys/unseal/0a1b").unwrap();
        assert_eq!(read.text(), "unseal/0a1b");
        assert_eq!(
            KeyVersion::read(&read.stored(b"a\nb").blob),
            Ok((read.clone(), b"a\nb".as_slice()))
        );
        assert!(read.is_of_key("Unseal") && !read.is_of_key("unseal2"));
        for id in [
            "",
            "unseal/0a1b",
            "https://kv/keys/unseal",
            "https://kv/keys/unseal/",
            "https://kv/keys/../0a1b",
            "https://kv/keys/unseal/0a1b/x",
            "https://kv/keys/unseal/0a1b?x",
            "https://kv/secrets/unseal/0a1b",
        ] {
            assert_eq!(KeyVersion::of_id(id), None, "{id}");
        }
        for blob in [b"".as_slice(), b"a/b", b"a/b\n", b"../b\nx", b"vault:v1:AA\n"] {
            assert!(KeyVersion::read(blob).is_err());
        }
    }
}
