//! `seal "transit"`: the key of the data is encrypted by the transit engine of another server.
//!
//! This file prevents a token in the configuration, and a token or a key on a connection that other
//! machines read: the token is in a file or in a variable, and plain HTTP and unverified
//! certificates are refused. Token and files are read at each use, because an agent replaces them.

use super::keeper_settings::KeeperSettings;
use super::{KeySource, SealEnvironment, source_of};
use crate::config::findings::ConfigError;
use crate::config::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use crate::config::vault::TRANSIT_SEAL;
use bulkhead_tls::NamedFile;
use bulkhead_wire::failure::quoted;
use hyper::Uri;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use zeroize::Zeroizing;

const WORDS: SectionWords = SectionWords {
    keys: &[
        "address",
        "token",
        TOKEN_FILE,
        "key_name",
        "mount_path",
        "namespace",
        CA_CERT,
        CLIENT_CERT,
        CLIENT_KEY,
        SERVER_NAME,
        "tls_skip_verify",
        "disable_renewal",
        "disabled",
    ],
    blocks: &[],
    foreign: TRANSIT_SEAL,
};

const TOKEN_FILE: &str = "token_file";
const CA_CERT: &str = "tls_ca_cert";
const CLIENT_CERT: &str = "tls_client_cert";
const CLIENT_KEY: &str = "tls_client_key";
const SERVER_NAME: &str = "tls_server_name";

const ADDRESS_EXAMPLE: &str = "\"https://vault.example.com:8200\"";
const TOKEN_EXAMPLE: &str = "token_file = \"/run/bulkhead/seal-token\", or token = \
    \"env://VAULT_TOKEN\"";
const MOUNT: &str = "transit";

/// Maximum length of a token, in bytes.
const TOKEN_MAX: usize = 8 << 10;
/// Maximum length of a name of a key, a mount or a namespace, in bytes.
const NAME_MAX: usize = 512;

/// Variables that override the block in published servers, with the name of the setting.
const VARIABLES: [(&str, &str); 2] =
    [("VAULT_TRANSIT_SEAL_KEY_NAME", "key_name"), ("VAULT_TRANSIT_SEAL_MOUNT_PATH", "mount_path")];

/// The settings of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransitSettings {
    /// URL of the other server, without a path.
    address: String,
    token: TokenPlace,
    key_name: String,
    /// Path of the transit engine, without slashes at its ends.
    mount_path: String,
    /// Empty for the root namespace.
    namespace: String,
    tls: TransitTls,
    disable_renewal: bool,
}

/// The place of the token, and its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TokenPlace {
    setting: &'static str,
    source: KeySource,
}

/// The files and the name for TLS; all optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TransitTls {
    ca_cert: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

/// Access to the other server, with the settings of the moment.
#[derive(Debug)]
pub(crate) struct TransitAccess {
    settings: TransitSettings,
    /// Token of the environment, if the settings name a variable.
    variable: Option<Zeroizing<String>>,
}

/// Reads the block. `None`: the block is disabled, or an error is kept.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<TransitSettings> {
    let section = block.section(&WORDS);
    if let Some(value) = section.value("disabled")
        && section.keep(value.flag())?
    {
        section.notice(
            &value,
            "the block has no effect: recovery keys open the data in a migration; leave the block \
             out afterwards",
        );
        return None;
    }
    let address = section.required("address", ADDRESS_EXAMPLE);
    let address = address.and_then(|value| section.keep(read_address(&value)));
    let token = read_token_place(&section);
    let key_name = section.required("key_name", "\"bulkhead-unseal\"");
    let key_name = key_name.and_then(|value| section.keep(read_name(&value)));
    let mount_path = match section.value("mount_path") {
        Some(value) => section.keep(read_path(&value)),
        None => Some(MOUNT.to_owned()),
    };
    let namespace = match section.value("namespace") {
        Some(value) if value.text().is_ok_and(|text| matches!(text, "" | "/" | "root")) => {
            Some(String::new())
        }
        Some(value) => section.keep(read_path(&value)),
        None => Some(String::new()),
    };
    let tls = read_tls(&section, address.as_deref());
    Some(TransitSettings {
        address: address?,
        token: token?,
        key_name: key_name?,
        mount_path: mount_path?,
        namespace: namespace?,
        tls: tls?,
        disable_renewal: section.read("disable_renewal", ConfigValue::flag).unwrap_or(false),
    })
}

