//! `seal "azurekeyvault"`: its settings, the place of its secret, and the refusals.

use super::transit_seal::{SealFolder, load};
use super::{STORAGE, read, refuse_all, refused};
use crate::config::SealSettings;
use serde_json::json;
use std::ffi::OsString;

const SECRET: &str = "8Q~aSecretOfTheApplication";

/// The settings without which there is no seal, on lines 3 to 7 of the file.
const NEEDED: &str = "tenant_id = \"46646709-b63e-4747-be42-516edeaf1e14\"\n\
    client_id = \"03dc33fc-16d9-4b77-8152-3ec568f8af6e\"\nvault_name = \"My-Vault\"\n\
    key_name = \"unseal\"\nclient_secret = \"file:///run/secret\"";

fn block(settings: &str) -> String {
    format!("seal \"azurekeyvault\" {{\n{settings}\n}}")
}

fn sealed(settings: &str) -> SealSettings {
    read(&format!("{STORAGE}{}", block(settings))).seal
}

#[test]
fn azurekeyvault_seal_reads_every_setting() {
    let folder = SealFolder::new("azurekeyvault-settings");
    let path = folder.write(&format!("{SECRET}\n"), 0o600).display().to_string();
    let needed = NEEDED.replace("/run/secret", &path);
    let seal = sealed(&needed);
    assert_eq!(seal.kind(), "azurekeyvault");
    let shown = seal.to_string();
    let vault = "the key \"unseal\" of Azure Key Vault at https://my-vault.vault.azure.net";
    assert!(shown.contains(vault) && shown.contains("with client_secret /"), "{shown}");
    let access = load(&seal, &|_| None).unwrap();
    let expected = json!({
        "vault_url": "https://my-vault.vault.azure.net", "resource": "vault.azure.net",
        "authority_host": "https://login.microsoftonline.com", "client_secret": SECRET,
        "tenant_id": "46646709-b63e-4747-be42-516edeaf1e14", "key_name": "unseal",
        "client_id": "03dc33fc-16d9-4b77-8152-3ec568f8af6e",
    });
    assert_eq!(json!(*access.read().unwrap()), expected);
    assert!(!format!("{access:?}").contains(SECRET) && !access.renews_credentials());
    for (more, vault_url, authority_host) in [
        (
            "environment = \"AZUREUSGOVERNMENTCLOUD\"",
            "https://my-vault.vault.usgovcloudapi.net",
            "https://login.microsoftonline.us",
        ),
        (
            "resource = \"managedhsm.azure.net\"",
            "https://my-vault.managedhsm.azure.net",
            "https://login.microsoftonline.com",
        ),
        (
            "vault_url = \"http://127.0.0.1:1\"\nauthority_host = \"http://127.0.0.1:2/\"",
            "http://127.0.0.1:1",
            "http://127.0.0.1:2",
        ),
    ] {
        let access = load(&sealed(&format!("{needed}\n{more}")), &|_| None).unwrap();
        let settings = json!(*access.read().unwrap());
        assert_eq!(settings["vault_url"], vault_url);
        assert_eq!(settings["authority_host"], authority_host);
    }
    for setting in ["vault_name", "key_name"] {
        let variable = format!("VAULT_AZUREKEYVAULT_{}", setting.to_uppercase());
        let other = |name: &str| (name == variable).then(|| OsString::from("another"));
        let differs = format!("differs from {setting}");
        assert!(load(&seal, &other).is_err_and(|why| why.contains(&differs)), "{setting}");
    }
}

#[test]
fn unusable_secret_of_azurekeyvault_seal_is_hidden() {
    let folder = SealFolder::new("azurekeyvault-secrets");
    let path = folder.write("two words of a secret", 0o600).display().to_string();
    let failure = load(&sealed(&NEEDED.replace("/run/secret", &path)), &|_| None).unwrap_err();
    assert!(failure.contains("are not a client secret") && !failure.contains("words"), "{failure}");
    let variable = NEEDED.replace("file:///run/secret", "env://AZURE_CLIENT_SECRET");
    let failure = load(&sealed(&variable), &|_| None).unwrap_err();
    assert!(failure.contains("client_secret env://AZURE_CLIENT_SECRET is not set"), "{failure}");
    let plain = NEEDED.replace("file:///run/secret", SECRET);
    let failure = refused(&block(&plain));
    assert!(failure.line == 7 && failure.message.contains("env://AZURE_CLIENT"), "{failure}");
    assert!(!failure.message.contains("8Q~"), "{failure}");
}

#[test]
fn wrong_azurekeyvault_seal_settings_are_refused() {
    let with = |settings: &str| block(&format!("{NEEDED}\n{settings}"));
    let without = |setting: &str| {
        let lines = NEEDED.lines().filter(|line| !line.starts_with(setting));
        block(&lines.collect::<Vec<_>>().join("\n"))
    };
    let refusals: Vec<(String, usize, &[&str])> = vec![
        (without("tenant_id"), 2, &["needs tenant_id"]),
        (without("client_id"), 2, &["needs client_id", "of the machine"]),
        (without("client_secret"), 2, &["needs client_secret", "env://AZURE_CLIENT_SECRET"]),
        (without("vault_name"), 2, &["needs vault_name"]),
        (without("key_name"), 2, &["needs key_name"]),
        (block(&NEEDED.replace("\"unseal\"", "\"a/b\"")), 6, &["not a name"]),
        (block(&NEEDED.replace("My-Vault", "evil.example/")), 5, &["not a name"]),
        (with("environment = \"AzureGermanCloud\""), 8, &["not a cloud", "AzureChinaCloud"]),
        (with("vault_url = \"http://kv.example\""), 8, &["plain HTTP", "in the clear"]),
        (with("authority_host = \"http://login.example\""), 8, &["plain HTTP"]),
        (with("vault_nam = \"a\""), 8, &["did you mean \"vault_name\""]),
        (format!("seal \"shamir\" {{}}\n{}", block(NEEDED)), 3, &["seal \"shamir\", too"]),
    ];
    for (text, line, words) in &refusals {
        refuse_all(&[(text, *line, words)]);
    }
}
