//! Faults of the vault and of its endpoint for tokens: dead, slow, hanging, and full of nonsense.

use super::VaultSeal;
use crate::seal_service::{AWAITED, REFUSED, WrongAnswer, assert_each_named};
use bulkhead_tests::azure_vault::KEY;
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::sealed_server::write_policy;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn server_waits_sealed_until_vault_returns() {
    let (mut seal, operators) = VaultSeal::initialised();
    seal.vault.kill();
    let before = seal.sealed.kill_and_start();
    seal.sealed.server.wait_for_print_after(before, AWAITED);
    seal.sealed.assert_sealed("azurekeyvault");
    seal.vault.start_again();
    seal.sealed.wait_until_open(&operators);
    seal.vault.fail("/", Fault::Delay(Duration::from_secs(1)), 2);
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    for path in ["/token", "/unwrapkey"] {
        seal.vault.fail(path, Fault::Hang, usize::MAX);
        let before = seal.sealed.kill_and_start();
        seal.sealed.server.wait_for_print_after(before, AWAITED);
        seal.sealed.assert_sealed("azurekeyvault");
        seal.vault.heal();
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

/// Answers that no vault gives to a request to unwrap.
fn wrong_answers() -> Vec<WrongAnswer> {
    let kid = format!("https://kv.vault.azure.net/keys/{KEY}/{:032x}", 1);
    let value = |value: &str| lie(&json!({ "kid": kid, "value": value }));
    let other_key = value("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    let other_version = lie(&json!({ "kid": format!("{kid}0"), "value": "AAAA" }));
    [
        ("a page of a proxy", html(), AWAITED, "another form"),
        ("no fields", lie(&json!({})), AWAITED, "another form"),
        ("no base64", value("%%%"), AWAITED, "another form"),
        ("another version", other_version, AWAITED, "another form"),
        ("a short key", value("AAAA"), AWAITED, "32 bytes"),
        ("another key", other_key, REFUSED, "does not open the data"),
        ("nothing", Fault::Lie(Response::empty(204)), AWAITED, "status 204"),
        ("a cut body", Fault::Truncate, AWAITED, "ended before the answer"),
        ("cut JSON", Fault::Malform, AWAITED, "another form"),
        ("8 MiB", Fault::Huge, REFUSED, "over the limit of bytes"),
        ("a fault", Fault::Status(500), AWAITED, "status 500"),
        ("too many requests", Fault::RetryAfter(429, 1), AWAITED, "rate of requests"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

/// Answers that no endpoint for tokens gives.
fn wrong_tokens() -> Vec<WrongAnswer> {
    let line = lie(&json!({ "access_token": "a\r\nx-injected: 1" }));
    [
        ("a page of a proxy", html(), AWAITED, "without an access token"),
        ("a token with a line", line, AWAITED, "without an access token"),
        ("an invented token", lie(&json!({ "access_token": "a" })), REFUSED, "refuses the access"),
        ("a fault", Fault::Status(503), AWAITED, "no access token at present"),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/".into()), AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

#[test]
fn nonsense_of_key_vault_changes_nothing() {
    let (mut seal, operators) = VaultSeal::initialised();
    let VaultSeal { vault, sealed, .. } = &mut seal;
    for (path, answers) in [("/unwrapkey", wrong_answers()), ("/token", wrong_tokens())] {
        let fail = |fault| vault.fail(path, fault, usize::MAX);
        assert_each_named((&mut *sealed, "azurekeyvault"), answers, &fail, &|| vault.heal());
    }
    seal.sealed.kill_and_start();
    seal.sealed.wait_until_open(&operators);
    seal.assert_silent();
}

#[test]
fn initialisation_without_vault_changes_nothing() {
    let mut seal = VaultSeal::uninitialised();
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    for (path, fault) in [
        ("/wrapkey", Fault::Status(500)),
        ("/wrapkey", Fault::Malform),
        ("/wrapkey", lie(&json!({ "kid": "k", "value": "AAAA" }))),
        ("/get", Fault::Status(500)),
        ("/token", Fault::Status(500)),
    ] {
        seal.vault.fail(path, fault, usize::MAX);
        let refused = seal.sealed.nobody().write("sys/init", &body);
        assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
        assert_eq!(seal_status(&seal.sealed.server)["initialized"], false);
        seal.vault.heal();
    }
    seal.vault.kill();
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 502 | 503), "{refused:?}");
    seal.vault.start_again();
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
    seal.assert_silent();
}
