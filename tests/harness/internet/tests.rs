//! Tests of the proxy by plain HTTP.

use super::*;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Returns the whole answer to a GET.
fn get(internet: &Internet, url: &str) -> String {
    let mut stream = TcpStream::connect(internet.address).unwrap();
    let host = url.split('/').nth(2).unwrap();
    let head = format!("GET {url} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn site_or_injected_fault_answers_for_host() {
    let internet = Internet::start();
    internet.serve("api.example", |request| {
        Response::json(200, &json!({ "path": request.path, "x": request.query("x") }))
    });
    let ask = |path: &str| get(&internet, &format!("http://api.example{path}"));
    assert!(ask("/a?x=1%202").ends_with(r#"{"path":"/a","x":"1 2"}"#));
    assert!(get(&internet, "http://other.example/").starts_with("HTTP/1.1 502"));
    internet.fail("api.example", "/a", Fault::RetryAfter(429, 3), 1);
    internet.fail("api.example", "/a", Fault::Redirect("https://evil.example/".to_owned()), 1);
    internet.fail("api.example", "/a", Fault::Truncate, 1);
    assert!(ask("/b").starts_with("HTTP/1.1 200"));
    let limited = ask("/a");
    assert!(limited.starts_with("HTTP/1.1 429") && limited.contains("retry-after: 3"), "{limited}");
    assert!(ask("/a").starts_with("HTTP/1.1 302"));
    let half = ask("/a");
    assert!(half.starts_with("HTTP/1.1 200") && !half.ends_with('}'), "{half}");
    assert!(ask("/a").ends_with('}'));
    assert_eq!(internet.asked("api.example").len(), 6);
    internet.want_credentials("user:pass");
    assert!(ask("/a").starts_with("HTTP/1.1 407"));
    assert_eq!(internet.asked("api.example").len(), 6, "a refused client sends no request");
}
