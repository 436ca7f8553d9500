//! Tests of the service: each claim of an assertion is checked, and each checksum.

use super::state::crc32c;
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use time::OffsetDateTime;
use ureq::Agent;

fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}

/// Exchanges an assertion. Returns the status and the text of the answer.
fn exchange(kms: &GcpKms, assertion: &str) -> (u16, String) {
    let grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let form = [("grant_type", grant_type), ("assertion", assertion)];
    let mut answer = agent().post(format!("{}/token", kms.url())).send_form(form).expect("answer");
    let text = answer.body_mut().read_to_string().expect("a text");
    (answer.status().as_u16(), text)
}

/// Returns the claims of a right assertion, with this change.
fn claims(kms: &GcpKms, account: &Account, change: (&str, Value)) -> Value {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let mut claims = json!({
        "iss": account.email, "aud": format!("{}/token", kms.url()), "iat": now, "exp": now + 600,
        "scope": "https://www.googleapis.com/auth/cloudkms",
    });
    claims[change.0] = change.1;
    claims
}

fn call(kms: &GcpKms, token: &str, verb: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}/v1/{KEY_NAME}:{verb}", kms.url());
    let request = agent().post(url).header("authorization", format!("Bearer {token}"));
    let mut answer = request.send(body.to_string()).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a text");
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
}

#[test]
fn assertion_needs_every_claim_and_signature() {
    let kms = GcpKms::start();
    let account = kms.create_account();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for (change, part) in [
        (("iss", json!("other@orders.iam.gserviceaccount.com")), "account not found"),
        (("aud", json!("https://oauth2.googleapis.com/token")), "audience"),
        (("iat", json!(now + 600)), "iat and exp"),
        (("exp", json!(now - 600)), "iat and exp"),
        (("exp", json!(now + 7_200)), "iat and exp"),
        (("scope", json!("https://www.googleapis.com/auth/compute")), "invalid_scope"),
    ] {
        let assertion = account.signer.token(&claims(&kms, &account, change));
        let (status, text) = exchange(&kms, &assertion);
        assert!(status == 400 && text.contains(part), "{part}: {text}");
    }
    let right = claims(&kms, &account, ("sub", Value::Null));
    let forged = Signer::new(&account.signer.kid).token(&right);
    assert!(exchange(&kms, &forged).1.contains("Invalid JWT Signature"));
    assert_eq!(exchange(&kms, &account.signer.token(&right)).0, 200);
    kms.delete_key_of(&account);
    assert!(exchange(&kms, &account.signer.token(&right)).1.contains("Invalid JWT Signature"));
}

#[test]
fn versions_and_checksums_limit_every_request() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let kms = GcpKms::start();
    let account = kms.create_account();
    let right = claims(&kms, &account, ("sub", Value::Null));
    let (_, text) = exchange(&kms, &account.signer.token(&right));
    let token: Value = serde_json::from_str(&text).expect("JSON");
    let token = token["access_token"].as_str().expect("a token").to_owned();
    let plain = json!({
        "plaintext": STANDARD.encode("a key"), "plaintextCrc32c": crc32c(b"a key").to_string(),
    });
    assert_eq!(call(&kms, "invented", "encrypt", &plain).0, 401);
    let (status, first) = call(&kms, &token, "encrypt", &plain);
    assert_eq!(status, 200, "{first}");
    let decrypt = |body: &Value| {
        let body = json!({
            "ciphertext": body["ciphertext"], "ciphertextCrc32c": body["ciphertextCrc32c"],
        });
        call(&kms, &token, "decrypt", &body)
    };
    kms.rotate();
    let (status, opened) = decrypt(&first);
    assert_eq!((status, &opened["usedPrimary"]), (200, &json!(false)));
    assert_eq!(opened["plaintext"], STANDARD.encode("a key"));
    let mut damaged = first.clone();
    damaged["ciphertextCrc32c"] = json!("1");
    assert_eq!(decrypt(&damaged).0, 400);
    kms.disable_version(1);
    assert_eq!(decrypt(&first).1["error"]["status"], "FAILED_PRECONDITION");
    kms.enable_version(1);
    kms.deny(&account, "decrypt");
    assert_eq!(decrypt(&first).0, 403);
}
