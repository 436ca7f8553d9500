//! Faults of Cloud KMS and of its endpoint for tokens: dead, slow, hanging, and full of nonsense.

use super::GcpSeal;
use crate::seal_service::{
    AWAITED, REFUSED, ServiceSeal, WrongAnswer, assert_each_named, html, lie, wrong_tokens,
};
use bulkhead_tests::internet::{Fault, Response};
use serde_json::json;

#[test]
fn server_waits_sealed_until_cloud_kms_returns() {
    let (mut seal, operators) = GcpSeal::initialised();
    seal.assert_waits_until_service_returns(&operators);
}

/// Answers that no Cloud KMS gives to a request for decryption.
fn wrong_answers() -> Vec<WrongAnswer> {
    let plain = |text: &str, crc: &str| lie(&json!({ "plaintext": text, "plaintextCrc32c": crc }));
    let error = |code: u16, status: &str| {
        Fault::Lie(Response::json(code, &json!({ "error": { "status": status } })))
    };
    // The checksums of three zero bytes and of the bytes 0 to 31.
    let other_key = plain("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "1188919630");
    let short_key = plain("AAAA", "1617208186");
    [
        ("a page of a proxy", html(), AWAITED, "another form"),
        ("no fields", lie(&json!({})), AWAITED, "another form"),
        ("no base64", plain("%%%", "0"), AWAITED, "another form"),
        ("another checksum", plain("AAAA", "0"), AWAITED, "checksum that does not fit"),
        ("a short key", short_key, AWAITED, "32 bytes"),
        ("another key", other_key, REFUSED, "does not open the data"),
        ("nothing", Fault::Lie(Response::empty(204)), AWAITED, "status 204"),
        ("a cut body", Fault::Truncate, AWAITED, "ended before the answer"),
        ("cut JSON", Fault::Malform, AWAITED, "another form"),
        ("8 MiB", Fault::Huge, REFUSED, "over the limit of bytes"),
        ("a fault", Fault::Status(500), AWAITED, "status 500"),
        ("too many requests", Fault::RetryAfter(429, 1), AWAITED, "rate of requests"),
        ("another key's text", error(400, "INVALID_ARGUMENT"), REFUSED, "did not wrap"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

#[test]
fn nonsense_of_cloud_kms_changes_nothing() {
    let (mut seal, operators) = GcpSeal::initialised();
    let ServiceSeal { service: kms, sealed, .. } = &mut seal;
    for (path, answers) in [("/decrypt", wrong_answers()), ("/token", wrong_tokens())] {
        let fail = |fault| kms.fail(path, fault, usize::MAX);
        assert_each_named((&mut *sealed, "gcpckms"), answers, &fail, &|| kms.heal());
    }
    kms.damage_answers(true);
    let before = sealed.kill_and_start();
    sealed.server.wait_for_print_after(before, "checksum that does not fit");
    kms.damage_answers(false);
    sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn initialisation_without_cloud_kms_changes_nothing() {
    let mut seal = GcpSeal::uninitialised();
    seal.service.damage_answers(true);
    seal.assert_init_refused();
    seal.service.damage_answers(false);
    seal.assert_faults_refuse_init([
        ("/encrypt", Fault::Status(500)),
        ("/encrypt", Fault::Malform),
        ("/encrypt", lie(&json!({ "name": "n", "ciphertext": "", "ciphertextCrc32c": "0" }))),
        ("/token", Fault::Status(500)),
    ]);
}
