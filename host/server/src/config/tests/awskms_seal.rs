//! `seal "awskms"`: its settings, the places of its credentials, and the refusals.

use super::transit_seal::{SealFolder, load};
use super::{STORAGE, read, refuse_all, refused};
use crate::config::SealSettings;
use serde_json::json;
use std::ffi::OsString;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The settings without which there is no seal, on lines 3 to 6 of the file.
const NEEDED: &str = "region = \"eu-central-1\"\nkms_key_id = \"alias/bulkhead\"\n\
    access_key = \"AKIAIOSFODNN7EXAMPLE\"\nsecret_key = \"file:///run/secret\"";

fn block(settings: &str) -> String {
    format!("seal \"awskms\" {{\n{settings}\n}}")
}

fn sealed(settings: &str) -> SealSettings {
    read(&format!("{STORAGE}{}", block(settings))).seal
}

#[test]
fn awskms_seal_reads_every_setting() {
    let folder = SealFolder::new("awskms-settings");
    let path = folder.write(&format!("{SECRET}\n"), 0o600).display().to_string();
    let seal = sealed(&NEEDED.replace("/run/secret", &path));
    assert_eq!(seal.kind(), "awskms");
    let shown = seal.to_string();
    assert!(shown.contains("the key \"alias/bulkhead\" of AWS KMS in eu-central-1"), "{shown}");
    assert!(shown.contains("credentials of secret_key /"), "{shown}");
    let access = load(&seal, &|_| None).unwrap();
    assert_eq!(access.kind(), "awskms");
    assert!(!access.renews_credentials());
    let expected = json!({
        "endpoint": "https://kms.eu-central-1.amazonaws.com", "region": "eu-central-1",
        "access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": SECRET,
        "kms_key_id": "alias/bulkhead",
    });
    assert_eq!(json!(*access.read().unwrap()), expected);
    assert!(!format!("{access:?}").contains(SECRET));
    folder.write("another-key", 0o600);
    assert_eq!(access.read().unwrap()["secret_key"], "another-key");

    let rest = "region = \"cn-north-1\"\nkms_key_id = \"1234abcd-12ab\"\n\
        access_key = \"env://AWS_ACCESS_KEY_ID\"\nsecret_key = \"env://AWS_SECRET_ACCESS_KEY\"\n\
        session_token = \"env://AWS_SESSION_TOKEN\"\nendpoint = \"http://127.0.0.1:4599/\"\n\
        disabled = \"false\"\npriority = \"1\"\nmax_retries = 3";
    let access = load(&sealed(rest), &|name| Some(OsString::from(format!("of-{name}")))).err();
    let failure = access.expect("VAULT_AWSKMS_SEAL_KEY_ID differs");
    assert!(failure.contains("VAULT_AWSKMS_SEAL_KEY_ID"), "{failure}");
    let variables =
        |name: &str| name.starts_with("AWS_").then(|| OsString::from(format!("of-{name}")));
    let access = load(&sealed(rest), &variables).unwrap();
    let settings = json!(*access.read().unwrap());
    assert_eq!(settings["endpoint"], "http://127.0.0.1:4599");
    assert_eq!(settings["access_key"], "of-AWS_ACCESS_KEY_ID");
    assert_eq!(settings["secret_key"], "of-AWS_SECRET_ACCESS_KEY");
    assert_eq!(settings["session_token"], "of-AWS_SESSION_TOKEN");
    assert!(!format!("{access:?}").contains("of-AWS"), "{access:?}");
}

