//! `seal "azurekeyvault"`: the key of the data is encrypted by an RSA key of Azure Key Vault.
//!
//! This file prevents a client secret in the configuration, and a seal that works by chance: the
//! secret is in a file or a variable that the block names, and neither the variables of Azure nor
//! the credentials of the machine are read.

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
        TENANT_ID,
        CLIENT_ID,
        CLIENT_SECRET.0,
        ENVIRONMENT,
        VAULT_NAME,
        KEY_NAME,
        RESOURCE,
        VAULT_URL,
        AUTHORITY_HOST,
        CA_CERT,
        "disabled",
    ],
    blocks: &[],
    foreign: OF_A_SEAL,
};

/// The kind of the seal, as it is stored with the data.
pub(super) const AZURE_KEY_VAULT: &str = "azurekeyvault";

const TENANT_ID: &str = "tenant_id";
const CLIENT_ID: &str = "client_id";
/// The setting of the secret, and its noun.
const CLIENT_SECRET: (&str, &str) = ("client_secret", "client secret");
const ENVIRONMENT: &str = "environment";
const VAULT_NAME: &str = "vault_name";
const KEY_NAME: &str = "key_name";
const RESOURCE: &str = "resource";
const VAULT_URL: &str = "vault_url";
const AUTHORITY_HOST: &str = "authority_host";
const CA_CERT: &str = "tls_ca_cert";

const ID_EXAMPLE: &str = "\"03dc33fc-16d9-4b77-8152-3ec568f8af6e\" (the credentials of the machine \
    are not read)";
const SECRET_EXAMPLE: &str = "\"file:///run/credentials/bulkhead.service/client-secret\" or \
    \"env://AZURE_CLIENT_SECRET\"";
const VAULT_EXAMPLE: &str = "\"https://my-vault.vault.azure.net\"";
const AUTHORITY_EXAMPLE: &str = "\"https://login.microsoftonline.com\"";

/// Variables that override the block in published servers, with the name of the setting.
const VARIABLES: [(&str, &str); 2] =
    [("VAULT_AZUREKEYVAULT_VAULT_NAME", VAULT_NAME), ("VAULT_AZUREKEYVAULT_KEY_NAME", KEY_NAME)];

/// Maximum length of a name, in bytes.
const NAME_MAX: usize = 127;

/// A cloud of Azure.
struct AzureCloud {
    name: &'static str,
    authority_host: &'static str,
    resource: &'static str,
}

const CLOUDS: [AzureCloud; 3] = [
    AzureCloud {
        name: "AzurePublicCloud",
        authority_host: "https://login.microsoftonline.com",
        resource: "vault.azure.net",
    },
    AzureCloud {
        name: "AzureUSGovernmentCloud",
        authority_host: "https://login.microsoftonline.us",
        resource: "vault.usgovcloudapi.net",
    },
    AzureCloud {
        name: "AzureChinaCloud",
        authority_host: "https://login.partner.microsoftonline.cn",
        resource: "vault.azure.cn",
    },
];

/// Reads the block. `None`: the block is disabled, or an error is kept.
pub(super) fn settings(block: &LabelledBlock<'_>) -> Option<KeeperSeal> {
    let section = block.section(&WORDS);
    if is_disabled(&section)? {
        return None;
    }
    let name = |setting, example| {
        let value = section.required(setting, example)?;
        section.keep(read_name(&value))
    };
    let (tenant_id, client_id) = (name(TENANT_ID, ID_EXAMPLE), name(CLIENT_ID, ID_EXAMPLE));
    let secret = section.required(CLIENT_SECRET.0, SECRET_EXAMPLE).and_then(|value| {
        section.keep(CredentialPlace::read(&value, CLIENT_SECRET, SECRET_EXAMPLE))
    });
    let vault_name = name(VAULT_NAME, "\"my-vault\"");
    let key_name = name(KEY_NAME, "\"unseal\"");
    let cloud = read_cloud(&section)?;
    let resource = match section.value(RESOURCE) {
        Some(value) => section.keep(read_name(&value))?,
        None => cloud.resource.to_owned(),
    };
    let address = |setting, example, usual: String| match section.value(setting) {
        Some(value) => section.keep(read_address(&value, example)),
        None => Some(usual),
    };
    let authority_host =
        address(AUTHORITY_HOST, AUTHORITY_EXAMPLE, cloud.authority_host.to_owned());
    let host = format!("{}.{resource}", vault_name.as_deref().unwrap_or_default());
    let vault_url =
        address(VAULT_URL, VAULT_EXAMPLE, format!("https://{}", host.to_ascii_lowercase()));
    let path = section.read(CA_CERT, ConfigValue::path);
    let (vault_name, secret, key_name, vault_url) = (vault_name?, secret?, key_name?, vault_url?);
    let summary = format!(
        "opened by the key {} of Azure Key Vault at {vault_url}, with {secret}",
        quoted(&key_name)
    );
    let plain = vec![
        (VAULT_URL, json!(vault_url)),
        (AUTHORITY_HOST, json!(authority_host?)),
        (TENANT_ID, json!(tenant_id?)),
        (CLIENT_ID, json!(client_id?)),
        (KEY_NAME, json!(key_name)),
        (RESOURCE, json!(resource)),
    ];
    let file = |path| PemFile { setting: CA_CERT, path, is_key: false };
    Some(KeeperSeal {
        kind: AZURE_KEY_VAULT,
        plain,
        credentials: vec![secret],
        files: path.map(file).into_iter().collect(),
        renews_credentials: false,
        unsent: vec![(VAULT_NAME, json!(vault_name))],
        variables: &VARIABLES,
        summary,
    })
}

/// Reads the name of a cloud, in any case, as published servers do.
fn read_cloud(section: &ConfigSection<'_>) -> Option<&'static AzureCloud> {
    let Some(value) = section.value(ENVIRONMENT) else { return CLOUDS.first() };
    let text = section.keep(value.text())?;
    let found = CLOUDS.iter().find(|cloud| cloud.name.eq_ignore_ascii_case(text));
    section.keep(found.ok_or_else(|| {
        let names: Vec<&str> = CLOUDS.iter().map(|cloud| cloud.name).collect();
        value.error(format!("{} is not a cloud; write {}", quoted(text), names.join(", ")))
    }))
}

fn read_name(value: &ConfigValue<'_>) -> Result<String, ConfigError> {
    let text = value.text()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_name = (1..=NAME_MAX).contains(&text.len())
        && text.chars().all(is_plain)
        && !text.chars().all(|c| c == '.');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(value.error(format!(
            "{} is not a name; write 1 to {NAME_MAX} letters, digits, - and .",
            quoted(text)
        ))),
    }
}