/// Reads the address, and returns the address in lower case.
fn read_address(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.url()?;
    let uri: Uri = text.parse().map_err(|_| value.error("is not a URL"))?;
    if uri.scheme_str() == Some("https") || is_loopback(&uri) {
        // The component accepts the scheme in lower case alone. The address has no path.
        return Ok(text.to_ascii_lowercase());
    }
    Err(value.error(format!(
        "{} is plain HTTP to another machine: the token and the key of the data would pass in the \
         clear; write {ADDRESS_EXAMPLE}",
        quoted(&text)
    )))
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Reads the place of the token. A text that is not a place is not repeated in the error: the text
/// may be the token.
fn read_token_place(section: &ConfigSection<'_>) -> Option<TokenPlace> {
    match (section.value("token"), section.value(TOKEN_FILE)) {
        (Some(value), Some(_)) => {
            section.refuse(value.error("token_file is given, too; leave one of the two out"));
            None
        }
        (Some(value), None) => {
            let text = section.keep(value.text())?;
            let source = source_of(text).ok_or_else(|| {
                value.error(format!(
                    "the value is not the place of a token, and this file may not hold the token; \
                     write {TOKEN_EXAMPLE}"
                ))
            });
            section.keep(source).map(|source| TokenPlace { setting: "token", source })
        }
        (None, Some(value)) => {
            let source = section.keep(value.path()).map(KeySource::File)?;
            Some(TokenPlace { setting: TOKEN_FILE, source })
        }
        (None, None) => {
            let missing = format!("seal \"transit\" needs a token: write {TOKEN_EXAMPLE}");
            section.refuse(section.error(missing));
            None
        }
    }
}

/// Reads the name of the key, a single part of a path.
fn read_name(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = read_path(value)?;
    if text.contains('/') {
        return Err(value.error(format!("{} is a path and not a name of a key", quoted(&text))));
    }
    Ok(text)
}

/// Reads a path without the slashes at its ends.
fn read_path(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let path = text.trim_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_plain);
    if path.len() <= NAME_MAX && path.split('/').all(is_part) {
        return Ok(path.to_owned());
    }
    Err(value.error(format!(
        "{} is not a name; write letters, digits, -, _ and ., such as \"transit\"",
        quoted(text)
    )))
}

/// Reads the settings of TLS. `None`: an error is kept.
fn read_tls(section: &ConfigSection<'_>, address: Option<&str>) -> Option<TransitTls> {
    if let Some(value) = section.value("tls_skip_verify")
        && section.keep(value.flag())?
    {
        section.refuse(value.error(
            "a server without a verified certificate would get the token and the key of the data; \
             name its authority by tls_ca_cert = \"/etc/bulkhead/vault-ca.pem\"",
        ));
        return None;
    }
    let given = [CA_CERT, CLIENT_CERT, CLIENT_KEY, SERVER_NAME].map(|key| section.value(key));
    if let (Some(value), Some(false)) =
        (given.iter().flatten().next(), address.map(|address| address.starts_with("https://")))
    {
        section.refuse(value.error("has no effect without TLS; write address = \"https://…\""));
        return None;
    }
    let [_, cert, key, name] = &given;
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((section.keep(cert.path())?, section.keep(key.path())?)),
        (Some(cert), None) => {
            section.refuse(cert.error("needs a key; give tls_client_key, too"));
            return None;
        }
        (None, Some(key)) => {
            section.refuse(key.error("needs a certificate; give tls_client_cert, too"));
            return None;
        }
        (None, None) => None,
    };
    let server_name = match name {
        Some(value) => Some(section.keep(value.text())?.to_owned()),
        None => None,
    };
    Some(TransitTls { ca_cert: section.read(CA_CERT, ConfigValue::path), client, server_name })
}

