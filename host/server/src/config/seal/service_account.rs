//! The key file of a service account of Google Cloud.
//!
//! This file prevents an assertion from reaching a server in the clear: the file names the endpoint
//! for tokens, and plain HTTP is for loopback addresses alone.

use super::keeper_settings::KeeperSettings;
use super::service_address::is_loopback;
use hyper::Uri;
use serde_json::Value;

/// Endpoint for tokens, if the file names none.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// A key file. No `Debug`: the file has a private key. The fields are wiped when dropped.
pub(super) struct ServiceAccount(KeeperSettings);

impl ServiceAccount {
    /// Reads a key file.
    ///
    /// # Errors
    /// The end of a sentence that begins with the place of the file. The sentence shows no part of
    /// the file.
    pub(super) fn parse(content: &[u8]) -> Result<Self, &'static str> {
        let account = KeeperSettings::of_json(content)
            .map(Self)
            .ok_or("is not JSON of a key file; write the key file of a service account")?;
        if account.field("type") != "service_account" {
            return Err("is of another type than service_account; federated and user credentials \
                        are not supported: write the key file of a service account");
        }
        let has_key = account.field("private_key").contains("PRIVATE KEY-----");
        if account.field("client_email").is_empty() || !has_key {
            return Err(
                "lacks client_email or private_key; write the whole key file of a service \
                        account",
            );
        }
        let uri = account.token_uri().parse::<Uri>();
        let is_fit = uri.is_ok_and(|uri| uri.scheme_str() == Some("https") || is_loopback(&uri));
        match is_fit {
            true => Ok(account),
            false => Err("has a token_uri that is not https://; write the key file of a service \
                          account without a change"),
        }
    }

    /// Adds the settings of the component.
    pub(super) fn add_to(&self, settings: &mut KeeperSettings) {
        for name in ["client_email", "private_key", "private_key_id"] {
            settings.add(name, self.field(name));
        }
        settings.add("token_uri", self.token_uri());
    }

    fn token_uri(&self) -> &str {
        match self.field("token_uri") {
            "" => TOKEN_URI,
            uri => uri,
        }
    }

    /// Returns a text of the file; empty if the field is missing.
    fn field(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}
