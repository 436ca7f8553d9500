//! Faults of the key management service: dead, slow, hanging, and full of nonsense.

use super::{AwsSeal, AwsService};
use crate::seal_service::{
    AWAITED, REFUSED, ServiceSeal, WrongAnswer, assert_each_named, html, lie,
};
use bulkhead_tests::internet::{Fault, Response};
use serde_json::{Value, json};

#[test]
fn server_waits_sealed_until_kms_returns() {
    let (mut seal, operators) = AwsSeal::initialised();
    seal.assert_waits_until_service_returns(&operators);
}

/// Answers that no key management service gives to a request for decryption.
fn wrong_answers(arn: &str) -> Vec<WrongAnswer> {
    let plain = |plaintext: Value| lie(&json!({ "KeyId": arn, "Plaintext": plaintext }));
    let error = |kind: &str| Fault::Lie(Response::json(400, &json!({ "__type": kind })));
    let other_key = plain(json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    [
        ("a page of a proxy", html(), AWAITED, "another form"),
        ("no fields", lie(&json!({})), AWAITED, "another form"),
        ("no ARN", lie(&json!({ "KeyId": "k", "Plaintext": "AAAA" })), AWAITED, "another form"),
        ("no base64", plain(json!("%%%")), AWAITED, "another form"),
        ("a short key", plain(json!("AAAA")), AWAITED, "32 bytes"),
        ("another key", other_key, REFUSED, "does not open the data"),
        ("nothing", Fault::Lie(Response::empty(204)), AWAITED, "status 204"),
        ("a cut body", Fault::Truncate, AWAITED, "ended before the answer"),
        ("cut JSON", Fault::Malform, AWAITED, "another form"),
        ("8 MiB", Fault::Huge, REFUSED, "over the limit of bytes"),
        ("a fault", Fault::Status(500), AWAITED, "status 500"),
        ("an internal fault", error("KMSInternalException"), AWAITED, "at present"),
        ("too many requests", error("ThrottlingException"), AWAITED, "rate of requests"),
        ("another ciphertext", error("InvalidCiphertextException"), REFUSED, "wrapped the seal"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

#[test]
fn nonsense_of_kms_is_named_and_changes_nothing() {
    let (mut seal, operators) = AwsSeal::initialised();
    let ServiceSeal { service: AwsService { kms, key }, sealed, .. } = &mut seal;
    let fail = |fault| kms.fail("/Decrypt", fault, usize::MAX);
    assert_each_named((sealed, "awskms"), wrong_answers(key), &fail, &|| kms.heal());
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn initialisation_without_kms_changes_nothing() {
    let mut seal = AwsSeal::uninitialised();
    let answer = |key: &str, blob: &str| lie(&json!({ "KeyId": key, "CiphertextBlob": blob }));
    let key = seal.service.key.clone();
    let faults = [
        Fault::Status(500),
        Fault::Malform,
        answer(&key, ""),
        answer("", "AAAA"),
        answer(&key, "AAAA"),
    ];
    seal.assert_faults_refuse_init(faults.map(|fault| ("/Encrypt", fault)));
}
