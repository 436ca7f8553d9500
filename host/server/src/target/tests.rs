//! Tests of request lines.

use super::*;
use serde_json::json;

/// A parsed request line.
#[derive(Debug, PartialEq)]
struct RequestLine {
    verb: Verb,
    path: String,
    fields: Map<String, Value>,
}

fn line(method: &Method, path: &str, query_text: Option<&str>) -> Result<RequestLine, Failure> {
    let RequestTarget { verb, path } = read(method, path, query_text)?;
    let (verb, fields) = query(verb, query_text)?;
    Ok(RequestLine { verb, path, fields })
}

fn get(path: &str, query: &str) -> Result<RequestLine, Failure> {
    line(&Method::GET, path, Some(query))
}

fn status(result: Result<RequestLine, Failure>) -> u16 {
    result.unwrap_err().kind.status()
}

#[test]
fn methods_become_verbs() {
    let verb = |name: &str| {
        read(&Method::from_bytes(name.as_bytes()).unwrap(), "/v1/a/b", None).map(|t| t.verb)
    };
    assert_eq!(verb("GET"), Ok(Verb::Read));
    assert_eq!(verb("HEAD"), Ok(Verb::Read));
    assert_eq!(verb("POST"), Ok(Verb::Write));
    assert_eq!(verb("PUT"), Ok(Verb::Write));
    assert_eq!(verb("PATCH"), Ok(Verb::Patch));
    assert_eq!(verb("DELETE"), Ok(Verb::Delete));
    assert_eq!(verb("LIST"), Ok(Verb::List));
    for unknown in ["OPTIONS", "TRACE", "SCAN", "get"] {
        let failure = verb(unknown).unwrap_err();
        assert_eq!(failure.kind, FailureKind::UnsupportedOperation, "{unknown}");
        assert!(failure.message.contains("unsupported operation"));
    }
}

#[test]
fn paths_outside_v1_are_empty_404() {
    for path in ["/", "/v1", "/v1/", "/v2/sys/health", "/ui", "*", "/V1/sys/health", "/v1x/y"] {
        let failure = get(path, "").unwrap_err();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::NotFound, ""), "{path}");
    }
}

#[test]
fn a_path_is_decoded_once() {
    assert_eq!(get("/v1/database/roles/a%2Db", "").unwrap().path, "database/roles/a-b");
    assert_eq!(get("/v1/database/roles/a%252Fb", "").unwrap().path, "database/roles/a%2Fb");
    assert_eq!(get("/v1/sys/health/", "").unwrap().path, "sys/health");
}

#[test]
fn ambiguous_paths_are_refused() {
    for path in [
        "/v1/a%2fb",
        "/v1/a%2Fb",
        "/v1/a/%2e%2e/b",
        "/v1/a/../b",
        "/v1/a//b",
        "/v1/a%00b",
        "/v1/a%0ab",
        "/v1/a%zz",
        "/v1/a%",
        "/v1/a%2",
        "/v1/%ff",
        "/v1/a/%E2%80%AEb/..",
    ] {
        assert_eq!(status(get(path, "")), 400, "{path}");
    }
}

#[test]
fn a_write_may_not_end_in_a_slash() {
    assert_eq!(status(line(&Method::POST, "/v1/a/b/", None)), 400);
    assert_eq!(line(&Method::DELETE, "/v1/a/b/", None).unwrap().path, "a/b");
}

#[test]
fn list_parameter_of_get_accepts_every_client_spelling() {
    for word in ["true", "True", "1", "t"] {
        let target = get("/v1/a", &format!("list={word}&after=x")).unwrap();
        assert_eq!(
            (target.verb, Value::Object(target.fields)),
            (Verb::List, json!({"after": "x"})),
            "{word}"
        );
    }
    assert_eq!(get("/v1/a", "list=False").unwrap().verb, Verb::Read);
    assert_eq!(status(line(&Method::DELETE, "/v1/a", Some("list=true"))), 405);
    let target = line(&Method::DELETE, "/v1/a", Some("list=false")).unwrap();
    assert_eq!((target.verb, target.fields), (Verb::Delete, Map::new()));
    assert_eq!(status(get("/v1/a", "list=yes")), 400);
    assert_eq!(status(get("/v1/a", "list")), 400);
    assert_eq!(status(get("/v1/a", "list=1&list=0")), 400);
}

