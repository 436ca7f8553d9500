//! Faults of the vault and of its endpoint for tokens: dead, slow, hanging, and full of nonsense.

use super::AzureSeal;
use crate::seal_service::{
    AWAITED, REFUSED, ServiceSeal, WrongAnswer, assert_each_named, html, lie, wrong_tokens,
};
use bulkhead_tests::azure_vault::KEY;
use bulkhead_tests::internet::{Fault, Response};
use serde_json::json;

#[test]
fn server_waits_sealed_until_vault_returns() {
    let (mut seal, operators) = AzureSeal::initialised();
    seal.assert_waits_until_service_returns(&operators);
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

#[test]
fn nonsense_of_key_vault_changes_nothing() {
    let (mut seal, operators) = AzureSeal::initialised();
    let ServiceSeal { service: vault, sealed, .. } = &mut seal;
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
    AzureSeal::uninitialised().assert_faults_refuse_init([
        ("/wrapkey", Fault::Status(500)),
        ("/wrapkey", Fault::Malform),
        ("/wrapkey", lie(&json!({ "kid": "k", "value": "AAAA" }))),
        ("/get", Fault::Status(500)),
        ("/token", Fault::Status(500)),
    ]);
}
