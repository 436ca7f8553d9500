//! Tests of requests, and of each refusal of both servers.

use crate::KeyVault;
use crate::fixture::{ACCESS_TOKEN, KEY, SECRET, answer, converted, described, settings, token};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealPlugin;
use bulkhead_sdk::testbed::SealTestHost;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

const BLOB: &[u8] = b"unseal/1\nwrapped";

/// Returns the failure of `wrap_key` after these answers.
fn wrap_refusal<const N: usize>(answers: [Response; N]) -> Failure {
    let host = SealTestHost::answering(answers);
    KeyVault::wrap_key(&host, &settings(&[]), &KEY).unwrap_err()
}

fn error(code: u16, text: &str) -> Response {
    answer(code, &json!({ "error": { "code": text, "message": "a text of the service" } }))
}

#[test]
fn requests_have_token_version_and_algorithm() {
    let host = SealTestHost::answering([token(), described("1"), converted("1", b"wrapped")]);
    let changed = settings(&[("tls_ca_cert", json!("PEM"))]);
    let wrapped = KeyVault::wrap_key(&host, &changed, &KEY).unwrap();
    assert_eq!((wrapped.key_id.as_str(), wrapped.blob.as_slice()), ("unseal/1", BLOB));
    let sent = host.take_requests();
    let tenant = "46646709-b63e-4747-be42-516edeaf1e14";
    let token_url = format!("https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token");
    let vault = "https://kv.vault.azure.net/keys/unseal";
    let urls: Vec<&str> = sent.iter().map(|request| request.url.as_str()).collect();
    let (get, wrap) =
        (format!("{vault}?api-version=7.4"), format!("{vault}/1/wrapkey?api-version=7.4"));
    assert_eq!(urls, [token_url.as_str(), &get, &wrap]);
    let form = String::from_utf8(sent[0].body.clone()).unwrap();
    assert!(form.contains("scope=https%3A%2F%2Fvault.azure.net%2F.default"), "{form}");
    assert!(sent[0].secrets.iter().any(|secret| secret == SECRET));
    let body: Value = serde_json::from_slice(&sent[2].body).unwrap();
    let value = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERUY";
    assert_eq!(body, json!({ "alg": "RSA-OAEP-256", "value": value }));
    assert!(sent[2].secrets.iter().any(|secret| secret == value));
    for request in &sent {
        assert!(request.timeout > 0);
        assert_eq!(request.tls.as_ref().unwrap().root_certificates.as_deref(), Some("PEM"));
    }
}

#[test]
fn opened_key_names_newest_version() {
    let host = SealTestHost::answering([token(), converted("1", &KEY), described("2")]);
    let opened = KeyVault::unwrap_key(&host, &settings(&[]), BLOB).unwrap();
    assert_eq!((opened.key, opened.newest_key_id.as_str()), (KEY.to_vec(), "unseal/2"));
    let sent = host.take_requests();
    assert!(sent[1].url.contains("/keys/unseal/1/unwrapkey?"), "{}", sent[1].url);
    let host = SealTestHost::answering([token(), converted("1", &KEY), error(403, "Forbidden")]);
    let opened = KeyVault::unwrap_key(&host, &settings(&[]), BLOB).unwrap();
    assert_eq!(opened.newest_key_id, "unseal/1");
    assert_eq!(host.take_lines(), ["newest-key-version-unknown cause=permission-denied"]);
    let host = SealTestHost::answering([token(), converted("1", b"short")]);
    let why = KeyVault::unwrap_key(&host, &settings(&[]), BLOB).err().unwrap();
    assert!(why.message.contains("32 bytes") && !why.message.contains("short"), "{why}");
}

