//! Faults of the transit server: dead, sealed, slow, hanging, and full of nonsense.

use super::{PATIENCE, TransitSeal};
use bulkhead_tests::internet::{Fault, Response};
use bulkhead_tests::operators::seal_status;
use bulkhead_tests::sealed_server::write_policy;
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
    seal.start_again();
    seal.assert_sealed();
    assert!(seal.sealed.server.stop(), "{}", seal.sealed.server.printed());
    seal.transit.heal();
    seal.sealed.server.start_again();
    seal.wait_until_open(&operators);
}

/// Answers that no transit server gives to a request for decryption.
fn nonsense() -> Vec<(&'static str, Fault)> {
    let data = |plaintext: Value| {
        Fault::Lie(Response::json(200, &json!({ "data": { "plaintext": plaintext } })))
    };
    let html = Response::text(200, "<html>Please log in</html>").with("content-type", "text/html");
    vec![
        ("a page of a proxy", Fault::Lie(html)),
        ("another document", Fault::Lie(Response::json(200, &json!({ "data": [1, 2] })))),
        ("no data", Fault::Lie(Response::json(200, &json!({})))),
        ("no base64", data(json!("%%%"))),
        ("a short key", data(json!("AAAA"))),
        ("another key", data(json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))),
        ("a number", data(json!(7))),
        ("nothing", Fault::Lie(Response::empty(204))),
        ("a cut body", Fault::Truncate),
        ("cut JSON", Fault::Malform),
        ("8 MiB", Fault::Huge),
        ("a fault", Fault::Status(500)),
        ("too many requests", Fault::RetryAfter(429, 1)),
        ("a redirect", Fault::Redirect("http://127.0.0.1:1/v1/transit/decrypt/unseal".into())),
    ]
}

#[test]
fn nonsense_of_transit_is_named_and_changes_nothing() {
    let (mut seal, operators) = TransitSeal::initialised();
    for (what, fault) in nonsense() {
        seal.transit.fail("/v1/transit/decrypt", fault, usize::MAX);
        let before = seal.start_again();
        let is_named = || {
            let printed = seal.sealed.server.printed();
            printed[before..].contains("not-unsealed")
                || printed[before..].contains("seal-key-awaited")
        };
        wait::until_true(what, PATIENCE, is_named);
        seal.assert_sealed();
        let printed = seal.sealed.server.printed();
        let lines: Vec<&str> =
            printed[before..].lines().filter(|line| line.contains("cause=")).collect();
        assert!(lines.iter().all(|line| line.len() < 1_000), "{what}: {lines:?}");
        seal.transit.heal();
    }
    seal.start_again();
    seal.wait_until_open(&operators);
    seal.sealed.server.assert_silent(&seal.token);
}

#[test]
fn initialisation_without_transit_changes_nothing() {
    let mut seal = TransitSeal::uninitialised(None);
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
