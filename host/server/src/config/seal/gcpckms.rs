//! `seal "gcpckms"`: the key of the data is encrypted by a key of Google Cloud KMS.
//!
//! This file prevents a private key in the configuration, and a seal that works by chance: the key
//! file of the service account is named by the block, and neither the variables of Google nor the
//! credentials of the machine are read.

use super::credential::{CredentialForm, CredentialPlace};
use super::keeper::{KeeperSeal, PemFile, is_disabled};
use super::key_source::{KeySource, source_of};
use super::service_address::read_address;
use crate::config::findings::ConfigError;
use crate::config::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use crate::config::vault::OF_A_SEAL;
use bulkhead_wire::failure::quoted;
use serde_json::json;

const WORDS: SectionWords = SectionWords {
    keys: &[PROJECT, REGION, KEY_RING, CRYPTO_KEY, CREDENTIALS, ENDPOINT, CA_CERT, "disabled"],
    blocks: &[],
    foreign: OF_A_SEAL,
};

/// The kind of the seal, as it is stored with the data.
pub(super) const GCP_KMS: &str = "gcpckms";

const PROJECT: &str = "project";
const REGION: &str = "region";
const KEY_RING: &str = "key_ring";
const CRYPTO_KEY: &str = "crypto_key";
const CREDENTIALS: &str = "credentials";
const ENDPOINT: &str = "endpoint";
const CA_CERT: &str = "tls_ca_cert";

const CREDENTIALS_EXAMPLE: &str = "credentials = \"/etc/bulkhead/service-account.json\", or \
    \"env://GOOGLE_CREDENTIALS\" (the credentials of the machine are not read)";
const ENDPOINT_EXAMPLE: &str = "\"https://cloudkms.googleapis.com\"";
const PUBLIC_ENDPOINT: &str = "https://cloudkms.googleapis.com";

/// Variables that override the block in published servers, with the name of the setting.
const VARIABLES: [(&str, &str); 4] = [
    ("GOOGLE_PROJECT", PROJECT),
    ("GOOGLE_REGION", REGION),
    ("VAULT_GCPCKMS_SEAL_KEY_RING", KEY_RING),
    ("VAULT_GCPCKMS_SEAL_CRYPTO_KEY", CRYPTO_KEY),
];

/// Maximum length of a part of the key's name, in bytes. The parts are the id of the key, which has
/// at most 256 bytes.
const NAME_MAX: usize = 63;

/// Reads the block. `None`: the block is disabled, or an error is kept.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<KeeperSeal> {
    let section = block.section(&WORDS);
    if is_disabled(&section)? {
        return None;
    }
    let names = [(PROJECT, "\"my-project\""), (REGION, "\"global\""), (KEY_RING, "\"bulkhead\"")];
    let names = names.into_iter().chain([(CRYPTO_KEY, "\"unseal\"")]);
    let names = names.map(|(setting, example)| {
        let value = section.required(setting, example)?;
        section.keep(read_name(&value)).map(|name| (setting, name))
    });
    let names: Vec<_> = names.collect();
    let credentials = read_credentials(&section);
    let endpoint = match section.value(ENDPOINT) {
        Some(value) => section.keep(read_address(&value, ENDPOINT_EXAMPLE)),
        None => Some(PUBLIC_ENDPOINT.to_owned()),
    };
    let path = section.read(CA_CERT, ConfigValue::path);
    let names: Vec<(&str, String)> = names.into_iter().collect::<Option<_>>()?;
    let (credentials, endpoint) = (credentials?, endpoint?);
    let shown = names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join("/");
    let summary = format!(
        "opened by the key {} of Google Cloud KMS at {endpoint}, with {credentials}",
        quoted(&shown)
    );
    let mut plain = vec![(ENDPOINT, json!(endpoint))];
    plain.extend(names.into_iter().map(|(setting, name)| (setting, json!(name))));
    let file = |path| PemFile { setting: CA_CERT, path, is_key: false };
    Some(KeeperSeal {
        kind: GCP_KMS,
        plain,
        credentials: vec![credentials],
        files: path.map(file).into_iter().collect(),
        renews_credentials: false,
        unsent: Vec::new(),
        variables: &VARIABLES,
        summary,
    })
}

/// Reads the place of the key file: a path, as in published servers, `file:///…` or `env://NAME`. A
/// text that is not a place is not repeated in the error: the text may be the key file itself.
fn read_credentials(section: &ConfigSection<'_>) -> Option<CredentialPlace> {
    let Some(value) = section.value(CREDENTIALS) else {
        let missing = format!("seal \"gcpckms\" needs credentials: write {CREDENTIALS_EXAMPLE}");
        section.refuse(section.error(missing));
        return None;
    };
    let text = section.keep(value.text())?;
    let path = || text.starts_with('/').then(|| value.path().ok().map(KeySource::File)).flatten();
    let source = source_of(text).or_else(path).ok_or_else(|| {
        value.error(format!(
            "the value is not the place of a key file, and this file may not hold the key; write \
             {CREDENTIALS_EXAMPLE}"
        ))
    });
    let source = section.keep(source)?;
    Some(CredentialPlace::of_form(CredentialForm::ServiceAccount, CREDENTIALS, source))
}

/// Reads a part of the key's name. A project of a domain has a colon.
fn read_name(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let is_name = (1..=NAME_MAX).contains(&text.len())
        && text.chars().all(is_plain)
        && !text.chars().all(|c| c == '.');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} is not a name; write 1 to {NAME_MAX} letters, digits, -, _ and .",
            quoted(text)
        ))),
    }
}
