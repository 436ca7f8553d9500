//! `seal "transit"`: its settings, the places of its token, and the refusals.

use super::{STORAGE, read, refuse_all, refused};
use crate::config::{KeeperAccess, SealSettings};
use serde_json::json;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const TOKEN: &str = "hvs.CAESIJ-token-of-the-seal";

/// The settings without which there is no seal, on lines 3 to 5 of the file.
const NEEDED: &str = "address = \"https://vault.example.com:8200\"\nkey_name = \"unseal\"\n\
    token_file = \"/run/token\"";

fn block(settings: &str) -> String {
    format!("seal \"transit\" {{\n{settings}\n}}")
}

fn sealed(settings: &str) -> SealSettings {
    read(&format!("{STORAGE}{}", block(settings))).seal
}

/// Loads the seal. Returns the access that the keeper would get.
pub(super) fn load(
    seal: &SealSettings,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<KeeperAccess, String> {
    let access = RefCell::new(None);
    let stop = "the keeper is not made".to_owned();
    let loaded = seal.load(environment, &|given| {
        access.replace(Some(given));
        Err(stop.clone())
    });
    let failure = loaded.unwrap_err();
    access.into_inner().ok_or(failure)
}

/// A folder of the test, removed at its end.
pub(super) struct SealFolder(PathBuf);

impl SealFolder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn write(&self, content: &str, mode: u32) -> PathBuf {
        let path = self.0.join("token");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for SealFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn by_file(path: &Path) -> SealSettings {
    sealed(&NEEDED.replace("/run/token", &path.display().to_string()))
}

#[test]
fn transit_seal_reads_every_setting() {
    let folder = SealFolder::new("transit-settings");
    let seal = by_file(&folder.write(&format!("{TOKEN}\n"), 0o600));
    assert_eq!(seal.kind(), "transit");
    let shown = seal.to_string();
    assert!(shown.contains("the key \"unseal\" of transit/ at https://vault.exa"), "{shown}");
    assert!(shown.contains("token of token_file /"), "{shown}");
    let access = load(&seal, &|_| None).unwrap();
    let expected = json!({
        "address": "https://vault.example.com:8200", "token": TOKEN, "key_name": "unseal",
        "mount_path": "transit", "namespace": "", "disable_renewal": false,
    });
    assert_eq!(json!(*access.read().unwrap()), expected);
    assert!(!format!("{access:?}").contains(TOKEN));
    folder.write("another-token", 0o600);
    assert_eq!(access.read().unwrap()["token"], "another-token");
    fs::remove_file(folder.0.join("token")).unwrap();
    let Err(missing) = access.read() else { panic!("the file is gone") };
    assert!(missing.contains("token_file") && missing.contains("cannot be read"), "{missing}");

    let rest = "address = \"http://127.0.0.1:8200/\"\nkey_name = \"a.b\"\n\
        token = \"env://VAULT_TOKEN\"\nmount_path = \"/kms/transit/\"\nnamespace = \"team/a/\"\n\
        disable_renewal = \"true\"\ntls_skip_verify = false\ndisabled = \"false\"";
    let token = |name: &str| (name == "VAULT_TOKEN").then(|| OsString::from(TOKEN));
    let access = load(&sealed(rest), &token).unwrap();
    let settings = json!(*access.read().unwrap());
    assert_eq!(settings["address"], "http://127.0.0.1:8200");
    assert_eq!(settings["mount_path"], "kms/transit");
    assert_eq!(settings["namespace"], "team/a");
    assert_eq!(settings["disable_renewal"], true);
    assert!(!format!("{access:?}").contains(TOKEN));
}

#[test]
fn unusable_token_of_transit_seal_is_hidden() {
    let folder = SealFolder::new("transit-tokens");
    for content in ["", "\n", "two words of a secret", "a-secret-\u{e9}"] {
        let failure = load(&by_file(&folder.write(content, 0o600)), &|_| None).unwrap_err();
        assert!(failure.contains("are not a token"), "{failure}");
        assert!(!failure.contains("secret"), "{failure}");
    }
    let failure = load(&by_file(&folder.write(TOKEN, 0o644)), &|_| None).unwrap_err();
    assert!(failure.contains("open to others") && !failure.contains(TOKEN), "{failure}");
    let variable = NEEDED.replace("token_file = \"/run/token\"", "token = \"env://SEAL_TOKEN\"");
    let failure = load(&sealed(&variable), &|_| None).unwrap_err();
    assert!(failure.contains("token env://SEAL_TOKEN is not set"), "{failure}");
    let plain = NEEDED.replace("token_file = \"/run/token\"", &format!("token = {TOKEN:?}"));
    let failure = refused(&block(&plain));
    assert!(failure.line == 5 && failure.message.contains("may not hold the token"), "{failure}");
    assert!(failure.message.contains("env://VAULT_TOKEN"), "{failure}");
    assert!(!failure.message.contains("CAESIJ"), "{failure}");
}

#[test]
fn variables_of_vault_that_differ_are_refused() {
    let folder = SealFolder::new("transit-variables");
    let seal = by_file(&folder.write(TOKEN, 0o600));
    for (name, value, is_refused) in [
        ("VAULT_TRANSIT_SEAL_KEY_NAME", "other", true),
        ("VAULT_TRANSIT_SEAL_KEY_NAME", "unseal", false),
        ("VAULT_TRANSIT_SEAL_MOUNT_PATH", "kms/", true),
        ("VAULT_TRANSIT_SEAL_MOUNT_PATH", "transit/", false),
        ("VAULT_ADDR", "https://elsewhere:8200", false),
    ] {
        let loaded = load(&seal, &|asked| (asked == name).then(|| value.into()));
        match loaded {
            Ok(_) => assert!(!is_refused, "{name}={value}"),
            Err(why) => assert!(is_refused && why.contains(name), "{name}={value}: {why}"),
        }
    }
}

#[test]
fn wrong_transit_seal_settings_are_refused_by_line() {
    let with = |settings: &str| block(&format!("{NEEDED}\n{settings}"));
    let without = |setting: &str| {
        let lines = NEEDED.lines().filter(|line| !line.starts_with(setting));
        block(&lines.collect::<Vec<_>>().join("\n"))
    };
    let refusals: Vec<(String, usize, &[&str])> = vec![
        (without("address"), 2, &["needs address", "https://"]),
        (without("key_name"), 2, &["needs key_name"]),
        (without("token_file"), 2, &["needs a token", "token_file", "env://VAULT_TOKEN"]),
        (with("token = \"env://A\""), 6, &["token_file is given, too"]),
        (block(&NEEDED.replace("https:", "http:")), 3, &["plain HTTP", "in the clear"]),
        (block(&NEEDED.replace(":8200", "/v1")), 3, &["not an address of a server"]),
        (block(&NEEDED.replace("\"unseal\"", "\"a/b\"")), 4, &["not a name of a key"]),
        (block(&NEEDED.replace("\"unseal\"", "\"../a\"")), 4, &["not a name"]),
        (with("mount_path = \"a b\""), 6, &["not a name"]),
        (with("namespace = \"a//b\""), 6, &["not a name"]),
        (with("tls_skip_verify = true"), 6, &["without a verified certificate", "tls_ca_cert"]),
        (with("tls_client_cert = \"/c\""), 6, &["give tls_client_key"]),
        (with("tls_client_key = \"/k\""), 6, &["give tls_client_cert"]),
        (with("disabled = \"maybe\""), 6, &["neither"]),
        (with("kye_name = \"a\""), 6, &["did you mean \"key_name\""]),
        (
            block(&format!(
                "{}\ntls_ca_cert = \"/c\"",
                NEEDED.replace("https://vault.example.com", "http://localhost")
            )),
            6,
            &["no effect without TLS"],
        ),
        (format!("seal \"shamir\" {{}}\n{}", block(NEEDED)), 3, &["seal \"shamir\", too"]),
    ];
    for (text, line, words) in &refusals {
        refuse_all(&[(text, *line, words)]);
    }
}

#[test]
fn disabled_transit_seal_leaves_seal_to_other_block() {
    let disabled = block("disabled = \"true\"\naddress = \"https://gone:8200\"");
    let config = read(&format!("{STORAGE}{disabled}"));
    assert_eq!(config.seal, SealSettings::Shamir);
    assert!(config.notices[0].to_string().contains("recovery keys open"), "{:?}", config.notices);
    let fixed = "seal \"static\" {\ncurrent_key_id = \"1\"\ncurrent_key = \"file:///k\"\n}";
    assert_eq!(read(&format!("{STORAGE}{disabled}\n{fixed}")).seal.kind(), "static");
}

#[test]
fn settings_of_transit_seal_are_not_shown() {
    let shown = json!(read(&format!("{STORAGE}{}", block(NEEDED))).shown());
    assert_eq!(shown["seals"], json!([{ "type": "transit", "disabled": false }]));
    assert!(!shown.to_string().contains("/run/token"), "{shown}");
}

#[test]
fn scheme_and_host_are_read_in_lower_case() {
    let folder = SealFolder::new("transit-address");
    let token = folder.write(TOKEN, 0o600).display().to_string();
    let upper = NEEDED.replace("https://vault.example.com", "HTTPS://Vault.Example.COM");
    let upper = format!("{upper}\ntls_server_name = \"vault\"").replace("/run/token", &token);
    let settings = load(&sealed(&upper), &|_| None).unwrap().read().unwrap();
    assert_eq!(settings["address"], "https://vault.example.com:8200");
    let plain = NEEDED.replace("https://vault.example.com", "HTTP://Vault.Example.COM");
    let failure = refused(&block(&plain));
    assert!(failure.message.contains("plain HTTP"), "{failure}");
}