#[test]
fn region_names_endpoint_of_its_partition() {
    let folder = SealFolder::new("awskms-regions");
    let path = folder.write(SECRET, 0o600).display().to_string();
    for (region, endpoint) in [
        ("us-gov-west-1", "https://kms.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "https://kms.cn-north-1.amazonaws.com.cn"),
    ] {
        let settings = NEEDED.replace("/run/secret", &path).replace("eu-central-1", region);
        let access = load(&sealed(&settings), &|_| None).unwrap();
        assert_eq!(access.read().unwrap()["endpoint"], endpoint);
    }
    let isolated = NEEDED.replace("eu-central-1", "us-iso-east-1");
    let failure = refused(&block(&isolated));
    assert!(failure.message.contains("needs endpoint"), "{failure}");
}

#[test]
fn unusable_credentials_of_awskms_seal_are_hidden() {
    let folder = SealFolder::new("awskms-secrets");
    let path = folder.write("two words of a secret", 0o600).display().to_string();
    let by_file = NEEDED.replace("/run/secret", &path);
    let failure = load(&sealed(&by_file), &|_| None).unwrap_err();
    assert!(failure.contains("are not a secret key") && !failure.contains("words"), "{failure}");
    folder.write(SECRET, 0o644);
    let failure = load(&sealed(&by_file), &|_| None).unwrap_err();
    assert!(failure.contains("open to others") && !failure.contains(SECRET), "{failure}");
    let variable = NEEDED.replace("file:///run/secret", "env://AWS_SECRET_ACCESS_KEY");
    let failure = load(&sealed(&variable), &|_| None).unwrap_err();
    assert!(failure.contains("secret_key env://AWS_SECRET_ACCESS_KEY is not set"), "{failure}");
    for (setting, line) in [("secret_key", 6), ("session_token", 7), ("access_key", 6)] {
        let lines = NEEDED.lines().filter(|line| !line.starts_with(setting));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.push(format!("{setting} = {SECRET:?}"));
        let failure = refused(&block(&lines.join("\n")));
        assert_eq!(failure.line, line, "{failure}");
        assert!(failure.message.contains("env://AWS_"), "{failure}");
        assert!(!failure.message.contains("wJalr"), "{failure}");
    }
}

#[test]
fn wrong_awskms_seal_settings_are_refused_by_line() {
    let with = |settings: &str| block(&format!("{NEEDED}\n{settings}"));
    let without = |setting: &str| {
        let lines = NEEDED.lines().filter(|line| !line.starts_with(setting));
        block(&lines.collect::<Vec<_>>().join("\n"))
    };
    let refusals: Vec<(String, usize, &[&str])> = vec![
        (without("region"), 2, &["needs region", "eu-central-1"]),
        (without("kms_key_id"), 2, &["needs kms_key_id", "alias/"]),
        (without("access_key"), 2, &["needs access_key", "of the machine", "are not read"]),
        (without("secret_key"), 2, &["needs secret_key", "env://AWS_SECRET_ACCESS_KEY"]),
        (block(&NEEDED.replace("eu-central-1", "eu/../x")), 3, &["not a region"]),
        (block(&NEEDED.replace("alias/bulkhead", "a b")), 4, &["not a key"]),
        (with("endpoint = \"http://kms.example\""), 7, &["plain HTTP", "in the clear"]),
        (with("endpoint = \"https://kms.example/v1\""), 7, &["not an address of a server"]),
        (with("shared_creds_profile = \"a\""), 7, &["profiles are not read"]),
        (with("role_arn = \"arn:aws:iam::1:role/a\""), 7, &["assumes no role"]),
        (with("web_identity_token_file = \"/t\""), 7, &["assumes no role"]),
        (with("kms_key = \"a\""), 7, &["did you mean \"kms_key_id\""]),
        (
            with("endpoint = \"http://localhost:4599\"\ntls_ca_cert = \"/c\""),
            8,
            &["no effect without TLS"],
        ),
        (format!("seal \"shamir\" {{}}\n{}", block(NEEDED)), 3, &["seal \"shamir\", too"]),
    ];
    for (text, line, words) in &refusals {
        refuse_all(&[(text, *line, words)]);
    }
}

#[test]
fn file_has_one_seal_of_a_service() {
    let transit = "seal \"transit\" {\naddress = \"https://vault.example.com:8200\"\n\
        key_name = \"unseal\"\ntoken_file = \"/run/token\"\n}\n";
    let failure = refused(&format!("{transit}{}", block(NEEDED)));
    assert!(failure.line == 7 && failure.message.contains("seal \"transit\", too"), "{failure}");
    let disabled = block(&format!("{NEEDED}\ndisabled = true"));
    assert_eq!(read(&format!("{STORAGE}{transit}{disabled}")).seal.kind(), "transit");
    let shown = json!(read(&format!("{STORAGE}{}", block(NEEDED))).shown());
    assert_eq!(shown["seals"], json!([{ "type": "awskms", "disabled": false }]));
}
