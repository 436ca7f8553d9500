//! Credential types and their options on the test bed.

use crate::Database;
use crate::fixture::{account, app, reader, ready, with, with_account};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::database_plugin::Credential;
use bulkhead_sdk::host::{Clock, Host};
use bulkhead_sdk::testbed::TestBed;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};

/// Returns a test bed whose plugin knows every credential type.
fn bed() -> TestBed<Database> {
    let bed = ready();
    know_all(&bed);
    bed
}

fn know_all(bed: &TestBed<Database>) {
    bed.host.describe_plugin(|plugin| {
        let types = ["password", "rsa_private_key", "client_certificate"];
        plugin.credential_types = types.map(str::to_owned).to_vec();
    });
}

/// Returns a certificate that is valid from 2029 to 2035, and the certificate's key.
fn authority(is_authority: bool) -> (String, String) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "authority");
    parameters.not_before = rcgen::date_time_ymd(2029, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2035, 1, 1);
    if is_authority {
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn certificates(change: Value) -> Value {
    let (ca_cert, ca_private_key) = authority(true);
    let config = json!({
        "common_name_template": "{{.RoleName}}/{{.Username}}", "ca_cert": ca_cert,
        "ca_private_key": ca_private_key, "key_type": "ec",
    });
    let role = json!({
        "credential_type": "client_certificate", "credential_config": with(config, change),
    });
    with(reader(), role)
}

#[test]
fn bad_option_refusal_names_option_and_stores_nothing() {
    let other = authority(true).1;
    let leaf = authority(false);
    let rsa = |config: Value| {
        with(reader(), json!({"credential_type": "rsa_private_key", "credential_config": config}))
    };
    let bad = [
        (rsa(json!({"format": "pkcs1"})), "invalid format \"pkcs1\""),
        (rsa(json!({"key_bits": 1024})), "invalid key_bits \"1024\""),
        (rsa(json!({"password_policy": "long"})), "\"password_policy\" is not an option of rsa"),
        (certificates(json!({"key_type": ""})), "invalid key_type"),
        (certificates(json!({"key_type": "dsa"})), "invalid key_type \"dsa\""),
        (certificates(json!({"key_bits": "224"})), "invalid key_bits \"224\""),
        (certificates(json!({"key_type": "rsa", "key_bits": 256})), "invalid key_bits \"256\""),
        (certificates(json!({"signature_bits": 1})), "invalid signature_bits \"1\""),
        (
            certificates(json!({"common_name_template": ""})),
            "missing required common_name_template",
        ),
        (certificates(json!({"common_name_template": "{{"})), "invalid common_name_template"),
        (certificates(json!({"ca_cert": ""})), "missing required ca_cert"),
        (certificates(json!({"ca_cert": "PEM"})), "ca_cert: "),
        (certificates(json!({"ca_private_key": ""})), "missing required ca_private_key"),
        (certificates(json!({"ca_private_key": "PEM"})), "ca_private_key: "),
        (certificates(json!({"ca_private_key": other})), "is not the key of ca_cert"),
        (
            certificates(json!({"ca_cert": leaf.0, "ca_private_key": leaf.1})),
            "not marked for CA use",
        ),
    ];
    for (role, expected) in bad {
        let bed = bed();
        let refused = bed.write("roles/keys", &role).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.contains("credential_config validation failed"), "{refused}");
        assert!(refused.message.contains(expected), "{expected}: {}", refused.message);
        assert_eq!(bed.host.stored("role/keys"), None);
    }
}

#[test]
fn options_show_defaults_and_survive_update() {
    let bed = bed();
    let keys =
        json!({"credential_type": "rsa_private_key", "credential_config": {"key_bits": "3072"}});
    bed.write("roles/keys", &with(reader(), keys)).unwrap();
    bed.write("roles/keys", &json!({"max_ttl": "2h"})).unwrap();
    let expected = json!({"format": "pkcs8", "key_bits": 3_072});
    assert_eq!(bed.read("roles/keys").unwrap().data["credential_config"], expected);
    bed.write("roles/keys", &json!({"credential_config": {}})).unwrap();
    assert_eq!(bed.read("roles/keys").unwrap().data["credential_config"]["key_bits"], 2_048);
    bed.write("roles/keys", &json!({"credential_type": "password"})).unwrap();
    assert!(!bed.read("roles/keys").unwrap().data.contains_key("credential_config"));
}

