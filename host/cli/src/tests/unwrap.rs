//! `unwrap`, and the wrapping token in place of an answer.

use super::*;

pub(super) fn wrapped() -> Value {
    json!({
        "request_id": "", "lease_id": "", "data": null, "auth": null, "warnings": null,
        "wrap_info": {
            "token": "bhs.w", "accessor": "a", "ttl": 60, "creation_time": "2026-01-01T00:00:00Z",
            "creation_path": "secret/x",
        },
    })
}

#[test]
fn wrap_ttl_is_sent_and_wrapping_token_shown() {
    for args in [&["read", "-wrap-ttl=1m", "x"][..], &["list", "-wrap-ttl=1m", "x"]] {
        let (ran, (_, headers, _)) = against(200, &wrapped(), args, "");
        assert!(headers.contains("x-vault-wrap-ttl: 1m"), "{headers}");
        assert!(ran.out.contains("\nwrapping_token                  bhs.w\n"), "{}", ran.out);
        assert!(ran.out.contains("\nwrapping_token_ttl              1m\n"), "{}", ran.out);
    }
    let args = ["write", "-field=wrapping_token", "-wrap-ttl=60", "x", "a=b"];
    assert_eq!(against(200, &wrapped(), &args, "").0.out, "bhs.w");
}

#[test]
fn unwrap_sends_wrapping_token_as_field_or_header() {
    let answer = json!({"request_id": "r", "lease_id": "", "data": {"password": "p"}});
    let (ran, (line, headers, body)) = against(200, &answer, &["unwrap", "bhs.w"], "");
    assert!(line.starts_with("PUT /v1/sys/wrapping/unwrap "), "{line}");
    assert!(headers.contains("x-vault-token: bhs.t"));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({"token": "bhs.w"}));
    assert!(ran.out.contains("password    p"), "{}", ran.out);
    let (ran, (_, _, body)) = against(200, &answer, &["unwrap", "-field=password", "-"], "bhs.w\n");
    assert_eq!((ran.out.as_str(), body.contains("bhs.w")), ("p", true));
    let (_, (_, headers, body)) = against(200, &answer, &["unwrap"], "");
    assert!(headers.contains("x-vault-token: bhs.t") && body == "{}", "{body}");
    let canned = Canned::answering(200, &answer.to_string());
    let address = canned.address.clone();
    let ran = run_with(&["unwrap", "bhs.w"], "", &[("BULKHEAD_ADDR", &address)]);
    let (_, headers, body) = canned.asked_once();
    assert!(ran.code == 0 && headers.contains("x-vault-token: bhs.w") && body == "{}", "{body}");
}