impl TransitSettings {
    /// Returns the access, and reads token and files once.
    ///
    /// # Errors
    /// The unusable token, file or variable, and the remedy.
    pub(super) fn load(&self, environment: SealEnvironment<'_>) -> Result<TransitAccess, String> {
        for (name, setting) in VARIABLES {
            let used = if setting == "key_name" { &self.key_name } else { &self.mount_path };
            let differs = |value: &std::ffi::OsString| {
                value.to_str().is_none_or(|value| value.trim_matches('/') != used)
            };
            if environment(name).is_some_and(|value| differs(&value)) {
                return Err(format!(
                    "{name} of the environment is not read, and differs from {setting}; write \
                     {setting} in the block, and remove the variable"
                ));
            }
        }
        let variable = match &self.token.source {
            KeySource::File(_) => None,
            KeySource::Variable(name) => {
                let value = environment(name).ok_or_else(|| {
                    format!("{} is not set; set the variable, or write token_file", self.token)
                })?;
                Some(self.token.check(&Zeroizing::new(value.into_encoded_bytes()))?)
            }
        };
        let access = TransitAccess { settings: self.clone(), variable };
        access.read()?;
        Ok(access)
    }
}

impl TransitAccess {
    /// Returns `false` if the settings leave the token without renewal.
    pub(crate) fn renews_token(&self) -> bool {
        !self.settings.disable_renewal
    }

    /// Reads token and files, and returns the settings for the component: `address`, `token`,
    /// `key_name`, `mount_path`, `namespace`, `disable_renewal`, and the PEM texts and the name of
    /// TLS, if any.
    ///
    /// # Errors
    /// The unusable token or file, and the remedy.
    pub(crate) fn read(&self) -> Result<KeeperSettings, String> {
        let TransitSettings { address, key_name, mount_path, namespace, tls, .. } = &self.settings;
        let token = match (&self.variable, &self.settings.token.source) {
            (Some(token), _) => token.clone(),
            (None, KeySource::File(path)) => {
                let place = &self.settings.token;
                place.check(&NamedFile::new(place.setting, path).secret()?)?
            }
            (None, KeySource::Variable(_)) => return Err("the token was not read".to_owned()),
        };
        let mut settings = KeeperSettings::default();
        settings.add("address", address.as_str());
        settings.add_secret("token", &token);
        settings.add("key_name", key_name.as_str());
        settings.add("mount_path", mount_path.as_str());
        settings.add("namespace", namespace.as_str());
        settings.add("disable_renewal", self.settings.disable_renewal);
        if let Some(path) = &tls.ca_cert {
            let file = NamedFile::new(CA_CERT, path);
            file.certificates()?;
            settings.add_secret(CA_CERT, &text_of(&file, &file.content()?)?);
        }
        if let Some((cert, key)) = &tls.client {
            let (cert, key) = (NamedFile::new(CLIENT_CERT, cert), NamedFile::new(CLIENT_KEY, key));
            cert.certificates()?;
            settings.add_secret(CLIENT_CERT, &text_of(&cert, &cert.content()?)?);
            settings.add_secret(CLIENT_KEY, &text_of(&key, &key.secret()?)?);
        }
        if let Some(name) = &tls.server_name {
            settings.add(SERVER_NAME, name.as_str());
        }
        Ok(settings)
    }
}

fn text_of(file: &NamedFile, content: &[u8]) -> Result<Zeroizing<String>, String> {
    match std::str::from_utf8(content) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(format!("{file} is not a text; write the certificate or key in PEM")),
    }
}

impl TokenPlace {
    /// Returns the token without surrounding white space.
    fn check(&self, content: &[u8]) -> Result<Zeroizing<String>, String> {
        let token = content.trim_ascii();
        let is_token =
            (1..=TOKEN_MAX).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        match std::str::from_utf8(token) {
            Ok(token) if is_token => Ok(Zeroizing::new(token.to_owned())),
            _ => Err(format!(
                "{self} holds {} bytes that are not a token; write one line of visible characters",
                content.len()
            )),
        }
    }
}

impl fmt::Display for TokenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.describe(self.setting, f)
    }
}

impl fmt::Display for TransitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, token, key_name, mount_path, .. } = self;
        write!(f, "opened by the key {} of {mount_path}/ at {address}, ", quoted(key_name))?;
        write!(f, "with the token of {token}")
    }
}
