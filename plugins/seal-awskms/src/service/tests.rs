//! Tests of requests, and of each refusal of the service.

use super::*;
use crate::AwsKms;
use crate::fixture::{ARN, KEY, SECRET, answer, encrypted, settings};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealPlugin;
use bulkhead_sdk::testbed::SealTestHost;
use serde_json::{Value, json};

/// 30 August 2015, 12:36:00.
const TIME: u64 = 1_440_938_160_000;

/// Returns the failure of `wrap_key` after this answer.
fn wrap_refusal(answer: Response) -> Failure {
    let host = SealTestHost::answering([answer]);
    AwsKms::wrap_key(&host, &settings(&[]), &KEY).unwrap_err()
}

fn unwrap_refusal(answer: Response) -> Failure {
    let host = SealTestHost::answering([answer]);
    AwsKms::unwrap_key(&host, &settings(&[]), b"wrapped").err().unwrap()
}

fn error(status: u16, kind: &str, message: &str) -> Response {
    answer(status, &json!({ "__type": kind, "message": message }))
}

#[test]
fn request_is_signed_with_every_header() {
    let host = SealTestHost::answering([encrypted(ARN, b"wrapped")]).at(TIME);
    let changed =
        settings(&[("session_token", json!("FwoGZXIvYXdz")), ("tls_ca_cert", json!("PEM"))]);
    AwsKms::wrap_key(&host, &changed, &KEY).unwrap();
    let sent = host.take_requests();
    let request = &sent[0];
    assert_eq!(request.method, "POST");
    assert_eq!(request.url, "https://kms.eu-central-1.amazonaws.com/");
    let header = |name: &str| {
        let found = request.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    assert_eq!(header("x-amz-target"), "TrentService.Encrypt");
    assert_eq!(header("x-amz-date"), "20150830T123600Z");
    assert_eq!(header("x-amz-security-token"), "FwoGZXIvYXdz");
    assert_eq!(header("content-type"), "application/x-amz-json-1.1");
    assert_eq!(header("host"), "", "the host writes this header");
    let authorization = header("authorization");
    let scope = "Credential=AKIAIOSFODNN7EXAMPLE/20150830/eu-central-1/kms/aws4_request";
    assert!(authorization.contains(scope), "{authorization}");
    let signed = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target";
    assert!(authorization.contains(&format!("SignedHeaders={signed},")), "{authorization}");
    assert!(request.safe && request.timeout > 0);
    assert_eq!(request.tls.as_ref().unwrap().root_certificates.as_deref(), Some("PEM"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let plaintext = body["Plaintext"].as_str().unwrap();
    for secret in [plaintext, SECRET, "FwoGZXIvYXdz"] {
        assert!(request.secrets.iter().any(|declared| declared == secret), "{secret}");
    }
}

#[test]
fn every_refusal_names_cause_and_remedy() {
    use FailureKind::{InvalidRequest, PermissionDenied, Unavailable, Unreachable};
    for (status, error_kind, kind, part) in [
        (400, "AccessDeniedException", PermissionDenied, "allow kms:Encrypt"),
        (400, "UnrecognizedClientException", PermissionDenied, "access_key does not exist"),
        (400, "ExpiredTokenException", PermissionDenied, "session_token has ended"),
        (400, "InvalidSignatureException", PermissionDenied, "does not belong to access_key"),
        (400, "com.amazonaws.kms#NotFoundException", InvalidRequest, "does not exist in region"),
        (400, "DisabledException", InvalidRequest, "enable the key"),
        (400, "KMSInvalidStateException", InvalidRequest, "cancel the deletion"),
        (400, "InvalidKeyUsageException", InvalidRequest, "SYMMETRIC_DEFAULT"),
        (400, "ValidationException", InvalidRequest, "check kms_key_id"),
        (400, "ThrottlingException", Unavailable, "limits the rate"),
        (429, "", Unavailable, "limits the rate"),
        (500, "KMSInternalException", Unavailable, "at present (status 500)"),
        (503, "", Unavailable, "at present (status 503)"),
        (307, "", Unavailable, "follows no redirect"),
        (403, "Forbidden", Unreachable, "status 403"),
        (204, "", Unreachable, "status 204"),
    ] {
        let failure = wrap_refusal(error(status, error_kind, "a text of the service"));
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(failure.message.contains("https://kms.eu-central-1.amazonaws.com"), "{failure}");
        assert!(!failure.message.contains("a text of"), "{failure}");
        assert!(!failure.message.contains(SECRET), "{failure}");
    }
}

#[test]
fn refusal_by_clock_names_clock() {
    for message in
        ["Signature expired: 20150830T123600Z is now earlier", "Signature not yet current"]
    {
        let failure = wrap_refusal(error(400, "InvalidSignatureException", message));
        assert!(failure.message.contains("set the clock"), "{failure}");
    }
    let quoting = "The signature does not match; the Canonical String is 'POST /expired'";
    let failure = wrap_refusal(error(400, "InvalidSignatureException", quoting));
    assert!(failure.message.contains("secret_key does not belong"), "{failure}");
}

#[test]
fn refused_decryption_names_wrapping_key() {
    for (kind, part) in [
        ("InvalidCiphertextException", "wrapped the seal key"),
        ("IncorrectKeyException", "wrapped the seal key"),
        ("DisabledException", "the key that wrapped the seal key is disabled"),
        ("AccessDeniedException", "allow kms:Decrypt"),
    ] {
        let failure = unwrap_refusal(error(400, kind, ""));
        assert!(failure.message.contains(part), "{part}: {failure}");
        assert!(!failure.message.contains("alias/bulkhead"), "{failure}");
    }
}

#[test]
fn answers_of_other_form_are_refused() {
    let page = b"<html><body>Sign in</body></html>".to_vec();
    let html = Response { status: 200, body: page, ..Response::default() };
    for answer in [
        html,
        answer(200, &json!({})),
        answer(200, &json!([1])),
        answer(200, &json!({ "KeyId": ARN, "CiphertextBlob": 7 })),
        answer(200, &json!({ "KeyId": ARN, "CiphertextBlob": "%%" })),
        encrypted(ARN, b""),
        encrypted("alias/bulkhead", b"wrapped"),
        encrypted("arn:aws:iam:eu-central-1:111122223333:key/1", b"wrapped"),
        encrypted("arn:aws:kms:eu-central-1:111122223333:alias/a", b"wrapped"),
        encrypted(&format!("{ARN}{}", "0".repeat(256)), b"wrapped"),
        encrypted(&format!("{ARN} "), b"wrapped"),
    ] {
        let failure = wrap_refusal(answer);
        assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
        assert!(failure.message.contains("login page"), "{failure}");
        assert!(!failure.message.contains("Sign in"), "{failure}");
    }
    let failure = unwrap_refusal(answer(200, &json!({ "KeyId": "k", "Plaintext": "AAAA" })));
    assert!(failure.message.contains("login page"), "{failure}");
}

#[test]
fn unreachable_service_keeps_failure_of_host() {
    let why = Failure::new(FailureKind::Unreachable, "https://kms.example: refused");
    let host = SealTestHost::failing(why.clone());
    assert_eq!(AwsKms::check_health(&host, &settings(&[])), Err(why));
}
