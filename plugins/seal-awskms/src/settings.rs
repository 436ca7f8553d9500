//! The settings of the seal, checked before a request is sent.
//!
//! This file prevents a setting from adding a header or a line to the signed text: every part of
//! the signed text is visible ASCII.

use bulkhead_sdk::Failure;
use bulkhead_sdk::http::HttpTls;
use bulkhead_sdk::seal_plugin::{SealSettings, text_setting, tls_with_authorities};
use bulkhead_sdk::wire::description::{Field, FieldKind};

pub(crate) const ENDPOINT: &str = "endpoint";
const REGION: &str = "region";
const ACCESS_KEY: &str = "access_key";
const SECRET_KEY: &str = "secret_key";
const SESSION_TOKEN: &str = "session_token";
const KEY_ID: &str = "kms_key_id";
const CA_CERT: &str = "tls_ca_cert";

/// Checked settings. No `Debug`: the settings hold the secret key.
pub(crate) struct KmsSettings {
    /// `https://kms.eu-central-1.amazonaws.com`, without a slash at the end.
    pub(crate) endpoint: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) session_token: Option<String>,
    pub(crate) key_id: String,
    pub(crate) tls: Option<HttpTls>,
}

/// Returns the settings for the description.
pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str, about: &str| Field::new(name, FieldKind::String, about);
    vec![
        text(ENDPOINT, "URL of the key management service, without a path").required(),
        text(REGION, "region of the key").required(),
        text(ACCESS_KEY, "id of the access key").required(),
        text(SECRET_KEY, "secret access key").required().secret(),
        text(SESSION_TOKEN, "token of temporary credentials").secret(),
        text(KEY_ID, "id, ARN or alias of the key").required(),
        text(CA_CERT, "trusted authorities in PEM; the public authorities unless set"),
    ]
}

impl KmsSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Invalid request, with the name of the wrong setting, and without a value.
    pub(crate) fn read(settings: &SealSettings) -> Result<Self, Failure> {
        let visible = |name: &str| -> Result<String, Failure> {
            let text = text(settings, name)?;
            match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
                true => Ok(text.to_owned()),
                false => Err(Failure::invalid(format!(
                    "{name} of seal \"awskms\" is empty, or has other characters than visible \
                     ASCII; give the value alone, without spaces and line ends"
                ))),
            }
        };
        let is_given = |name: &str| Ok::<_, Failure>(!text(settings, name)?.is_empty());
        let session_token = match is_given(SESSION_TOKEN)? {
            true => Some(visible(SESSION_TOKEN)?),
            false => None,
        };
        let tls = tls_with_authorities(text(settings, CA_CERT)?);
        Ok(Self {
            endpoint: visible(ENDPOINT)?.trim_end_matches('/').to_owned(),
            region: visible(REGION)?,
            access_key: visible(ACCESS_KEY)?,
            secret_key: visible(SECRET_KEY)?,
            session_token,
            key_id: visible(KEY_ID)?,
            tls,
        })
    }

    /// Returns the header `host` that the host sends for the endpoint: a port that the scheme
    /// implies is left out.
    pub(crate) fn host_header(&self) -> String {
        let (scheme, authority) =
            self.endpoint.split_once("://").unwrap_or(("https", &self.endpoint));
        let implied = if scheme == "https" { ":443" } else { ":80" };
        authority.strip_suffix(implied).unwrap_or(authority).to_ascii_lowercase()
    }
}

/// Returns the text of a setting; empty if the setting is missing.
fn text<'a>(settings: &'a SealSettings, name: &str) -> Result<&'a str, Failure> {
    text_setting("awskms", settings, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{SECRET, settings};
    use serde_json::{Value, json};

    fn refused(name: &str, value: Value) -> String {
        match KmsSettings::read(&settings(&[(name, value)])) {
            Ok(_) => String::new(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn values_outside_of_visible_ascii_are_refused_unseen() {
        for name in [ENDPOINT, REGION, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, KEY_ID] {
            for value in [format!("{SECRET}\n"), format!("a {SECRET}"), format!("{SECRET}\u{e9}")] {
                let message = refused(name, json!(value));
                assert!(message.contains(name) && !message.contains(SECRET), "{message}");
            }
            assert!(refused(name, json!(7)).contains("quotes"));
        }
        assert!(refused(SECRET_KEY, json!("")).contains("is empty"));
        assert_eq!(refused(SESSION_TOKEN, json!("")), "");
    }

    #[test]
    fn host_header_leaves_implied_port_out() {
        for (endpoint, header) in [
            ("https://kms.eu-central-1.amazonaws.com", "kms.eu-central-1.amazonaws.com"),
            ("https://kms.example:443/", "kms.example"),
            ("https://kms.example:80", "kms.example:80"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]:80", "[::1]"),
        ] {
            let read = KmsSettings::read(&settings(&[(ENDPOINT, json!(endpoint))])).unwrap();
            assert_eq!(read.host_header(), header);
        }
    }
}
