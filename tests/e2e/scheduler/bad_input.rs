//! Refusals of the scheduler's API: the contract's status and text, and nothing stored.

use super::{assert_refused, bed, id, role};
use bulkhead_tests::scheduler::{PlainRequest, Scheduler};
use serde_json::{Value, json};

#[track_caller]
fn assert_unchanged(scheduler: &Scheduler, before: &Value) {
    assert_eq!(scheduler.manage("GET", "/v1/acl/roles", &Value::Null).json(), *before);
}

#[test]
fn bad_roles_are_refused_with_every_reason() {
    let scheduler = bed();
    let created_role = role(&scheduler, "made");
    let before = scheduler.manage("GET", "/v1/acl/roles", &Value::Null).json();
    let link = json!([{ "Name": "readonly" }]);
    for (body, text) in [
        (json!({ "Name": "a_b", "Policies": link }), "* invalid name 'a_b'"),
        (json!({ "Name": "", "Policies": link }), "* invalid name ''"),
        (json!({ "Name": "é", "Policies": link }), "* invalid name 'é'"),
        (json!({ "Name": "a".repeat(129), "Policies": link }), "* invalid name 'aaa"),
        (json!({ "Name": "x", "Description": "d".repeat(257) }), "* description longer than 256"),
        (json!({ "Name": "x", "Policies": [null] }), "policy link must not be null"),
        (json!({ "Name": "x", "Policies": [{ "Name": "none" }] }), "cannot find policy none"),
        (json!({ "Name": "x", "Policies": [{ "Name": "" }] }), "cannot find policy "),
        (json!({ "Name": "made", "Policies": link }), "role with name made already exists"),
        (json!({ "ID": "nope", "Name": "x", "Policies": link }), "cannot find role nope"),
        (json!({ "Name": 7 }), "name"),
        (json!([]), "list"),
        (Value::Null, "Request body is empty"),
    ] {
        let answer = scheduler.ask("PUT", "/v1/acl/role", &scheduler.management, &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().to_lowercase().contains(&text.to_lowercase()), "{}", answer.text());
    }
    let path = format!("/v1/acl/role/{}", id(&created_role));
    let other = json!({ "ID": "other", "Name": "x", "Policies": link });
    let answer = scheduler.ask("PUT", &path, &scheduler.management, &other);
    assert_refused(&answer, 400, "ACL role ID does not match request path");
    assert_unchanged(&scheduler, &before);
}

#[test]
fn malformed_queries_are_refused_before_token_check() {
    let scheduler = bed();
    for (query, status, text) in [
        ("index=abc", 400, "Invalid index"),
        ("index=-1", 400, "Invalid index"),
        ("wait=5", 400, "Invalid wait time"),
        ("stale=maybe", 400, "Expect `true` or `false` for `stale` query string parameter"),
        ("per_page=x", 400, "Expect a number for `per_page` query string parameter"),
        ("region=nowhere", 500, "No path to region"),
    ] {
        let path = format!("/v1/acl/roles?{query}");
        assert_refused(&scheduler.ask("GET", &path, "nope", &Value::Null), status, text);
    }
    let prefix = "invalid prefix: must be an even number of hexadecimal characters";
    for bad in ["a", "zz", "ab-----"] {
        let path = format!("/v1/acl/roles?prefix={bad}");
        assert_refused(&scheduler.ask("GET", &path, "", &Value::Null), 400, prefix);
    }
}

