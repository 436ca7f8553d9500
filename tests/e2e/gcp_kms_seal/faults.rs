//! Faults of Cloud KMS and of its endpoint for tokens: dead, slow, hanging, and full of nonsense.

use super::KmsSeal;
use crate::seal_service::{AWAITED, REFUSED, WrongAnswer, assert_each_named};
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::sealed_server::write_policy;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn server_waits_sealed_until_cloud_kms_returns() {
    let (mut seal, operators) = KmsSeal::initialised();
    seal.kms.kill();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, AWAITED);
    seal.sealed.assert_sealed("gcpckms");
    seal.kms.start_again();
    seal.sealed.wait_until_open(&operators);
    seal.kms.fail("/", Fault::Delay(Duration::from_secs(1)), 2);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    for path in ["/token", "/decrypt"] {
        seal.kms.fail(path, Fault::Hang, usize::MAX);
        let before = seal.sealed.kill_and_start();
        seal.sealed.server.wait_for_print_after(before, AWAITED);
        seal.sealed.assert_sealed("gcpckms");
        seal.kms.heal();
        seal.sealed.wait_until_open(&operators);
    }
}

fn lie(body: &Value) -> Fault {
    Fault::Lie(Response::json(200, body))
}

fn html() -> Fault {
    let page = Response::text(200, "<html>Please log in</html>");
    Fault::Lie(page.with("content-type", "text/html"))
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

/// Answers that no endpoint for tokens gives.
fn wrong_tokens() -> Vec<WrongAnswer> {
    let empty = lie(&json!({ "access_token": "" }));
    let line = lie(&json!({ "access_token": "a\r\nx-injected: 1" }));
    [
        ("a page of a proxy", html(), AWAITED, "without an access token"),
        ("an empty token", empty, AWAITED, "without an access token"),
        ("a token with a line", line, AWAITED, "without an access token"),
        ("an invented token", lie(&json!({ "access_token": "a" })), REFUSED, "refuses the access"),
        ("a fault", Fault::Status(503), AWAITED, "no access token at present"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

#[test]
fn nonsense_of_cloud_kms_changes_nothing() {
    let (mut seal, operators) = KmsSeal::initialised();
    let KmsSeal { kms, sealed, .. } = &mut seal;
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
    let seal = KmsSeal::uninitialised();
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    for (path, fault) in [
        ("/encrypt", Fault::Status(500)),
        ("/encrypt", Fault::Malform),
        ("/encrypt", lie(&json!({ "name": "n", "ciphertext": "", "ciphertextCrc32c": "0" }))),
        ("/token", Fault::Status(500)),
    ] {
        seal.kms.fail(path, fault, usize::MAX);
        let refused = seal.sealed.nobody().write("sys/init", &body);
        assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
        assert_eq!(seal_status(&seal.sealed.server)["initialized"], false);
        seal.kms.heal();
    }
    seal.kms.damage_answers(true);
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
    seal.kms.damage_answers(false);
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
    seal.assert_silent();
}
