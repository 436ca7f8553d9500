//! The settings of the seal, checked before a request is sent.
//!
//! This file prevents the token from reaching a path that the operator did not write: the parts of
//! the URL hold no character with a meaning in a URL.

use bulkhead_sdk::Failure;
use bulkhead_sdk::http::HttpTls;
use bulkhead_sdk::seal_plugin::{SealSettings, is_path_segment, text_setting};
use bulkhead_sdk::wire::description::{Field, FieldKind};
use bulkhead_sdk::wire::failure::quoted;
use serde_json::Value;

pub(crate) const ADDRESS: &str = "address";
const TOKEN: &str = "token";
const KEY_NAME: &str = "key_name";
const MOUNT_PATH: &str = "mount_path";
const NAMESPACE: &str = "namespace";
const DISABLE_RENEWAL: &str = "disable_renewal";
const CA_CERT: &str = "tls_ca_cert";
const CLIENT_CERT: &str = "tls_client_cert";
const CLIENT_KEY: &str = "tls_client_key";
const SERVER_NAME: &str = "tls_server_name";

/// Mount path of transit unless the settings name another.
const DEFAULT_MOUNT_PATH: &str = "transit";

/// Checked settings. No `Debug`: the settings hold the token and a private key.
pub(crate) struct TransitSettings {
    /// `https://vault.example.com:8200`, without a slash at the end.
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) key_name: String,
    /// Without slashes at the ends.
    pub(crate) mount_path: String,
    pub(crate) namespace: Option<String>,
    pub(crate) renews_token: bool,
    pub(crate) tls: Option<HttpTls>,
}

/// Returns the settings for the description.
pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str, about: &str| Field::new(name, FieldKind::String, about);
    vec![
        text(ADDRESS, "URL of the server with the transit engine, without a path").required(),
        text(TOKEN, "token with `update` on encrypt and decrypt of the key").required().secret(),
        text(KEY_NAME, "name of the transit key").required(),
        text(MOUNT_PATH, "mount path of the transit engine; `transit/` unless set"),
        text(NAMESPACE, "namespace of the transit engine"),
        Field::new(DISABLE_RENEWAL, FieldKind::Bool, "`true` leaves the token without renewal"),
        text(CA_CERT, "trusted authorities in PEM; the public authorities unless set"),
        text(CLIENT_CERT, "client certificate in PEM"),
        text(CLIENT_KEY, "private key of the client certificate in PEM").secret(),
        text(SERVER_NAME, "name in the server's certificate; the host of `address` unless set"),
    ]
}

impl TransitSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Invalid request, with the name of the wrong setting.
    pub(crate) fn read(settings: &SealSettings) -> Result<Self, Failure> {
        let address = address(text(settings, ADDRESS)?)?;
        let tls = tls(settings)?;
        if tls.is_some() && !address.starts_with("https://") {
            return Err(Failure::invalid(
                "the address of seal \"transit\" begins with http://, and the settings `tls_*` \
                 need https://; change the address, or remove the settings",
            ));
        }
        let mount_path = text(settings, MOUNT_PATH)?.trim_matches('/');
        let mount_path = if mount_path.is_empty() { DEFAULT_MOUNT_PATH } else { mount_path };
        let namespace = text(settings, NAMESPACE)?.trim_matches('/');
        let key_name = text(settings, KEY_NAME)?;
        check_path(MOUNT_PATH, mount_path)?;
        check_segment(KEY_NAME, key_name)?;
        if !namespace.is_empty() {
            check_path(NAMESPACE, namespace)?;
        }
        Ok(Self {
            address,
            token: token(text(settings, TOKEN)?)?,
            key_name: key_name.to_owned(),
            mount_path: mount_path.to_owned(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            renews_token: !flag(settings, DISABLE_RENEWAL)?,
            tls,
        })
    }
}

/// Returns the text of a setting; empty if the setting is missing.
fn text<'a>(settings: &'a SealSettings, name: &str) -> Result<&'a str, Failure> {
    text_setting("transit", settings, name)
}

fn flag(settings: &SealSettings, name: &str) -> Result<bool, Failure> {
    match settings.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        Some(Value::String(text)) if ["true", "1"].contains(&text.as_str()) => Ok(true),
        Some(Value::String(text)) if ["", "false", "0"].contains(&text.as_str()) => Ok(false),
        Some(_) => {
            Err(Failure::invalid(format!("{name} of seal \"transit\" is neither true nor false")))
        }
    }
}

