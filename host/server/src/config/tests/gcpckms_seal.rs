//! `seal "gcpckms"`: its settings, the key file of its service account, and the refusals.

use super::transit_seal::{SealFolder, load};
use super::{STORAGE, read, refuse_all, refused};
use crate::config::SealSettings;
use serde_json::{Value, json};
use std::ffi::OsString;

/// The settings without which there is no seal, on lines 3 to 7 of the file.
const NEEDED: &str = "project = \"orders\"\nregion = \"global\"\nkey_ring = \"bulkhead\"\n\
    crypto_key = \"unseal\"\ncredentials = \"/run/account.json\"";

fn block(settings: &str) -> String {
    format!("seal \"gcpckms\" {{\n{settings}\n}}")
}

fn sealed(settings: &str) -> SealSettings {
    read(&format!("{STORAGE}{}", block(settings))).seal
}

/// Returns a key file, with this change.
fn key_file(change: (&str, Value)) -> String {
    let mut file = json!({
        "type": "service_account", "project_id": "orders", "private_key_id": "5ea1",
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEsecret\n-----END PRIVATE KEY-----\n",
        "client_email": "seal@orders.iam.gserviceaccount.com", "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    });
    file[change.0] = change.1;
    serde_json::to_string_pretty(&file).unwrap()
}

#[test]
fn gcpckms_seal_reads_every_setting() {
    let folder = SealFolder::new("gcpckms-settings");
    let path = folder.write(&key_file(("type", json!("service_account"))), 0o600);
    let seal = sealed(&NEEDED.replace("/run/account.json", &path.display().to_string()));
    assert_eq!(seal.kind(), "gcpckms");
    let shown = seal.to_string();
    assert!(shown.contains("the key \"orders/global/bulkhead/unseal\" of Google"), "{shown}");
    assert!(shown.contains("with credentials /"), "{shown}");
    let access = load(&seal, &|_| None).unwrap();
    let expected = json!({
        "endpoint": "https://cloudkms.googleapis.com", "project": "orders", "region": "global",
        "key_ring": "bulkhead", "crypto_key": "unseal", "private_key_id": "5ea1",
        "client_email": "seal@orders.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEsecret\n-----END PRIVATE KEY-----\n",
    });
    assert_eq!(json!(*access.read().unwrap()), expected);
    assert!(!format!("{access:?}").contains("MIIE") && !access.renews_credentials());
    folder.write(&key_file(("token_uri", json!(""))), 0o600);
    assert_eq!(access.read().unwrap()["token_uri"], "https://oauth2.googleapis.com/token");

    let rest = NEEDED.replace("/run/account.json", "env://GOOGLE_CREDENTIALS");
    let rest = format!("{rest}\nendpoint = \"http://127.0.0.1:4600\"");
    let file = key_file(("token_uri", json!("http://127.0.0.1:4600/token")));
    let variable = |name: &str| (name == "GOOGLE_CREDENTIALS").then(|| OsString::from(&file));
    let access = load(&sealed(&rest), &variable).unwrap();
    let settings = json!(*access.read().unwrap());
    assert_eq!(settings["endpoint"], "http://127.0.0.1:4600");
    assert_eq!(settings["token_uri"], "http://127.0.0.1:4600/token");
    assert!(!format!("{access:?}").contains("MIIE"));
    for (changed, setting) in [
        ("GOOGLE_PROJECT", "project"),
        ("GOOGLE_REGION", "region"),
        ("VAULT_GCPCKMS_SEAL_KEY_RING", "key_ring"),
        ("VAULT_GCPCKMS_SEAL_CRYPTO_KEY", "crypto_key"),
    ] {
        let other = |name: &str| match name == changed {
            true => Some(OsString::from("other")),
            false => variable(name),
        };
        let differs = format!("differs from {setting}");
        assert!(load(&sealed(&rest), &other).is_err_and(|why| why.contains(&differs)), "{changed}");
    }
}

#[test]
fn unusable_key_file_of_gcpckms_seal_is_hidden() {
    let folder = SealFolder::new("gcpckms-files");
    for (content, part) in [
        ("MIIEsecret".to_owned(), "is not JSON of a key file"),
        ("[\"MIIEsecret\"]".to_owned(), "is not JSON of a key file"),
        (key_file(("type", json!("external_account"))), "another type than service_account"),
        (key_file(("type", json!(7))), "another type than service_account"),
        (key_file(("client_email", json!(""))), "lacks client_email"),
        (key_file(("private_key", json!("MIIEsecret"))), "lacks client_email or private_key"),
        (key_file(("token_uri", json!("http://evil.example/"))), "token_uri that is not https"),
        (key_file(("client_id", json!("x".repeat(9 << 10)))), "are not a key file"),
    ] {
        let path = folder.write(&content, 0o600).display().to_string();
        let settings = NEEDED.replace("/run/account.json", &path);
        let failure = load(&sealed(&settings), &|_| None).unwrap_err();
        assert!(failure.contains(part), "{part}: {failure}");
        assert!(failure.starts_with("credentials /"), "{failure}");
        assert!(!failure.contains("MIIE"), "{failure}");
    }
    let path = folder.write(&key_file(("client_id", json!("1"))), 0o644).display().to_string();
    let settings = NEEDED.replace("/run/account.json", &path);
    let failure = load(&sealed(&settings), &|_| None).unwrap_err();
    assert!(failure.contains("open to others"), "{failure}");
    let inline = NEEDED.replace("/run/account.json", "{ 'private_key': 'MIIEsecret' }");
    let failure = refused(&block(&inline));
    assert!(failure.line == 7 && failure.message.contains("may not hold the key"), "{failure}");
    assert!(!failure.message.contains("MIIE"), "{failure}");
}

#[test]
fn wrong_gcpckms_seal_settings_are_refused_by_line() {
    let with = |settings: &str| block(&format!("{NEEDED}\n{settings}"));
    let without = |setting: &str| {
        let lines = NEEDED.lines().filter(|line| !line.starts_with(setting));
        block(&lines.collect::<Vec<_>>().join("\n"))
    };
    let refusals: Vec<(String, usize, &[&str])> = vec![
        (without("project"), 2, &["needs project"]),
        (without("region"), 2, &["needs region", "global"]),
        (without("key_ring"), 2, &["needs key_ring"]),
        (without("crypto_key"), 2, &["needs crypto_key"]),
        (without("credentials"), 2, &["needs credentials", "of the machine are not read"]),
        (block(&NEEDED.replace("\"orders\"", "\"a/b\"")), 3, &["not a name"]),
        (block(&NEEDED.replace("\"unseal\"", "\"..\"")), 6, &["not a name"]),
        (block(&NEEDED.replace("/run/", "run/")), 7, &["not the place of a key file"]),
        (with("endpoint = \"http://kms.example\""), 8, &["plain HTTP", "in the clear"]),
        (with("crypto_keys = \"a\""), 8, &["did you mean \"crypto_key\""]),
        (format!("seal \"shamir\" {{}}\n{}", block(NEEDED)), 3, &["seal \"shamir\", too"]),
    ];
    for (text, line, words) in &refusals {
        refuse_all(&[(text, *line, words)]);
    }
}