#[test]
fn wrong_paths_and_methods_get_original_scheduler_refusals() {
    let scheduler = bed();
    for (method, path, status, text) in [
        ("DELETE", "/v1/acl/roles", 405, "Invalid method"),
        ("PATCH", "/v1/acl/role", 405, "Invalid method"),
        ("GET", "/v1/acl/role", 405, "Invalid method"),
        ("GET", "/v1/acl/role/", 400, "missing ACL role ID"),
        ("GET", "/v1/acl/role/name/", 400, "missing ACL role name"),
        ("PUT", "/v1/acl/role/name/x", 405, "Invalid method"),
        ("GET", "/v1/acl/role/x/y", 400, "invalid URI"),
        ("DELETE", "/v1/acl/role/x/y/z", 400, "invalid URI"),
        ("GET", "/v1/acl/policy/", 400, "Missing Policy Name"),
        ("GET", "/v1/acl/token/", 400, "Missing Token Accessor"),
    ] {
        assert_refused(&scheduler.ask(method, path, "nope", &Value::Null), status, text);
    }
    for path in ["/v1/acl/roles/", "/v1/nothing", "/", "/v2/acl/roles"] {
        let answer = scheduler.ask("GET", path, "", &Value::Null);
        assert_eq!((answer.status, answer.text().as_str()), (404, ""), "{path}");
    }
    for (path, clean) in [
        ("/v1//acl/roles", "/v1/acl/roles"),
        ("/v1/acl/role/../roles?prefix=ab", "/v1/acl/roles?prefix=ab"),
        ("/v1/acl/%2e/roles", "/v1/acl/roles"),
    ] {
        let answer = scheduler.ask("GET", path, "", &Value::Null);
        assert_eq!((answer.status, answer.header("location")), (307, Some(clean)), "{path}");
    }
    let head = PlainRequest::new("HEAD", "/v1/acl/roles").send(scheduler.address());
    assert_eq!((head.status, head.body.len()), (405, 0));
}

#[test]
fn unserved_acl_endpoints_say_so() {
    let scheduler = bed();
    for (path, noun) in [
        ("auth-methods", "auth methods"),
        ("auth-method", "auth methods"),
        ("auth-method/name", "auth methods"),
        ("binding-rules", "binding rules"),
        ("binding-rule", "binding rules"),
        ("binding-rule/id", "binding rules"),
        ("login", "logins by auth methods"),
        ("oidc/auth-url", "logins by auth methods"),
        ("oidc/complete-auth", "logins by auth methods"),
        ("token/onetime", "one-time tokens"),
        ("token/onetime/exchange", "one-time tokens"),
        ("identity/client-introduction-token", "introduction tokens of clients"),
    ] {
        let text = format!(
            "{noun} are not served here; served are the ACL endpoints bootstrap, policies, roles \
             and tokens"
        );
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let path = format!("/v1/acl/{path}");
            assert_refused(&scheduler.ask(method, &path, "", &json!({})), 404, &text);
        }
    }
}

#[test]
fn body_over_one_mebibyte_is_refused_as_text() {
    let scheduler = bed();
    let large = json!({ "Name": "x", "Description": "d".repeat(1 << 20) });
    let answer = scheduler.ask("PUT", "/v1/acl/role", &scheduler.management, &large);
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn answers_have_headers_indentation_and_compression_as_asked() {
    let scheduler = bed();
    role(&scheduler, "shown");
    let list = scheduler.manage("GET", "/v1/acl/roles?pretty", &Value::Null);
    assert!(list.text().starts_with("[\n    {\n        \"CreateIndex\""), "{}", list.text());
    for name in ["index", "lastcontact", "knownleader"] {
        let header_of =
            |prefix: &str| list.header(&format!("x-{prefix}-{name}")).map(str::to_owned);
        assert!(
            header_of("nomad").is_some() && header_of("nomad") == header_of("scheduler"),
            "{name}"
        );
    }
    assert_eq!(list.header("vary"), Some("Accept-Encoding"));
    let request = PlainRequest::new("GET", "/v1/acl/roles").with_token(&scheduler.management);
    let packed = request.clone().with_header("Accept-Encoding", "gzip").send(scheduler.address());
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.starts_with(&[0x1f, 0x8b]), "gzip begins with its two bytes");
    let plain = request.with_header("Accept-Encoding", "gzip;q=0").send(scheduler.address());
    assert_eq!((plain.header("content-encoding"), plain.status), (None, 200));
    let done = scheduler.manage("DELETE", "/v1/acl/policy/none", &Value::Null);
    assert_eq!((done.body.len(), done.header("content-type")), (0, None));
    assert_eq!(done.header("x-nomad-knownleader"), None, "writes tell their index alone");
}
