//! Faults of the transit server: dead, sealed, slow, hanging, and full of nonsense.

use super::TransitSeal;
use crate::seal_service::{AWAITED, REFUSED, WrongAnswer, assert_each_named};
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::sealed_server::{PATIENCE, write_policy};
use bulkhead_tests::wait;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn server_waits_sealed_until_transit_returns() {
    let (mut seal, operators) = TransitSeal::initialised();
    seal.transit.kill();
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "seal-key-awaited");
    seal.assert_sealed();
    seal.transit.start_again();
    seal.wait_until_open(&operators);
    let printed = seal.sealed.server.printed();
    assert_eq!(printed[before..].matches("seal-key-awaited").count(), 1, "{}", &printed[before..]);

    seal.transit.set_sealed(true);
    let before = seal.start_again();
    seal.sealed.server.wait_for_print_after(before, "seal-key-awaited");
    seal.assert_sealed();
    seal.transit.set_sealed(false);
    seal.wait_until_open(&operators);
}

#[test]
fn slow_and_hanging_transit_delay_start_only() {
    let (mut seal, operators) = TransitSeal::initialised();
    seal.transit.fail("/v1/", Fault::Delay(Duration::from_secs(1)), 2);
    seal.start_again();
    seal.wait_until_open(&operators);
    seal.transit.fail("/v1/", Fault::Hang, usize::MAX);
    let requests = seal.transit.requests().len();
    let before = seal.start_again();
    let is_awaited = || seal.sealed.server.printed()[before..].contains(AWAITED);
    wait::until_true("the server waits for the seal", PATIENCE, is_awaited);
    assert!(seal.transit.requests().len() > requests, "the transit server got no request");
    seal.assert_sealed();
    assert!(seal.sealed.server.stop(), "{}", seal.sealed.server.printed());
    seal.transit.heal();
    seal.sealed.server.start_again();
    seal.wait_until_open(&operators);
}

/// Answers that no transit server gives to a request for decryption.
fn wrong_answers() -> Vec<WrongAnswer> {
    let lie = |body: Value| Fault::Lie(Response::json(200, &body));
    let data = |plaintext: Value| lie(json!({ "data": { "plaintext": plaintext } }));
    let html = Response::text(200, "<html>Please log in</html>").with("content-type", "text/html");
    let other_key = data(json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    let redirect = Fault::Redirect("http://127.0.0.1:1/v1/transit/decrypt/unseal".into());
    [
        ("a page of a proxy", Fault::Lie(html), AWAITED, "another form"),
        ("another document", lie(json!({ "data": [1, 2] })), AWAITED, "another form"),
        ("no data", lie(json!({})), AWAITED, "another form"),
        ("no base64", data(json!("%%%")), AWAITED, "32 bytes"),
        ("a short key", data(json!("AAAA")), AWAITED, "32 bytes"),
        ("another key", other_key, REFUSED, "does not open the data"),
        ("a number", data(json!(7)), AWAITED, "another form"),
        ("nothing", Fault::Lie(Response::empty(204)), AWAITED, "status 204"),
        ("a cut body", Fault::Truncate, AWAITED, "ended before the answer"),
        ("cut JSON", Fault::Malform, AWAITED, "another form"),
        ("8 MiB", Fault::Huge, REFUSED, "over the limit of bytes"),
        ("a fault", Fault::Status(500), AWAITED, "status 500"),
        ("too many requests", Fault::RetryAfter(429, 1), AWAITED, "rate of requests"),
        ("a redirect", redirect, AWAITED, "redirects"),
    ]
    .map(|(name, fault, event, cause)| WrongAnswer { name, fault, event, cause })
    .into()
}

#[test]
fn nonsense_of_transit_is_named_and_changes_nothing() {
    let (mut seal, operators) = TransitSeal::initialised();
    let TransitSeal { transit, sealed, .. } = &mut seal;
    let fail = |fault| transit.fail("/v1/transit/decrypt", fault, usize::MAX);
    assert_each_named((sealed, "transit"), wrong_answers(), &fail, &|| transit.heal());
    seal.start_again();
    seal.wait_until_open(&operators);
    seal.sealed.server.assert_silent(&seal.token);
}

#[test]
fn initialisation_without_transit_changes_nothing() {
    let mut seal = TransitSeal::uninitialised();
    let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
    for fault in [
        Fault::Status(500),
        Fault::Malform,
        Fault::Lie(Response::json(200, &json!({ "data": { "ciphertext": "vault:v1:" } }))),
        Fault::Lie(Response::json(200, &json!({ "data": { "ciphertext": "" } }))),
    ] {
        seal.transit.fail("/v1/transit/encrypt", fault, usize::MAX);
        let refused = seal.sealed.nobody().write("sys/init", &body);
        assert!(matches!(refused.status, 400 | 502 | 503), "{refused:?}");
        assert!(!refused.errors().contains(&seal.token), "{refused:?}");
        assert_eq!(seal_status(&seal.sealed.server)["initialized"], false);
        seal.transit.heal();
    }
    seal.transit.kill();
    let refused = seal.sealed.nobody().write("sys/init", &body);
    assert!(matches!(refused.status, 502 | 503), "{refused:?}");
    seal.transit.start_again();
    let operators = seal.sealed.initialise(1, 1);
    write_policy(&operators.root(&seal.sealed.server));
    seal.sealed.assert_open(&operators);
}
