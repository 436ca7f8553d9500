//! `seal "awskms"`: the key of the data is encrypted by a key of AWS KMS.
//!
//! This file prevents a secret key in the configuration, and a seal that works by chance: the
//! credentials are in files or variables that the block names, and neither the variables of AWS nor
//! the credentials of the machine are read.

use super::credential::CredentialPlace;
use super::keeper::{KeeperSeal, PemFile, is_disabled};
use super::key_source::source_of;
use super::service_address::read_address;
use crate::config::findings::ConfigError;
use crate::config::section::{ConfigSection, ConfigValue, LabelledBlock, SectionWords};
use crate::config::vault::AWS_KMS_SEAL;
use bulkhead_wire::failure::quoted;
use serde_json::{Value, json};

const WORDS: SectionWords = SectionWords {
    keys: &[
        REGION,
        ACCESS_KEY.0,
        SECRET_KEY.0,
        SESSION_TOKEN.0,
        KEY_ID,
        ENDPOINT,
        CA_CERT,
        "disabled",
    ],
    blocks: &[],
    foreign: AWS_KMS_SEAL,
};

/// The kind of the seal, as it is stored with the data.
pub(super) const AWS_KMS: &str = "awskms";

const REGION: &str = "region";
const KEY_ID: &str = "kms_key_id";
const ENDPOINT: &str = "endpoint";
const CA_CERT: &str = "tls_ca_cert";
/// Settings with credentials, and the noun of each.
const ACCESS_KEY: (&str, &str) = ("access_key", "access key");
const SECRET_KEY: (&str, &str) = ("secret_key", "secret key");
const SESSION_TOKEN: (&str, &str) = ("session_token", "session token");

const REGION_EXAMPLE: &str = "\"eu-central-1\"";
const KEY_EXAMPLE: &str = "\"alias/bulkhead\", or the id or the ARN of the key";
const ACCESS_KEY_EXAMPLE: &str = "access_key = \"AKIA…\", or the place of the access key, such as \
    \"env://AWS_ACCESS_KEY_ID\" (the credentials of the machine and of profiles are not read)";
const SECRET_KEY_EXAMPLE: &str = "\"file:///run/credentials/bulkhead.service/secret-key\" or \
    \"env://AWS_SECRET_ACCESS_KEY\"";
const SESSION_TOKEN_EXAMPLE: &str = "\"file:///run/bulkhead/session-token\" or \
    \"env://AWS_SESSION_TOKEN\"";
const ENDPOINT_EXAMPLE: &str = "\"https://vpce-0123.kms.eu-central-1.vpce.amazonaws.com\"";

/// Variables that override the block in published servers, with the name of the setting.
const VARIABLES: [(&str, &str); 1] = [("VAULT_AWSKMS_SEAL_KEY_ID", KEY_ID)];

/// Maximum length of a region, in bytes.
const REGION_MAX: usize = 64;
/// Maximum length of the id, the ARN or the alias of a key, in bytes.
const KEY_ID_MAX: usize = 2_048;
/// Length of the id of an access key, in bytes.
const ACCESS_KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// Reads the block. `None`: the block is disabled, or an error is kept.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<KeeperSeal> {
    let section = block.section(&WORDS);
    if is_disabled(&section)? {
        return None;
    }
    let region = section.required(REGION, REGION_EXAMPLE);
    let region = region.and_then(|value| section.keep(read_region(&value)));
    let key_id = section.required(KEY_ID, KEY_EXAMPLE);
    let key_id = key_id.and_then(|value| section.keep(read_key_id(&value)));
    let credentials = read_credentials(&section);
    let endpoint = read_endpoint(&section, region.as_deref());
    let path = section.read(CA_CERT, ConfigValue::path);
    if let (Some(_), Some(endpoint), Some(value)) = (&path, &endpoint, section.value(CA_CERT))
        && !endpoint.starts_with("https://")
    {
        section.refuse(value.error("has no effect without TLS; write endpoint = \"https://…\""));
    }
    let (region, key_id, endpoint) = (region?, key_id?, endpoint?);
    let (access_key, credentials) = credentials?;
    let summary = format!(
        "opened by the key {} of AWS KMS in {region} at {endpoint}, with the credentials of {}",
        quoted(&key_id),
        credentials.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    );
    let mut plain =
        vec![(ENDPOINT, json!(endpoint)), (REGION, json!(region)), (KEY_ID, json!(key_id))];
    plain.extend(access_key.map(|access_key| (ACCESS_KEY.0, access_key)));
    let file = |path| PemFile { setting: CA_CERT, path, is_key: false };
    Some(KeeperSeal {
        kind: AWS_KMS,
        plain,
        credentials,
        files: path.map(file).into_iter().collect(),
        renews_credentials: false,
        unsent: Vec::new(),
        variables: &VARIABLES,
        summary,
    })
}

