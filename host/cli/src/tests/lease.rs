//! `bulkhead lease`: a single lease in the body, many leases by their prefix.

use super::*;

#[test]
fn renew_sends_the_increment_that_was_typed() {
    let body = json!({"request_id": "r", "lease_id": "l", "lease_duration": 90, "renewable": true,
        "data": null});
    let (ran, (line, _, sent)) =
        against(200, &body, &["lease", "renew", "-increment=90s", "l"], "");
    assert_eq!(
        (line.as_str(), sent.as_str()),
        ("PUT /v1/sys/leases/renew HTTP/1.1", r#"{"increment":"90s","lease_id":"l"}"#)
    );
    assert!(ran.out.contains("lease_duration     1m30s\n"), "{}", ran.out);
    assert_eq!(against(200, &body, &["lease", "renew", "l"], "").1.2, r#"{"lease_id":"l"}"#);
}

#[test]
fn list_is_below_the_prefix_that_was_typed() {
    let body = json!({"request_id": "r", "data": {"keys": ["reader/"]}});
    let (ran, (line, _, _)) = against(200, &body, &["lease", "list", "database/creds/"], "");
    assert_eq!(line, "GET /v1/sys/leases/lookup/database/creds?list=true HTTP/1.1");
    assert_eq!(ran.out, "Keys\n----\nreader/\n");
    let (_, (line, _, _)) = against(200, &body, &["lease", "list"], "");
    assert_eq!(line, "GET /v1/sys/leases/lookup?list=true HTTP/1.1");
}

#[test]
fn revoke_applies_to_one_lease_or_whole_prefix() {
    let lease = json!({"lease_id": "d/creds/x/1"});
    let expected = |path: &str, body: Value| (format!("PUT /v1/sys/leases/{path}"), body);
    assert_eq!(sent(&["lease", "revoke", "d/creds/x/1"]), expected("revoke", lease));
    let queued = json!({"lease_id": "l", "sync": false});
    assert_eq!(sent(&["lease", "revoke", "-sync=false", "l"]), expected("revoke", queued));
    assert_eq!(
        sent(&["lease", "revoke", "-prefix", "d/creds/"]),
        expected("revoke-prefix/d/creds", json!({}))
    );
    let waited = json!({"sync": true});
    assert_eq!(
        sent(&["lease", "revoke", "-sync", "-prefix", "d"]),
        expected("revoke-prefix/d", waited)
    );
    assert_eq!(
        sent(&["lease", "revoke", "-f", "-prefix", "d/creds"]),
        expected("revoke-force/d/creds", json!({}))
    );
}

#[test]
fn revoke_reports_completed_or_queued() {
    let (ran, _) = against(204, &Value::Null, &["lease", "revoke", "l"], "");
    assert_eq!(ran.out, "revoked: l\n");
    let (ran, _) = against(204, &Value::Null, &["lease", "revoke", "-prefix", "d/"], "");
    assert_eq!(ran.out, "revoked: every lease below d/\n");
    let (ran, _) = against(202, &Value::Null, &["lease", "revoke", "-sync=false", "l"], "");
    assert_eq!((ran.code, ran.out.as_str()), (0, "will be revoked soon: l\n"));
}

#[test]
fn forced_or_total_revoke_requires_explicit_options() {
    assert_wrong(&["lease", "revoke", "-force", "d/creds/x/1"], "-prefix");
    assert_wrong(&["lease", "revoke", "-force", "-prefix", "-sync=false", "d"], "-sync");
    for prefix in ["", "/", "//"] {
        assert_wrong(&["lease", "revoke", "-prefix", prefix], "needs a name");
        assert_wrong(&["lease", "revoke", "-force", "-prefix", prefix], "needs a name");
    }
    assert_wrong(&["lease", "revoke", "-prefix"], "type: bulkhead");
}
