//! Faults of the key management service: dead, slow, hanging, and full of nonsense.

use super::KmsSeal;
use crate::seal_service::{AWAITED, REFUSED, WrongAnswer, assert_each_named};
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::sealed_server::write_policy;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn server_waits_sealed_until_kms_returns() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.kill();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, AWAITED);
    seal.sealed.assert_sealed("awskms");
    seal.kms.start_again();
    seal.sealed.wait_until_open(&operators);
    seal.kms.fail("/", Fault::Delay(Duration::from_secs(1)), 2);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.kms.fail("/", Fault::Hang, usize::MAX);
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, AWAITED);
    seal.sealed.assert_sealed("awskms");
    seal.kms.heal();
    seal.sealed.wait_until_open(&operators);
}

/// Answers that no key management service gives to a request for decryption.
fn wrong_answers(arn: &str) -> Vec<WrongAnswer> {
    let lie = |body: Value| Fault::Lie(Response::json(200, &body));
    let plain = |plaintext: Value| lie(json!({ "KeyId": arn, "Plaintext": plaintext }));
    let error = |kind: &str| Fault::Lie(Response::json(400, &json!({ "__type": kind })));
    let html = Response::text(200, "<html>Please log in</html>").with("content-type", "text/html");
    let other_key = plain(json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    [
        ("a page of a proxy", Fault::Lie(html), AWAITED, "another form"),
        ("no fields", lie(json!({})), AWAITED, "another form"),
        ("no ARN", lie(json!({ "KeyId": "k", "Plaintext": "AAAA" })), AWAITED, "another form"),
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
    let (mut seal, operators) = KmsSeal::initialised();
    let KmsSeal { kms, sealed, key, .. } = &mut seal;
    let fail = |fault| kms.fail("/Decrypt", fault, usize::MAX);
    assert_each_named((sealed, "awskms"), wrong_answers(key), &fail, &|| kms.heal());
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn initialisation_without_kms_changes_nothing() {
    let mut seal = KmsSeal::uninitialised();
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    for fault in [
        Fault::Status(500),
        Fault::Malform,
        Fault::Lie(Response::json(200, &json!({ "KeyId": seal.key, "CiphertextBlob": "" }))),
        Fault::Lie(Response::json(200, &json!({ "KeyId": "", "CiphertextBlob": "AAAA" }))),
        Fault::Lie(Response::json(200, &json!({ "KeyId": seal.key, "CiphertextBlob": "AAAA" }))),
    ] {
        seal.kms.fail("/Encrypt", fault, usize::MAX);
        let refused = seal.sealed.nobody().write("sys/init", &body);
        assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
        assert_eq!(seal_status(&seal.sealed.server)["initialized"], false);
        seal.kms.heal();
    }
    seal.kms.kill();
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 502 | 503), "{refused:?}");
    seal.kms.start_again();
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
    seal.assert_silent();
}