/// Reads the credentials: the access key if the block has its id, and the places of the others.
fn read_credentials(section: &ConfigSection<'_>) -> Option<(Option<Value>, Vec<CredentialPlace>)> {
    let (mut plain, mut places) = (None, Vec::new());
    let Some(access_key) = section.value(ACCESS_KEY.0) else {
        let missing = format!("seal \"awskms\" needs access_key: write {ACCESS_KEY_EXAMPLE}");
        section.refuse(section.error(missing));
        return None;
    };
    match section.keep(read_access_key(&access_key))? {
        Some(id) => plain = Some(json!(id)),
        None => places.push(CredentialPlace::read(&access_key, ACCESS_KEY, ACCESS_KEY_EXAMPLE)),
    }
    let secret_key = section.required(SECRET_KEY.0, SECRET_KEY_EXAMPLE)?;
    places.push(CredentialPlace::read(&secret_key, SECRET_KEY, SECRET_KEY_EXAMPLE));
    if let Some(token) = section.value(SESSION_TOKEN.0) {
        places.push(CredentialPlace::read(&token, SESSION_TOKEN, SESSION_TOKEN_EXAMPLE));
    }
    let places: Vec<_> = places.into_iter().map(|place| section.keep(place)).collect();
    Some((plain, places.into_iter().collect::<Option<_>>()?))
}

/// Returns the id of an access key; `None` for the place of an access key. Another text is not
/// repeated in the error: the text may be a secret key.
fn read_access_key<'a>(value: &ConfigValue<'a>) -> Result<Option<&'a str>, ConfigError> {
    let text = value.text()?;
    if source_of(text).is_some() {
        return Ok(None);
    }
    let is_id = ACCESS_KEY_BYTES.contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    match is_id {
        true => Ok(Some(text)),
        false => Err(value.error(format!(
            "the value is neither the id of an access key nor a place; write {ACCESS_KEY_EXAMPLE}"
        ))),
    }
}

fn read_region(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=REGION_MAX).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(value.error(format!("{} is not a region; write {REGION_EXAMPLE}", quoted(text))))
}

fn read_key_id(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":/_-".contains(c);
    if (1..=KEY_ID_MAX).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(value.error(format!("{} is not a key; write {KEY_EXAMPLE}", quoted(text))))
}

/// Reads the endpoint. Without the setting, the region names the public endpoint of its partition.
fn read_endpoint(section: &ConfigSection<'_>, region: Option<&str>) -> Option<String> {
    if let Some(value) = section.value(ENDPOINT) {
        return section.keep(read_address(&value, ENDPOINT_EXAMPLE));
    }
    let region = region?;
    if region.contains("-iso") || region.starts_with("eusc-") {
        section.refuse(section.error(format!(
            "seal \"awskms\" needs endpoint: the region {} has a domain of its own; write endpoint \
             = \"https://kms.{region}.…\"",
            quoted(region)
        )));
        return None;
    }
    let end = if region.starts_with("cn-") { ".cn" } else { "" };
    Some(format!("https://kms.{region}.amazonaws.com{end}"))
}
