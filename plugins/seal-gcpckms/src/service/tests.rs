//! Tests of requests, of checksums, and of each refusal of both servers.

use crate::CloudKms;
use crate::fixture::{
    ACCESS_TOKEN, KEY, KEY_NAME, NEXT_VERSION, PRIVATE_KEY, VERSION, answer, decrypted, encrypted,
    settings, token,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::{SealPlugin, WrappedKey};
use bulkhead_sdk::testbed::SealTestHost;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

/// 30 August 2015, 12:36:00.
const TIME: u64 = 1_440_938_160_000;

/// Returns the failure of `wrap_key` after these answers.
fn wrap_refusal<const N: usize>(answers: [Response; N]) -> Failure {
    let host = SealTestHost::answering(answers);
    CloudKms::wrap_key(&host, &settings(&[]), &KEY).unwrap_err()
}

fn unwrap_refusal(answer: Response) -> Failure {
    let host = SealTestHost::answering([token(), answer]);
    let blob = WrappedKey::with_name(VERSION, b"wrapped").blob;
    CloudKms::unwrap_key(&host, &settings(&[]), &blob).err().unwrap()
}

fn error(code: u16, status: &str, message: &str) -> Response {
    answer(code, &json!({ "error": { "code": code, "status": status, "message": message } }))
}

#[test]
fn assertion_has_audience_scope_and_end() {
    let host = SealTestHost::answering([token(), encrypted(VERSION, b"wrapped")]).at(TIME);
    let changed = settings(&[("tls_ca_cert", json!("PEM"))]);
    let wrapped = CloudKms::wrap_key(&host, &changed, &KEY).unwrap();
    assert_eq!(wrapped.key_id, VERSION);
    assert_eq!(wrapped.blob, WrappedKey::with_name(VERSION, b"wrapped").blob);
    let sent = host.take_requests();
    assert_eq!(sent[0].url, "https://oauth2.googleapis.com/token");
    let form = String::from_utf8(sent[0].body.clone()).unwrap();
    let assertion = form.split("assertion=").nth(1).unwrap();
    assert!(sent[0].secrets.iter().any(|secret| secret == assertion));
    let parts: Vec<Vec<u8>> =
        assertion.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
    let header: Value = serde_json::from_slice(&parts[0]).unwrap();
    assert_eq!(header, json!({ "alg": "RS256", "typ": "JWT", "kid": "5ea1" }));
    let claims: Value = serde_json::from_slice(&parts[1]).unwrap();
    let expected = json!({
        "iss": "seal@orders.iam.gserviceaccount.com", "iat": 1_440_938_160,
        "exp": 1_440_938_760, "aud": "https://oauth2.googleapis.com/token",
        "scope": "https://www.googleapis.com/auth/cloudkms",
    });
    assert_eq!(claims, expected);
    assert_eq!(sent[1].url, format!("https://cloudkms.googleapis.com/v1/{KEY_NAME}:encrypt"));
    let bearer = format!("Bearer {ACCESS_TOKEN}");
    assert!(sent[1].headers.contains(&("authorization".to_owned(), bearer)));
    for request in &sent {
        assert!(request.safe && request.timeout > 0);
        assert_eq!(request.tls.as_ref().unwrap().root_certificates.as_deref(), Some("PEM"));
    }
}

#[test]
fn answer_may_name_project_by_its_number() {
    let name = VERSION.replace("orders", "415104041262");
    let host = SealTestHost::answering([token(), encrypted(&name, b"wrapped")]);
    let wrapped = CloudKms::wrap_key(&host, &settings(&[]), &KEY).unwrap();
    assert_eq!(wrapped.key_id, name);
}

#[test]
fn opened_key_names_primary_version() {
    let answers = [token(), decrypted(&KEY), encrypted(NEXT_VERSION, b"probe")];
    let host = SealTestHost::answering(answers);
    let blob = WrappedKey::with_name(VERSION, b"wrapped").blob;
    let opened = CloudKms::unwrap_key(&host, &settings(&[]), &blob).unwrap();
    assert_eq!((opened.key, opened.newest_key_id.as_str()), (KEY.to_vec(), NEXT_VERSION));
    let denied = error(403, "PERMISSION_DENIED", "");
    let host = SealTestHost::answering([token(), decrypted(&KEY), denied]);
    let opened = CloudKms::unwrap_key(&host, &settings(&[]), &blob).unwrap();
    assert_eq!(opened.newest_key_id, VERSION);
    assert_eq!(host.take_lines(), ["newest-key-version-unknown cause=permission-denied"]);
    let host = SealTestHost::answering([token(), decrypted(b"short")]);
    let why = CloudKms::unwrap_key(&host, &settings(&[]), &blob).err().unwrap();
    assert!(why.message.contains("32 bytes") && !why.message.contains("short"), "{why}");
}

#[test]
fn changed_bytes_are_noticed_by_checksum() {
    let body = |change: (&str, Value)| {
        let mut body: Value = serde_json::from_slice(&encrypted(VERSION, b"wrapped").body).unwrap();
        body[change.0] = change.1;
        answer(200, &body)
    };
    for change in [
        ("ciphertextCrc32c", json!("1")),
        ("ciphertext", json!("AAAA")),
        ("verifiedPlaintextCrc32c", json!(false)),
    ] {
        let why = wrap_refusal([token(), body(change)]);
        assert!(why.message.contains("checksum that does not fit"), "{why}");
        assert_eq!(why.kind, FailureKind::Unreachable);
    }
    let other = answer(200, &json!({ "plaintext": "AAAA", "plaintextCrc32c": "7" }));
    let why = unwrap_refusal(other);
    assert!(why.message.contains("checksum that does not fit"), "{why}");
}

#[test]
fn every_refusal_names_cause_and_remedy() {
    use FailureKind::{InvalidRequest, PermissionDenied, Unavailable, Unreachable};
    for (code, status, kind, part) in [
        (301, "", Unavailable, "follows no redirect"),
        (400, "FAILED_PRECONDITION", InvalidRequest, "enable the version"),
        (400, "INVALID_ARGUMENT", InvalidRequest, "purpose ENCRYPT_DECRYPT"),
        (401, "UNAUTHENTICATED", PermissionDenied, "belongs to this endpoint"),
        (403, "PERMISSION_DENIED", PermissionDenied, "useToEncrypt"),
        (403, "SERVICE_DISABLED", PermissionDenied, "enable the API"),
        (404, "NOT_FOUND", InvalidRequest, "has no key"),
        (429, "RESOURCE_EXHAUSTED", Unavailable, "limits the rate"),
        (503, "UNAVAILABLE", Unavailable, "at present (status 503)"),
        (204, "", Unreachable, "status 204"),
    ] {
        let failure = wrap_refusal([token(), error(code, status, "a text of the service")]);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(!failure.message.contains("a text of"), "{failure}");
        assert!(!failure.message.contains(ACCESS_TOKEN), "{failure}");
    }
    let details = json!([{ "reason": "SERVICE_DISABLED" }]);
    let disabled = json!({ "error": { "status": "PERMISSION_DENIED", "details": details } });
    assert!(wrap_refusal([token(), answer(403, &disabled)]).message.contains("enable the API"));
    let quoting = "the caller sent service_disabled";
    let failure = wrap_refusal([token(), error(403, "PERMISSION_DENIED", quoting)]);
    assert!(failure.message.contains("useToEncrypt"), "{failure}");
    for (status, part) in
        [("FAILED_PRECONDITION", "enable or restore"), ("INVALID_ARGUMENT", "did not wrap")]
    {
        let failure = unwrap_refusal(error(400, status, ""));
        assert!(failure.message.contains(part), "{part}: {failure}");
    }
}

#[test]
fn refused_assertion_names_clock_key_or_account() {
    for (status, text, part) in [
        (400, "Invalid JWT: check your iat and exp values", "set the clock"),
        (400, "Token must be short-lived and in a reasonable timeframe.", "set the clock"),
        (400, "Invalid grant: the associated account expired", "does not exist or is disabled"),
        (400, "Invalid JWT Signature.", "the key was deleted"),
        (400, "Invalid grant: account not found", "does not exist or is disabled"),
        (503, "", "no access token at present"),
        (302, "", "follows no redirect"),
        (404, "", "status 404"),
    ] {
        let body = json!({ "error": "invalid_grant", "error_description": text });
        let failure = wrap_refusal([answer(status, &body)]);
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(failure.message.contains("oauth2.googleapis.com"), "{failure}");
        assert!(!failure.message.contains(PRIVATE_KEY), "{failure}");
    }
    let why = wrap_refusal([answer(200, &json!({ "access_token": "" }))]);
    assert!(why.message.contains("without an access token"), "{why}");
}

#[test]
fn answers_of_other_form_are_refused() {
    let page = b"<html><body>Sign in</body></html>".to_vec();
    let html = Response { status: 200, body: page, ..Response::default() };
    for answer in [
        html,
        answer(200, &json!({})),
        answer(200, &json!([1])),
        encrypted(VERSION, b""),
        encrypted("projects/orders", b"wrapped"),
        encrypted(&VERSION.replace("unseal", "another"), b"wrapped"),
        encrypted(&VERSION.replace("/unseal/", "/unseal/cryptoKeyVersions/1/"), b"wrapped"),
        encrypted(&VERSION.replace("global", "europe"), b"wrapped"),
    ] {
        let failure = wrap_refusal([token(), answer]);
        assert!(failure.message.contains("login page"), "{failure}");
        assert!(!failure.message.contains("Sign in"), "{failure}");
    }
}
