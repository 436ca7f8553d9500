//! `seal "transit"`: the key of the data is encrypted by the transit engine of another server.
//!
//! This file prevents a token in the configuration, and a token or a key on a connection that other
//! machines read: the token is in a file or in a variable, and plain HTTP and unverified
//! certificates are refused.

use super::credential::CredentialPlace;
use super::keeper::{KeeperSeal, PemFile, is_disabled};
use super::service_address::read_address;
use crate::config::findings::ConfigError;
use crate::config::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use crate::config::vault::OF_A_SEAL;
use bulkhead_wire::failure::quoted;
use serde_json::json;

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
    foreign: OF_A_SEAL,
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

/// The setting of the token, and its noun.
const TOKEN: (&str, &str) = ("token", "token");

/// The kind of the seal, as it is stored with the data.
pub(super) const TRANSIT: &str = "transit";

/// Maximum length of a name of a key, a mount or a namespace, in bytes.
const NAME_MAX: usize = 512;

/// Variables that override the block in published servers, with the name of the setting.
const VARIABLES: [(&str, &str); 2] =
    [("VAULT_TRANSIT_SEAL_KEY_NAME", "key_name"), ("VAULT_TRANSIT_SEAL_MOUNT_PATH", "mount_path")];

/// Reads the block. `None`: the block is disabled, or an error is kept.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<KeeperSeal> {
    let section = block.section(&WORDS);
    if is_disabled(&section)? {
        return None;
    }
    let address = section.required("address", ADDRESS_EXAMPLE);
    let address = address.and_then(|value| section.keep(read_address(&value, ADDRESS_EXAMPLE)));
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
    let (files, server_name) = read_tls(&section, address.as_deref())?;
    let disable_renewal = section.read("disable_renewal", ConfigValue::flag).unwrap_or(false);
    let (address, token, key_name, mount_path) = (address?, token?, key_name?, mount_path?);
    let summary = format!(
        "opened by the key {} of {mount_path}/ at {address}, with the token of {token}",
        quoted(&key_name)
    );
    let mut plain = vec![
        ("address", json!(address)),
        ("key_name", json!(key_name)),
        ("mount_path", json!(mount_path)),
        ("namespace", json!(namespace?)),
        ("disable_renewal", json!(disable_renewal)),
    ];
    plain.extend(server_name.map(|name| (SERVER_NAME, json!(name))));
    Some(KeeperSeal {
        kind: TRANSIT,
        plain,
        credentials: vec![token],
        files,
        renews_credentials: !disable_renewal,
        unsent: Vec::new(),
        variables: &VARIABLES,
        summary,
    })
}

/// Reads the place of the token.
fn read_token_place(section: &ConfigSection<'_>) -> Option<CredentialPlace> {
    match (section.value("token"), section.value(TOKEN_FILE)) {
        (Some(value), Some(_)) => {
            section.refuse(value.error("token_file is given, too; leave one of the two out"));
            None
        }
        (Some(value), None) => section.keep(CredentialPlace::read(&value, TOKEN, TOKEN_EXAMPLE)),
        (None, Some(value)) => {
            let path = section.keep(value.path())?;
            Some(CredentialPlace::file(TOKEN, TOKEN_FILE, path))
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

/// Reads the files of TLS, and the name of the server. `None`: an error is kept.
fn read_tls(
    section: &ConfigSection<'_>,
    address: Option<&str>,
) -> Option<(Vec<PemFile>, Option<String>)> {
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
    match (cert, key) {
        (Some(cert), None) => {
            section.refuse(cert.error("needs a key; give tls_client_key, too"));
            return None;
        }
        (None, Some(key)) => {
            section.refuse(key.error("needs a certificate; give tls_client_cert, too"));
            return None;
        }
        _ => {}
    }
    let server_name = match name {
        Some(value) => Some(section.keep(value.text())?.to_owned()),
        None => None,
    };
    let mut files = Vec::new();
    for setting in [CA_CERT, CLIENT_CERT, CLIENT_KEY] {
        let path = section.read(setting, ConfigValue::path);
        let is_key = setting == CLIENT_KEY;
        files.extend(path.map(|path| PemFile { setting, path, is_key }));
    }
    Some((files, server_name))
}
