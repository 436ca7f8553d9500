//! The settings of the seal, checked before a request is sent.
//!
//! This file prevents the client secret from reaching a path that the operator did not write: the
//! parts of each URL hold no character with a meaning in a URL.

use bulkhead_sdk::Failure;
use bulkhead_sdk::http::HttpTls;
use bulkhead_sdk::seal_plugin::{
    SealSettings, is_path_segment, text_setting, tls_with_authorities,
};
use bulkhead_sdk::wire::description::{Field, FieldKind};
use bulkhead_sdk::wire::failure::quoted;

pub(crate) const VAULT_URL: &str = "vault_url";
pub(crate) const AUTHORITY_HOST: &str = "authority_host";
const TENANT_ID: &str = "tenant_id";
const CLIENT_ID: &str = "client_id";
const CLIENT_SECRET: &str = "client_secret";
const KEY_NAME: &str = "key_name";
const RESOURCE: &str = "resource";
const CA_CERT: &str = "tls_ca_cert";

/// Checked settings. No `Debug`: the settings hold the client secret.
pub(crate) struct VaultSettings {
    /// `https://kv.vault.azure.net`, without a slash at the end.
    pub(crate) vault_url: String,
    /// `https://login.microsoftonline.com`, without a slash at the end.
    pub(crate) authority_host: String,
    pub(crate) tenant_id: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) key_name: String,
    /// `vault.azure.net`, the audience of the access token.
    pub(crate) resource: String,
    pub(crate) tls: Option<HttpTls>,
}

/// Returns the settings for the description.
pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str, about: &str| Field::new(name, FieldKind::String, about);
    vec![
        text(VAULT_URL, "URL of the vault, without a path").required(),
        text(AUTHORITY_HOST, "URL of the endpoint for access tokens, without a path").required(),
        text(TENANT_ID, "directory of the application").required(),
        text(CLIENT_ID, "id of the application").required(),
        text(CLIENT_SECRET, "secret of the application").required().secret(),
        text(KEY_NAME, "name of the key").required(),
        text(RESOURCE, "audience of access tokens, such as vault.azure.net").required(),
        text(CA_CERT, "trusted authorities in PEM; the public authorities unless set"),
    ]
}

impl VaultSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Invalid request, with the name of the wrong setting.
    pub(crate) fn read(settings: &SealSettings) -> Result<Self, Failure> {
        let segment = |name: &str| {
            let text = text(settings, name)?;
            check_segment(name, text).map(|()| text.to_owned())
        };
        let url = |name: &str| text(settings, name).map(|url| url.trim_end_matches('/').to_owned());
        let tls = tls_with_authorities(text(settings, CA_CERT)?);
        Ok(Self {
            vault_url: url(VAULT_URL)?,
            authority_host: url(AUTHORITY_HOST)?,
            tenant_id: segment(TENANT_ID)?,
            client_id: segment(CLIENT_ID)?,
            client_secret: text(settings, CLIENT_SECRET)?.to_owned(),
            key_name: segment(KEY_NAME)?,
            resource: segment(RESOURCE)?,
            tls,
        })
    }
}

/// Returns the text of a setting; empty if the setting is missing.
fn text<'a>(settings: &'a SealSettings, name: &str) -> Result<&'a str, Failure> {
    text_setting("azurekeyvault", settings, name)
}

fn check_segment(name: &str, segment: &str) -> Result<(), Failure> {
    match is_path_segment(segment, ".-") {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "{name} {} of seal \"azurekeyvault\" is not a name; use letters, digits, `.` and `-`",
            quoted(segment)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use serde_json::json;

    #[test]
    fn settings_that_move_the_url_are_refused() {
        for name in [TENANT_ID, CLIENT_ID, KEY_NAME, RESOURCE] {
            for part in ["", "a/b", "..", "a?b", "a%2fb", "a b", "\u{e4}"] {
                let read = VaultSettings::read(&settings(&[(name, json!(part))]));
                let why = read.err().unwrap();
                assert!(why.message.contains(name), "{why}");
            }
        }
        let slash = settings(&[(VAULT_URL, json!("https://kv.vault.azure.net/"))]);
        let read = VaultSettings::read(&slash).unwrap();
        assert_eq!(read.vault_url, "https://kv.vault.azure.net");
    }
}
