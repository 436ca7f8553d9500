//! The settings of the seal, checked before a request is sent.
//!
//! This file prevents an access token from reaching a path that the operator did not write: the
//! parts of the key's name hold no character with a meaning in a URL.

use bulkhead_sdk::Failure;
use bulkhead_sdk::http::HttpTls;
use bulkhead_sdk::seal_plugin::{
    SealSettings, is_path_segment, text_setting, tls_with_authorities,
};
use bulkhead_sdk::wire::description::{Field, FieldKind};
use bulkhead_sdk::wire::failure::quoted;

pub(crate) const ENDPOINT: &str = "endpoint";
pub(crate) const TOKEN_URI: &str = "token_uri";
const PROJECT: &str = "project";
const REGION: &str = "region";
const KEY_RING: &str = "key_ring";
const CRYPTO_KEY: &str = "crypto_key";
const CLIENT_EMAIL: &str = "client_email";
const PRIVATE_KEY: &str = "private_key";
const PRIVATE_KEY_ID: &str = "private_key_id";
const CA_CERT: &str = "tls_ca_cert";

/// Maximum length of the name of a key, in bytes. With its version the name is the id of the key,
/// of which the host stores 256 bytes.
const KEY_NAME_MAX: usize = 226;

/// Checked settings. No `Debug`: the settings hold a private key.
pub(crate) struct KmsSettings {
    /// `https://cloudkms.googleapis.com`, without a slash at the end.
    pub(crate) endpoint: String,
    /// URL of the endpoint for access tokens.
    pub(crate) token_uri: String,
    /// `projects/…/locations/…/keyRings/…/cryptoKeys/…`.
    pub(crate) key_name: String,
    pub(crate) client_email: String,
    pub(crate) private_key: String,
    /// Empty if the credentials have no id of their key.
    pub(crate) private_key_id: String,
    pub(crate) tls: Option<HttpTls>,
}

/// Returns the settings for the description.
pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str, about: &str| Field::new(name, FieldKind::String, about);
    vec![
        text(ENDPOINT, "URL of Cloud KMS, without a path").required(),
        text(TOKEN_URI, "URL of the endpoint for access tokens").required(),
        text(PROJECT, "project of the key").required(),
        text(REGION, "location of the key ring").required(),
        text(KEY_RING, "name of the key ring").required(),
        text(CRYPTO_KEY, "name of the key").required(),
        text(CLIENT_EMAIL, "name of the service account").required(),
        text(PRIVATE_KEY, "private key of the service account in PEM").required().secret(),
        text(PRIVATE_KEY_ID, "id of the private key"),
        text(CA_CERT, "trusted authorities in PEM; the public authorities unless set"),
    ]
}

impl KmsSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Invalid request, with the name of the wrong setting.
    pub(crate) fn read(settings: &SealSettings) -> Result<Self, Failure> {
        let segment = |name: &str| {
            let text = text(settings, name)?;
            check_segment(name, text).map(|()| text)
        };
        let key_name = format!(
            "projects/{}/locations/{}/keyRings/{}/cryptoKeys/{}",
            segment(PROJECT)?,
            segment(REGION)?,
            segment(KEY_RING)?,
            segment(CRYPTO_KEY)?
        );
        if key_name.len() > KEY_NAME_MAX {
            return Err(Failure::invalid(format!(
                "the name of the key of seal \"gcpckms\" has {} bytes with project, region, \
                 key_ring and crypto_key, and at most {KEY_NAME_MAX} are stored; give a key with a \
                 shorter name",
                key_name.len()
            )));
        }
        let tls = tls_with_authorities(text(settings, CA_CERT)?);
        Ok(Self {
            endpoint: text(settings, ENDPOINT)?.trim_end_matches('/').to_owned(),
            token_uri: text(settings, TOKEN_URI)?.to_owned(),
            key_name,
            client_email: text(settings, CLIENT_EMAIL)?.to_owned(),
            private_key: text(settings, PRIVATE_KEY)?.to_owned(),
            private_key_id: text(settings, PRIVATE_KEY_ID)?.to_owned(),
            tls,
        })
    }
}

/// Returns the text of a setting; empty if the setting is missing.
fn text<'a>(settings: &'a SealSettings, name: &str) -> Result<&'a str, Failure> {
    text_setting("gcpckms", settings, name)
}

/// Checks a part of the key's name. A project of a domain has a colon: `example.com:project`.
fn check_segment(name: &str, segment: &str) -> Result<(), Failure> {
    match is_path_segment(segment, "._-:") {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "{name} {} of seal \"gcpckms\" is not a name; use letters, digits, `.`, `_` and `-`",
            quoted(segment)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{KEY_NAME, settings};
    use serde_json::json;

    #[test]
    fn parts_that_move_the_url_are_refused() {
        let read = KmsSettings::read(&settings(&[])).unwrap();
        assert_eq!(read.key_name, KEY_NAME);
        for name in [PROJECT, REGION, KEY_RING, CRYPTO_KEY] {
            for part in ["", "a/b", "..", "a?b", "a%2fb", "a b", "\u{e4}"] {
                let read = KmsSettings::read(&settings(&[(name, json!(part))]));
                let why = read.err().unwrap();
                assert!(why.message.contains(name), "{why}");
            }
        }
        let long = settings(&[(PROJECT, json!("a".repeat(200)))]);
        let why = KmsSettings::read(&long).err().unwrap();
        assert!(why.message.contains("a shorter"), "{why}");
        let domain = settings(&[(PROJECT, json!("example.com:project"))]);
        let read = KmsSettings::read(&domain).unwrap();
        assert!(read.key_name.starts_with("projects/example.com:project/"), "{}", read.key_name);
    }
}