#[test]
fn help_and_scan_never_become_a_plain_read() {
    let help = get("/v1/a", "help=1&list=true").unwrap();
    assert_eq!((help.verb, help.path.as_str()), (Verb::Read, "sys/internal/help/a"));
    let method = Method::from_bytes(b"HELP").unwrap();
    assert_eq!(line(&method, "/v1/a", None).unwrap().path, "sys/internal/help/a");
    assert_eq!(status(line(&Method::DELETE, "/v1/a", Some("help=1"))), 405);
    assert_eq!(status(get("/v1/a", "help=maybe")), 400);
    assert_eq!(status(get("/v1/a", "scan=true")), 405);
    assert_eq!(get("/v1/a", "help=0").unwrap().fields, Map::new());
}

#[test]
fn query_parameters_become_fields_of_reads_and_deletes() {
    let fields = Value::Object(get("/v1/a", "x=1&y=a+b%2F&x=2&x=3&flag").unwrap().fields);
    assert_eq!(fields, json!({"x": ["1", "2", "3"], "y": "a b/", "flag": ""}));
    assert_eq!(
        line(&Method::DELETE, "/v1/a", Some("version=2")).unwrap().fields["version"],
        json!("2")
    );
    assert!(line(&Method::POST, "/v1/a", Some("version=2")).unwrap().fields.is_empty());
    assert_eq!(status(get("/v1/a", "x=%ff")), 400);
}

#[test]
fn field_in_query_and_body_has_one_value() {
    let joined = |query: &str, body: Value| {
        let fields = parameters(query).unwrap();
        join_fields(fields, body.as_object().unwrap().clone()).map(Value::Object)
    };
    assert_eq!(joined("a=1&b=2", json!({"c": 3})), Ok(json!({"a": "1", "b": "2", "c": 3})));
    assert_eq!(joined("a=1&b=x", json!({"a": 1, "b": null})), Ok(json!({"a": 1, "b": "x"})));
    assert_eq!(joined("a=true", json!({"a": true})), Ok(json!({"a": true})));
    assert_eq!(joined("a=1&a=2", json!({"a": ["1", "2"]})), Ok(json!({"a": ["1", "2"]})));
    for body in [json!({"a": "2"}), json!({"a": 2}), json!({"a": ["1"]}), json!({"a": {}})] {
        let refused = joined("a=1", body).unwrap_err();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(refused.message.starts_with("\"a\" has different values"), "{}", refused.message);
    }
}

#[test]
fn the_query_of_a_write_is_refused() {
    for none in [None, Some(""), Some("&")] {
        assert_eq!(refuse_query(none), Ok(()));
    }
    for query in ["token=canary", "a", "list=false"] {
        let refused = refuse_query(Some(query)).unwrap_err();
        assert!(!refused.message.contains("canary"), "{}", refused.message);
    }
}

#[test]
fn plain_paths_are_compared_in_one_spelling() {
    for (path, plain) in [
        ("role/x", "role/x"),
        ("r%6fle//./x/", "role/x"),
        ("a/../role%2Fx", "role/x"),
        ("../..", ""),
    ] {
        assert_eq!(plain_path(path).unwrap(), plain, "{path}");
    }
    let refused = plain_path(&"a".repeat(LONGEST_PATH + 1)).unwrap_err();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
}

#[test]
fn query_with_too_many_parameters_is_refused() {
    let many = |count| vec!["a"; count].join("&");
    assert!(get("/v1/a", &many(PARAMETERS_MAX)).is_ok());
    for query in [many(PARAMETERS_MAX + 1), many(32_000)] {
        let failure = get("/v1/a", &query).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidRequest);
        assert!(failure.message.contains("the most is 1000"), "{}", failure.message);
    }
}