#[test]
fn every_refusal_names_cause_and_remedy() {
    use FailureKind::{InvalidRequest, PermissionDenied, Unavailable, Unreachable};
    for (code, text, kind, part) in [
        (301, "", Unavailable, "follows no redirect"),
        (400, "BadParameter", InvalidRequest, "give an RSA key"),
        (401, "Unauthorized", PermissionDenied, "resource belongs to the vault"),
        (403, "KeyDisabled", InvalidRequest, "enable the version"),
        (403, "ForbiddenByFirewall", PermissionDenied, "in the firewall"),
        (403, "ForbiddenByRbac", PermissionDenied, "allow get, wrapKey and unwrapKey"),
        (404, "KeyNotFound", InvalidRequest, "check vault_name and key_name"),
        (429, "Throttled", Unavailable, "limits the rate"),
        (503, "", Unavailable, "at present (status 503)"),
        (204, "", Unreachable, "status 204"),
    ] {
        for answers in
            [vec![token(), error(code, text)], vec![token(), described("1"), error(code, text)]]
        {
            let host = SealTestHost::answering(answers);
            let failure = KeyVault::check_health(&host, &settings(&[])).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure}");
            assert!(failure.message.contains(part), "{part}: {failure}");
            assert!(!failure.message.contains("a text of"), "{failure}");
            assert!(!failure.message.contains(ACCESS_TOKEN), "{failure}");
        }
    }
    for (inner, message, kind, part) in [
        ("KeyDisabled", "not allowed on a disabled key", InvalidRequest, "enable the version"),
        ("ForbiddenByConnection", "", PermissionDenied, "in the firewall"),
        (
            "",
            "Public network access is disabled and request is",
            PermissionDenied,
            "in the firewall",
        ),
        ("", "the policy disabled-users is missing", PermissionDenied, "allow get, wrapKey"),
    ] {
        let error =
            json!({ "code": "Forbidden", "message": message, "innererror": { "code": inner } });
        let failure = wrap_refusal([token(), answer(403, &json!({ "error": error }))]);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(part), "{part}: {failure}");
    }
    let attributes = json!({ "enabled": false });
    let key = json!({ "kid": "https://kv.vault.azure.net/keys/unseal/1" });
    let off = answer(200, &json!({ "key": key, "attributes": attributes }));
    assert!(wrap_refusal([token(), off]).message.contains("enable the version"));
}

#[test]
fn refused_application_names_setting() {
    for (status, code, part) in [
        (401, "AADSTS7000215", "and not its id"),
        (401, "AADSTS7000222", "has ended"),
        (400, "AADSTS700016", "has no application"),
        (400, "AADSTS90002: Tenant not found.", "has no directory"),
        (400, "AADSTS900021: Requested tenant identifier", "has no directory"),
        (400, "AADSTS900029", "and resource"),
        (400, "AADSTS50034: not AADSTS90002", "and resource"),
        (400, "AADSTS500011", "and resource"),
        (503, "", "no access token at present"),
        (302, "", "follows no redirect"),
        (404, "", "status 404"),
    ] {
        let body = json!({ "error": "invalid_client", "error_description": code });
        let failure = wrap_refusal([answer(status, &body)]);
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(!failure.message.contains(SECRET), "{failure}");
    }
    let why = wrap_refusal([answer(200, &json!({ "access_token": "a\r\nb" }))]);
    assert!(why.message.contains("without an access token"), "{why}");
}

#[test]
fn description_of_another_key_is_refused() {
    let named = |name: &str| {
        let kid = format!("https://kv.vault.azure.net/keys/{name}/1");
        answer(200, &json!({ "key": { "kid": kid } }))
    };
    let failure = wrap_refusal([token(), named("another")]);
    assert!(failure.message.contains("login page"), "{failure}");
    let kid = "https://kv.vault.azure.net/keys/Unseal/1";
    let wrapped = answer(200, &json!({ "kid": kid, "value": "d3JhcHBlZA" }));
    let host = SealTestHost::answering([token(), named("Unseal"), wrapped]);
    let wrapped = KeyVault::wrap_key(&host, &settings(&[]), &KEY).unwrap();
    assert_eq!(wrapped.key_id, "Unseal/1");
}

#[test]
fn answers_of_other_form_are_refused() {
    let page = b"<html><body>Sign in</body></html>".to_vec();
    let html = Response { status: 200, body: page, ..Response::default() };
    for answer in [
        html,
        answer(200, &json!({})),
        converted("2", b"wrapped"),
        converted("1", b""),
        answer(200, &json!({ "kid": "https://kv.vault.azure.net/keys/unseal/1", "value": "%" })),
    ] {
        let failure = wrap_refusal([token(), described("1"), answer]);
        assert!(failure.message.contains("login page"), "{failure}");
        assert!(!failure.message.contains("Sign in"), "{failure}");
    }
}
