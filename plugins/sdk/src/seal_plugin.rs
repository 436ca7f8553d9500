//! The contract of a seal plugin: the types of `wit/seal.wit` in Rust, and the trait that a plugin
//! implements.
//!
//! A seal plugin keeps nothing between calls. The plugin runs before any data are open, so that
//! HTTP to the origins of its addresses, the time, signatures and the operator's log are its whole
//! view of the host.

use crate::database_plugin::StoreTime;
use crate::host::{Http, Log};
use crate::http::HttpTls;
use bulkhead_wire::description::SealDescription;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value};

/// The settings of a seal: a JSON object whose names stand in the description.
pub type SealSettings = Map<String, Value>;

/// Returns the text of a setting of `seal "<seal>"`; empty if the setting is missing.
///
/// # Errors
/// Invalid request for a value of another kind. The value is not quoted.
pub fn text_setting<'a>(
    seal: &str,
    settings: &'a SealSettings,
    name: &str,
) -> Result<&'a str, Failure> {
    match settings.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Failure::invalid(format!(
            "{name} of seal \"{seal}\" is not a text; put the value into quotes"
        ))),
    }
}

/// Returns whether `text` can be one segment of a path: letters, digits and `punctuation`, and not
/// dots alone.
#[must_use]
pub fn is_path_segment(text: &str, punctuation: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || punctuation.contains(c);
    !text.is_empty() && !text.chars().all(|c| c == '.') && text.chars().all(plain)
}

/// Returns the TLS settings with these trusted authorities in PEM; `None` for an empty text, which
/// leaves the public authorities.
#[must_use]
pub fn tls_with_authorities(pem: &str) -> Option<HttpTls> {
    let root_certificates = Some(pem.to_owned());
    (!pem.is_empty()).then(|| HttpTls { root_certificates, ..HttpTls::default() })
}

/// A seal key as the service wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// The service's key that wrapped the seal key: 1 to 256 bytes of printable ASCII.
    pub key_id: String,
    /// The wrapped key, 1 byte to 64 KiB.
    pub blob: Vec<u8>,
}

impl WrappedKey {
    /// Stores the name of the key in front of the ciphertext: name, line end, ciphertext. For a
    /// service that needs the name for the decryption, or whose decryption does not answer it.
    #[must_use]
    pub fn with_name(key_id: &str, ciphertext: &[u8]) -> Self {
        let blob = [key_id.as_bytes(), b"\n", ciphertext].concat();
        Self { key_id: key_id.to_owned(), blob }
    }

    /// Returns name and ciphertext of a blob of [`with_name`](Self::with_name). `None`: the blob
    /// has another form.
    #[must_use]
    pub fn split_name(blob: &[u8]) -> Option<(&str, &[u8])> {
        let end = blob.iter().position(|byte| *byte == b'\n')?;
        let (name, rest) = blob.split_at_checked(end)?;
        let ciphertext = rest.strip_prefix(b"\n").filter(|ciphertext| !ciphertext.is_empty())?;
        std::str::from_utf8(name).ok().map(|name| (name, ciphertext))
    }
}

/// An unwrapped seal key. No `Debug`: the key is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenedKey {
    /// The seal key.
    pub key: Vec<u8>,
    /// The newest key of the service.
    pub newest_key_id: String,
}

/// The system's clock, for the times of signatures. No store corrects the clock before the data are
/// open.
pub trait SystemClock {
    /// Returns milliseconds since 1970.
    fn now(&self) -> StoreTime;
}

/// Signatures with a private key of the settings.
pub trait KeySigner {
    /// Signs the message by an algorithm with its JOSE name, such as `RS256`.
    ///
    /// # Errors
    /// Invalid request for an unreadable key.
    fn sign(&self, algorithm: &str, private_key: &str, message: &[u8]) -> Result<Vec<u8>, Failure>;
}

/// A seal plugin's view of the host.
pub trait SealHost: Http + Log + SystemClock + KeySigner {}

impl<H: Http + Log + SystemClock + KeySigner> SealHost for H {}

/// A seal plugin. The contract of each function is in `wit/seal.wit`.
pub trait SealPlugin {
    /// Returns the static facts: name, version, and the settings.
    fn description() -> SealDescription;

    /// Wraps a seal key of 32 bytes with the newest key of the service.
    ///
    /// # Errors
    /// The refusal of the settings or of the service, with the remedy, and without a secret.
    fn wrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        key: &[u8],
    ) -> Result<WrappedKey, Failure>;

    /// Unwraps a blob of [`wrap_key`](Self::wrap_key).
    ///
    /// # Errors
    /// As `wrap_key`; also if the service returns a key of another length.
    fn unwrap_key(
        host: &dyn SealHost,
        settings: &SealSettings,
        blob: &[u8],
    ) -> Result<OpenedKey, Failure>;

    /// Renews the plugin's own credentials. Returns the seconds until the next renewal, at least 1;
    /// `None` if the credentials never need another renewal.
    ///
    /// # Errors
    /// As `wrap_key`.
    fn renew_credentials(
        host: &dyn SealHost,
        settings: &SealSettings,
    ) -> Result<Option<u64>, Failure>;

    /// Checks that the service would wrap a key now.
    ///
    /// # Errors
    /// As `wrap_key`.
    fn check_health(host: &dyn SealHost, settings: &SealSettings) -> Result<(), Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_ends_at_first_line_end() {
        let wrapped = WrappedKey::with_name("unseal/1", b"a\nb");
        assert_eq!(wrapped.key_id, "unseal/1");
        let read = WrappedKey::split_name(&wrapped.blob);
        assert_eq!(read, Some(("unseal/1", b"a\nb".as_slice())));
        for blob in [b"".as_slice(), b"unseal/1", b"unseal/1\n", b"\xff\nb"] {
            assert_eq!(WrappedKey::split_name(blob), None, "{blob:?}");
        }
    }
}