#[test]
fn the_authoritys_key_is_in_no_read() {
    let bed = bed();
    bed.write("roles/keys", &certificates(json!({}))).unwrap();
    let shown = bed.read("roles/keys").unwrap().data["credential_config"].clone();
    let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
    let expected = ["ca_cert", "common_name_template", "key_bits", "key_type", "signature_bits"];
    assert_eq!(names, expected);
    assert_eq!((&shown["key_bits"], &shown["signature_bits"]), (&json!(256), &json!(256)));
    bed.write("roles/keys", &json!({"max_ttl": "2h"})).unwrap();
    assert!(bed.read("creds/keys").is_err(), "the connection does not admit it");
    bed.write("config/orders", &json!({"allowed_roles": "*"})).unwrap();
    bed.read("creds/keys").unwrap();
}

#[test]
fn caller_gets_private_key_and_database_public_key() {
    let bed = bed();
    bed.write("roles/writer-k", &with(reader(), json!({"credential_type": "rsa_private_key"})))
        .unwrap();
    let data = bed.read("creds/writer-k").unwrap().data;
    assert_eq!(data.keys().collect::<Vec<_>>(), ["rsa_private_key", "username"]);
    let private = data["rsa_private_key"].as_str().unwrap();
    assert!(private.starts_with("-----BEGIN PRIVATE KEY-----"));
    let host: &dyn Host = &bed.host;
    let public = host.crypto().read_key(private).unwrap().pem;
    let user = bed.host.user("orders", data["username"].as_str().unwrap()).unwrap();
    assert!(user.credential == Credential::PublicKeyPem(public));
}

#[test]
fn role_certificate_with_own_key_ends_with_user() {
    for (key_type, label) in [("ec", "EC PRIVATE KEY"), ("ed25519", "PRIVATE KEY")] {
        let bed = bed();
        bed.write("roles/writer-c", &certificates(json!({"key_type": key_type}))).unwrap();
        let data = bed.read("creds/writer-c").unwrap().data;
        let names = ["client_certificate", "private_key", "private_key_type", "username"];
        assert_eq!(data.keys().collect::<Vec<_>>(), names);
        assert_eq!(data["private_key_type"], key_type);
        let text = |name: &str| data[name].as_str().unwrap();
        assert!(text("private_key").starts_with(&format!("-----BEGIN {label}-----")));
        let host: &dyn Host = &bed.host;
        let certificate = host.crypto().read_certificate(text("client_certificate")).unwrap();
        let username = text("username");
        let common_name = format!("writer-c-{username}");
        assert_eq!(certificate.common_name.as_deref(), Some(common_name.as_str()));
        assert_eq!(certificate.usages, ["client-auth"]);
        let own = host.crypto().read_key(text("private_key")).unwrap();
        assert_eq!(certificate.public_key.unwrap().pem, own.pem);
        let user = bed.host.user("orders", username).unwrap();
        assert!(user.credential == Credential::SubjectDn(format!("CN={common_name}")));
        assert_eq!(certificate.not_after, bed.host.now() + 605_000);
    }
}

#[test]
fn certificate_outliving_its_authority_is_refused_before_creation() {
    let bed = bed();
    bed.write("roles/writer-c", &certificates(json!({}))).unwrap();
    bed.host.advance(6 * 366 * 86_400);
    bed.host.steps();
    assert_eq!(bed.read("creds/writer-c").err().unwrap().kind, FailureKind::InvalidRequest);
    assert_eq!(bed.host.user_count(), 0);
    assert!(bed.host.lease_tags().is_empty());
}

#[test]
fn static_role_rotates_keys_and_takes_no_certificates() {
    let bed = with_account();
    know_all(&bed);
    let keys = json!({"credential_type": "rsa_private_key"});
    bed.write("static-roles/app", &with(app(), keys)).unwrap();
    let host: &dyn Host = &bed.host;
    let fits = || {
        let data = bed.read("static-creds/app").unwrap().data;
        assert!(!data.contains_key("password"));
        let private = data["rsa_private_key"].as_str().unwrap();
        let public = host.crypto().read_key(private).unwrap().pem;
        let user = bed.host.user("orders", "app").unwrap();
        assert!(user.credential == Credential::PublicKeyPem(public));
        private.to_owned()
    };
    let first = fits();
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert_ne!(fits(), first);
    bed.write("static-roles/app", &json!({"credential_type": "password"})).unwrap();
    fits();
    bed.write("rotate-role/app", &json!({})).unwrap();
    assert!(bed.read("static-creds/app").unwrap().data.contains_key("password"));
    account(&bed, "orders", "c");
    let role = with(certificates(json!({})), json!({"username": "c", "rotation_period": 60}));
    let refused = bed.write("static-roles/c", &role).err().unwrap();
    assert!(refused.message.contains("client_certificate"), "{}", refused.message);
    let skipped = json!({
        "credential_type": "rsa_private_key", "skip_import_rotation": true, "password": "first",
        "username": "c",
    });
    let refused = bed.write("static-roles/c", &with(app(), skipped)).err().unwrap();
    assert!(refused.message.contains("cannot import a password"), "{}", refused.message);
}
