//! `bulkhead audit`: devices, and the hashes recorded in place of secrets.

use super::*;

#[test]
fn audit_list_shows_devices_or_reports_none() {
    let device = json!({"type": "file", "description": "", "local": false, "path": "file/",
        "options": {"file_path": "audit.log"}});
    let body = json!({"request_id": "r", "data": {"file/": device}});
    let (ran, (line, _, _)) = against(200, &body, &["audit", "list"], "");
    assert_eq!(line, "GET /v1/sys/audit HTTP/1.1");
    assert_eq!(
        ran.out,
        "Path     Type    Description\n----     ----    -----------\nfile/    file    n/a\n"
    );
    let (ran, _) = against(200, &body, &["audit", "list", "-detailed"], "");
    assert!(ran.out.contains("{\"file_path\":\"audit.log\"}"), "{}", ran.out);
    let (ran, _) = against(200, &body, &["audit", "list", "-format=json"], "");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), body["data"]);
    let (ran, _) = against(200, &json!({"request_id": "r", "data": {}}), &["audit", "list"], "");
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "there is no audit device: nothing is recorded\n")
    );
}

#[test]
fn enable_sends_the_devices_options_as_they_are() {
    let expected = json!({"type": "file", "options": {"file_path": "audit.log", "mode": "0600"}});
    assert_eq!(
        sent(&["audit", "enable", "file", "file_path=audit.log", "mode=0600"]),
        ("PUT /v1/sys/audit/file".to_owned(), expected)
    );
    let (line, body) = sent(&[
        "audit",
        "enable",
        "-path=second/",
        "-description=x",
        "-local",
        "file",
        "file_path=b",
    ]);
    assert_eq!(line, "PUT /v1/sys/audit/second");
    assert_eq!(
        body,
        json!({"type": "file", "description": "x", "local": true, "options": {"file_path": "b"}})
    );
    assert_wrong(&["audit", "enable"], "type: bulkhead");
    assert_wrong(&["audit", "enable", "file", "file_path"], "no equals sign");
}

#[test]
fn disable_names_one_device() {
    assert_eq!(
        sent(&["audit", "disable", "file/"]),
        ("DELETE /v1/sys/audit/file".to_owned(), Value::Null)
    );
    assert_wrong(&["audit", "disable", "/"], "needs a name");
}

#[test]
fn audit_hash_prints_hash_without_input() {
    let body = json!({"request_id": "r", "data": {"hash": "hmac-sha256:9f2c"},
        "hash": "hmac-sha256:9f2c"});
    for (args, stdin, input) in [
        (&["file/", "canary"][..], "", "canary"),
        (&["file", "-"], "canary\n", "canary"),
        (&["file"], "canary", "canary"),
        (&["file", "-"], "canary \r\n", "canary "),
        (&["file", "-"], "-----BEGIN-----\ncanary\n", "-----BEGIN-----\ncanary\n"),
        (&["file", "-"], "", ""),
    ] {
        let (ran, (line, _, sent)) =
            against(200, &body, &[&["audit", "hash"], args].concat(), stdin);
        assert_eq!(line, "POST /v1/sys/audit-hash/file HTTP/1.1");
        assert_eq!(
            serde_json::from_str::<Value>(&sent).unwrap(),
            json!({"input": input}),
            "{args:?}"
        );
        assert!(ran.out.contains("hmac-sha256:9f2c") && !ran.out.contains("canary"), "{}", ran.out);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    assert_wrong(&["audit", "hash"], "type: bulkhead");
    assert_wrong(&["audit", "hash", "/", "x"], "needs a name");
    assert_wrong(&["audit", "hash", "file", "a", "b"], "type: bulkhead");
}
