//! Valid and invalid addresses, and the form of a request.

use super::*;
use serde_json::json;

#[test]
fn an_address_is_a_host_and_a_port() {
    for (address, shown) in [
        ("http://127.0.0.1:8200", "http://127.0.0.1:8200"),
        ("http://127.0.0.1:8200/", "http://127.0.0.1:8200"),
        ("http://vault.example", "http://vault.example:80"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("https://a:8200", "https://a:8200"),
        ("https://vault.example/", "https://vault.example:443"),
        ("unix:///run/b.sock", "unix:///run/b.sock"),
    ] {
        assert_eq!(ServerAddress::parse(address).unwrap().to_string(), shown);
    }
}

#[test]
fn unusable_address_error_shows_valid_address() {
    for address in [
        "",
        "127.0.0.1:8200",
        "localhost",
        "ftp://a:1",
        "http://a:1/v1",
        "http://a:1?x",
        "http://",
        "a b",
    ] {
        assert!(
            ServerAddress::parse(address).unwrap_err().contains("http://127.0.0.1:8200"),
            "{address}"
        );
    }
    assert!(ServerAddress::parse("unix://run/b.sock").unwrap_err().contains("no whole path"));
    let error = ServerAddress::parse("http://me:canary@a:1").unwrap_err();
    assert!(error.contains("user name") && !error.contains("canary"), "{error}");
}

#[test]
fn names_are_escaped_and_cannot_leave_their_place() {
    let call = ServerRequest {
        query: vec![
            ("list".to_owned(), "true".to_owned()),
            ("a&b".to_owned(), "x=y z#".to_owned()),
        ],
        ..ServerRequest::new(Method::GET, "/database/roles/a?b#c %2f\r\nx: y/")
    };
    assert_eq!(
        call.target(),
        "/v1/database/roles/a%3Fb%23c%20%252f%0D%0Ax%3A%20y?list=true&a%26b=x%3Dy%20z%23"
    );
}

#[test]
fn request_carries_token_as_sensitive_header() {
    let server = ServerAddress::parse("http://a:1").unwrap();
    let caller = RequestCaller {
        token: Some(Secret::new("canary")),
        namespace: Some("root".to_owned()),
        headers: Vec::new(),
    };
    let request = build_request(
        &server,
        &caller,
        &ServerRequest::new(Method::PUT, "x").with_fields(json!({"a": 1})),
    )
    .unwrap();
    assert_eq!(request.headers()["x-vault-token"], "canary");
    assert_eq!(request.headers()["x-vault-namespace"], "root");
    assert_eq!(request.headers()["content-type"], "application/json");
    assert!(!format!("{request:?}").contains("canary"));
}

#[test]
fn non_json_answer_is_reported_as_invalid() {
    let server = ServerAddress::parse("http://a:1").unwrap();
    let refused = parse_answer(200, b"<html>", &server);
    assert!(matches!(refused, Err(AskError::InvalidAnswer(why)) if why.contains("http://a:1")));
    assert_eq!(
        parse_answer(204, b"", &server),
        Ok(ServerAnswer { status: 204, body: Value::Null })
    );
}

#[test]
fn missing_server_is_reported_unreachable_with_advice() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = ServerAddress::parse(&format!("http://{free}")).unwrap();
    let caller = RequestCaller { token: None, namespace: None, headers: Vec::new() };
    let error = ask(
        (&server, &TlsTrust::default()),
        &caller,
        &ServerRequest::new(Method::GET, "x"),
        &|_| true,
    )
    .unwrap_err();
    assert!(matches!(error, AskError::Unreachable(why) if why.contains("is the server running?")));
}
