//! Tests of `config.rs` on the test bed.

use crate::fixture::{REVIEWER, SERVER, TestMount, changed, claims, confirmed, jwt, reviewed};
use bulkhead_sdk::jwt::sign;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::{Value, json};

fn refused(stage: &TestMount, body: &Value) -> String {
    let why = stage.bed.write("config", body).err().expect("the write is refused");
    assert_eq!(why.kind, FailureKind::InvalidRequest, "{}", why.message);
    why.message
}

#[test]
fn a_configuration_is_shown_without_the_reviewers_token() {
    let stage = TestMount::empty();
    assert_eq!(stage.bed.read("config").err().unwrap().kind, FailureKind::NotFound);
    let config = json!({"kubernetes_host": SERVER, "token_reviewer_jwt": format!("{REVIEWER}\n")});
    stage.bed.write("config", &config).unwrap();
    let shown = stage.bed.read("config").unwrap().data;
    let expected = json!({
        "kubernetes_host": SERVER, "kubernetes_ca_cert": "", "token_reviewer_jwt_set": true,
        "pem_keys": [], "issuer": "", "disable_iss_validation": true,
        "disable_local_ca_jwt": false, "use_annotations_as_alias_metadata": false,
    });
    assert_eq!(Value::Object(shown), expected);
    assert_eq!(stage.bed.host.stored("config").unwrap()["token_reviewer_jwt"], REVIEWER);
}

#[test]
fn operator_mistake_is_refused_with_remedy() {
    let stage = TestMount::empty();
    let with = |name: &str, value: Value| json!({"kubernetes_host": SERVER, name: value});
    for (body, says) in [
        (json!({}), "kubernetes_host"),
        (json!({"kubernetes_host": ""}), "kubernetes_host"),
        (json!({"kubernetes_host": "http://api.example"}), "does not begin with https://"),
        (json!({"kubernetes_host": "https://user@api.example"}), "kubernetes_host"),
        (with("token_reviewer_jwt", json!("hunter2")), "token_reviewer_jwt is not a JWT"),
        (with("token_reviewer_jwt", json!("a.b.c\r\nx: y")), "token_reviewer_jwt is not a JWT"),
        (with("kubernetes_ca_cert", json!("nonsense")), "kubernetes_ca_cert"),
        (with("kubernetes_ca_cert", json!("x".repeat(70_000))), "64 KiB"),
        (with("pem_keys", json!(["nonsense"])), "pem_keys"),
        (with("pem_keys", json!(["-----BEGIN PRIVATE KEY-----\n"])), "neither a public key"),
        (with("use_annotations_as_alias_metadata", json!(true)), "is not supported"),
    ] {
        let why = refused(&stage, &body);
        assert!(why.contains(says) && !why.contains("hunter2"), "{body}: {why}");
    }
    assert_eq!(stage.bed.read("config").err().unwrap().kind, FailureKind::NotFound);
    let off = with("use_annotations_as_alias_metadata", json!(false));
    assert!(stage.bed.write("config", &off).is_ok());
}

#[test]
fn the_reviewers_token_goes_to_no_other_server() {
    let stage = TestMount::with_role(&json!({}));
    for body in [
        json!({"kubernetes_host": "https://thief.example"}),
        json!({"kubernetes_host": "https://api.example:6444"}),
        json!({"disable_local_ca_jwt": true}),
    ] {
        let why = refused(&stage, &body);
        assert!(why.contains("give token_reviewer_jwt in the same request"), "{why}");
    }
    let same = json!({"kubernetes_host": "HTTPS://API.example:6443/", "issuer": "x"});
    assert!(stage.bed.write("config", &same).is_ok(), "another spelling is the same server");
    let moved = json!({"kubernetes_host": "https://other.example", "token_reviewer_jwt": ""});
    stage.bed.write("config", &moved).unwrap();
    assert_eq!(stage.bed.read("config").unwrap().data["token_reviewer_jwt_set"], false);
}

#[test]
fn issuer_counts_only_when_validation_is_requested() {
    let stage = TestMount::with_role(&json!({}));
    stage.answers(reviewed(&confirmed()));
    let other = changed("/iss", json!("https://other.example"));
    assert!(stage.login(&other).is_ok(), "by default the API server decides");
    stage.bed.write("config", &json!({"disable_iss_validation": false})).unwrap();
    assert!(stage.denied(&other).contains("another issuer"));
    let usual = changed("/iss", json!("kubernetes/serviceaccount"));
    assert!(stage.login(&usual).is_ok());
    stage.bed.write("config", &json!({"issuer": "https://other.example"})).unwrap();
    assert!(stage.login(&other).is_ok());
    assert!(stage.denied(&usual).contains("another issuer"));
}

#[test]
fn configured_keys_are_asked_before_the_api_server() {
    let stage = TestMount::with_role(&json!({}));
    stage.answers(reviewed(&confirmed()));
    let host: &dyn Host = &stage.bed.host;
    let key = || host.crypto().generate_key("ec", 256, "pkcs8").unwrap();
    let (own, other, rsa) =
        (key(), key(), host.crypto().generate_key("rsa", 2_048, "pkcs8").unwrap());
    let keys = json!({"pem_keys": [rsa.public_key.pem, own.public_key.pem]});
    stage.bed.write("config", &keys).unwrap();
    let all = claims().as_object().unwrap().clone();
    let signed = |key: &str| sign(host, "ES256", Some("k"), &all, key).unwrap();
    assert!(stage.login(&signed(&own.private_key)).is_ok());
    stage.request();
    let forged = signed(&other.private_key);
    let (_, signature) = forged.rsplit_once('.').unwrap();
    let unsigned = jwt(&claims());
    let by_none =
        unsigned.replacen(&unsigned[..unsigned.find('.').unwrap()], "eyJhbGciOiJub25lIn0", 1);
    let by_secret =
        unsigned.replacen(&unsigned[..unsigned.find('.').unwrap()], "eyJhbGciOiJIUzI1NiJ9", 1);
    let grafted = unsigned.replace("c2ln", signature);
    for token in [forged.clone(), unsigned, by_none, by_secret, grafted] {
        assert!(stage.denied(&token).contains("no key of pem_keys"));
    }
    stage.assert_nothing_sent();
}