/// Returns the address without a slash at the end. The host checks the URL of each request as a
/// whole; this check refuses the parts that would move the path.
fn address(text: &str) -> Result<String, Failure> {
    let address = text.strip_suffix('/').unwrap_or(text);
    let host = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let is_plain = |host: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        !host.is_empty() && host.chars().all(plain)
    };
    match host {
        Some(host) if is_plain(host) => Ok(address.to_owned()),
        _ => Err(Failure::invalid(format!(
            "address {} of seal \"transit\" is not a URL of a scheme, a host and a port; give a \
             URL such as https://vault.example.com:8200",
            quoted(text)
        ))),
    }
}

fn token(text: &str) -> Result<String, Failure> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(Failure::invalid(
            "token of seal \"transit\" is empty, or has characters that no token has; give the \
             token alone, without spaces and line ends",
        )),
    }
}

fn check_path(name: &str, path: &str) -> Result<(), Failure> {
    path.split('/').try_for_each(|segment| check_segment(name, segment))
}

fn check_segment(name: &str, segment: &str) -> Result<(), Failure> {
    match is_path_segment(segment, "._-") {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "{name} of seal \"transit\" has the part {}; use letters, digits, `.`, `_` and `-`",
            quoted(segment)
        ))),
    }
}

fn tls(settings: &SealSettings) -> Result<Option<HttpTls>, Failure> {
    let optional = |name: &str| -> Result<Option<String>, Failure> {
        let text = text(settings, name)?;
        Ok((!text.is_empty()).then(|| text.to_owned()))
    };
    let tls = HttpTls {
        root_certificates: optional(CA_CERT)?,
        client_certificate: optional(CLIENT_CERT)?,
        client_key: optional(CLIENT_KEY)?,
        server_name: optional(SERVER_NAME)?,
    };
    if tls.client_certificate.is_some() != tls.client_key.is_some() {
        return Err(Failure::invalid(
            "seal \"transit\" has one of tls_client_cert and tls_client_key; set both or neither",
        ));
    }
    Ok((tls != HttpTls::default()).then_some(tls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use serde_json::json;

    fn refused(name: &str, value: Value) -> String {
        match TransitSettings::read(&settings(&[(name, value)])) {
            Ok(_) => String::new(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn slashes_at_ends_do_not_matter() {
        let given = settings(&[
            (ADDRESS, json!("https://[::1]:8200/")),
            (MOUNT_PATH, json!("/keys/transit/")),
            (NAMESPACE, json!("team/a/")),
        ]);
        let read = TransitSettings::read(&given).unwrap();
        assert_eq!(read.address, "https://[::1]:8200");
        assert_eq!(read.mount_path, "keys/transit");
        assert_eq!(read.namespace.as_deref(), Some("team/a"));
        assert!(read.renews_token && read.tls.is_none());
        assert_eq!(TransitSettings::read(&settings(&[])).unwrap().mount_path, "transit");
    }

    #[test]
    fn settings_that_move_the_url_are_refused() {
        for address in [
            "",
            "vault:8200",
            "ftp://vault",
            "https://",
            "https://a@b",
            "https://a/ui",
            "https://a?b",
        ] {
            assert!(refused(ADDRESS, json!(address)).contains("address"), "{address}");
        }
        for path in ["../sys", "a//b", "a?b", "a%2fb", "a b", ".", "a/..", "ä"] {
            assert!(refused(MOUNT_PATH, json!(path)).contains(MOUNT_PATH), "{path}");
            assert!(refused(NAMESPACE, json!(path)).contains(NAMESPACE), "{path}");
        }
        for name in ["", "a/b", "..", "a#b"] {
            assert!(refused(KEY_NAME, json!(name)).contains(KEY_NAME), "{name}");
        }
    }

    #[test]
    fn refusal_of_token_never_shows_token() {
        for token in ["", "s.secret\n", "s secret", "s.gehéim"] {
            let message = refused(TOKEN, json!(token));
            assert!(message.contains("token of seal"), "{message}");
            assert!(!message.contains("s.") && !message.contains("secret"), "{message}");
        }
        assert!(refused(TOKEN, json!(7)).contains("quotes"));
        assert!(refused(DISABLE_RENEWAL, json!("perhaps")).contains(DISABLE_RENEWAL));
    }

    #[test]
    fn client_certificate_needs_key_and_https() {
        assert!(refused(CLIENT_CERT, json!("PEM")).contains("both or neither"));
        assert!(refused(CLIENT_KEY, json!("PEM")).contains("both or neither"));
        let both = [(CLIENT_CERT, json!("PEM")), (CLIENT_KEY, json!("PEM"))];
        let tls = TransitSettings::read(&settings(&both)).unwrap().tls.unwrap();
        assert_eq!(tls.client_key.as_deref(), Some("PEM"));
        let clear = settings(&[(ADDRESS, json!("http://a:8200")), (CA_CERT, json!("PEM"))]);
        assert!(TransitSettings::read(&clear).is_err_and(|why| why.message.contains("https://")));
    }
}
