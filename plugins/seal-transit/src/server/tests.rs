//! Tests of requests, and of each refusal of the other server.

use super::*;
use crate::Transit;
use crate::fixture::{KEY, TOKEN, TestHost, answer, ciphertext, settings};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealPlugin;
use serde_json::json;

/// Returns the failure of `wrap_key` after this answer.
fn wrap_refusal(answer: Response) -> Failure {
    let host = TestHost::answering([answer]);
    Transit::wrap_key(&host, &settings(&[]), &KEY).unwrap_err()
}

fn unwrap_refusal(answer: Response) -> Failure {
    let host = TestHost::answering([answer]);
    let refused = Transit::unwrap_key(&host, &settings(&[]), ciphertext(3).as_bytes());
    refused.err().unwrap()
}

fn errors(status: u16, text: &str) -> Response {
    answer(status, &json!({ "errors": [text] }))
}

#[test]
fn request_has_token_namespace_and_tls() {
    let host =
        TestHost::answering([answer(200, &json!({ "data": { "ciphertext": ciphertext(1) } }))]);
    let given = settings(&[
        ("namespace", json!("team")),
        ("mount_path", json!("keys/")),
        ("tls_ca_cert", json!("PEM")),
    ]);
    Transit::wrap_key(&host, &given, &KEY).unwrap();
    let sent = host.take_requests();
    assert_eq!(sent.len(), 1);
    let request = &sent[0];
    assert_eq!(request.method, "POST");
    assert_eq!(request.url, "https://vault.example.com:8200/v1/keys/encrypt/unseal");
    let header = |name: &str| {
        let found = request.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(header("x-vault-token"), Some(TOKEN));
    assert_eq!(header("x-vault-namespace"), Some("team"));
    assert_eq!(header("x-vault-request"), Some("true"));
    assert!(request.safe && request.timeout > 0);
    assert_eq!(request.tls.as_ref().unwrap().root_certificates.as_deref(), Some("PEM"));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let plaintext = body["plaintext"].as_str().unwrap();
    assert!(request.secrets.iter().any(|secret| secret == plaintext));
    assert!(request.secrets.iter().any(|secret| secret == TOKEN));
}

#[test]
fn every_refusal_names_cause_and_remedy() {
    for (answer, kind, part) in [
        (errors(301, ""), FailureKind::Unavailable, "active server"),
        (errors(307, ""), FailureKind::Unavailable, "follows no redirect"),
        (errors(400, "encryption key not found"), FailureKind::InvalidRequest, "does not exist"),
        (errors(400, "unsupported"), FailureKind::InvalidRequest, "not derived"),
        (errors(403, "permission denied"), FailureKind::PermissionDenied, "capability `update`"),
        (errors(404, ""), FailureKind::InvalidRequest, "mount_path"),
        (errors(429, ""), FailureKind::Unavailable, "rate"),
        (errors(501, ""), FailureKind::Unavailable, "initialise"),
        (errors(503, "Vault is sealed"), FailureKind::Unavailable, "unseal"),
        (errors(500, "internal error"), FailureKind::Unreachable, "status 500"),
        (errors(204, ""), FailureKind::Unreachable, "status 204"),
    ] {
        let failure = wrap_refusal(answer);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(failure.message.contains("https://vault.example.com:8200"), "{failure}");
        assert!(!failure.message.contains(TOKEN), "{failure}");
    }
}

#[test]
fn refused_decryption_names_version_or_key() {
    let policy = "ciphertext or signature version is disallowed by policy (too old)";
    for (text, part) in [
        (policy, "min_decryption_version"),
        ("invalid ciphertext: version is too new", "lacks this version"),
        ("no such key version", "lacks this version"),
        ("cipher: message authentication failed", "did not wrap"),
        ("encryption key not found", "does not exist"),
    ] {
        let failure = unwrap_refusal(errors(400, text));
        assert_eq!(failure.kind, FailureKind::InvalidRequest, "{failure}");
        assert!(failure.message.contains(part), "{part}: {failure}");
    }
}

#[test]
fn answers_of_other_form_are_refused() {
    let page = b"<html><body>Sign in</body></html>".to_vec();
    let html = Response { status: 200, body: page, ..Response::default() };
    for answer in [
        html,
        answer(200, &json!({})),
        answer(200, &json!({ "data": null })),
        answer(200, &json!({ "data": { "ciphertext": 7 } })),
        answer(200, &json!({ "data": { "ciphertext": "vault:v1:" } })),
        answer(200, &json!([1])),
    ] {
        let failure = wrap_refusal(answer);
        assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
        assert!(failure.message.contains("login page"), "{failure}");
        assert!(!failure.message.contains("Sign in"), "{failure}");
    }
}

#[test]
fn unreachable_server_keeps_failure_of_host() {
    let why = Failure::new(FailureKind::Unreachable, "https://vault.example.com:8200: refused");
    let host = TestHost::failing(why.clone());
    assert_eq!(Transit::check_health(&host, &settings(&[])), Err(why));
}
