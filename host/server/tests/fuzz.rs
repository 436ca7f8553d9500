//! Random, nearly valid input of the HTTP parsers: the request line, headers, forms and JSON.

use bulkhead_server::proxies::TrustedProxies;
use bulkhead_server::{headers, target};
use bulkhead_wire::json;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use std::collections::BTreeMap;
use std::net::SocketAddr;

#[test]
fn request_lines() {
    let seeds: [&[u8]; 4] = [
        b"GET /v1/database/creds/reader?list=true",
        b"PUT /v1/sys/mounts/a%20b/tune",
        b"LIST /v1/sys/leases/lookup/a/b/?a=1&a=2&b=%C3%A9+x",
        b"DELETE /v1/auth/token/roles/%2e%2e",
    ];
    bulkhead_fuzz::run(
        "request lines",
        &seeds,
        &["%2F", "%00", "..", "//", "/./", "%", "&&", "=", "list=1", "?"],
        |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let (method, uri) = text.split_once(' ').unwrap_or(("GET", &text));
            let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), uri.parse::<Uri>())
            else {
                return;
            };
            if let Ok(target) = target::read(&method, uri.path(), uri.query()) {
                // Every request is understood or refused.
                let _ = target::query(target.verb, uri.query());
                let parts: Vec<&str> = target.path.split('/').collect();
                let is_canonical = parts.iter().all(|part| !["", ".", ".."].contains(part));
                assert!(
                    is_canonical && !target.path.chars().any(char::is_control),
                    "{:?}",
                    target.path
                );
            }
        },
    );
}

#[test]
fn header_lists() {
    let seeds: [&[u8]; 3] = [
        b"x-vault-token: bhs.a\nauthorization: Bearer bhs.a\n\
          x-forwarded-for: 198.51.100.1, 127.0.0.1",
        b"content-type: application/merge-patch+json; charset=utf-8\nx-vault-namespace: root/",
        b"x-vault-wrap-ttl: 60s\nx-forwarded-for: [2001:db8::1]:80",
    ];
    let proxies = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let words = [
        "\n",
        ": ",
        "x-vault-token",
        "x-forwarded-for: ",
        "Bearer ",
        ",",
        "[",
        "::ffff:127.0.0.1",
        "\u{ff}",
    ];
    bulkhead_fuzz::run("headers", &seeds, &words, |bytes| {
        let mut map = HeaderMap::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let (name, value) =
                line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len()));
            let value = value.strip_prefix(b":").unwrap_or(value);
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                map.append(name, value);
            }
        }
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let failures = [
            headers::check_size(&map).err(),
            headers::refuse_unserved(&map, &BTreeMap::new()).err(),
            headers::check_patch(&map).err(),
            headers::token(&map).err(),
            proxies.client(peer, &map).err(),
        ];
        assert!(failures.into_iter().flatten().all(|failure| failure.message.len() < 1_000));
        let _ = headers::is_form(&map, bytes);
    });
}

#[test]
fn fields() {
    let seeds: [&[u8]; 3] = [
        br#"{"db_name":"d","ttl":null,"policies":["a",1,true,-1.5e3],"meta":{"a":{"b":[]}}}"#,
        b"db_name=d&policies=a&policies=b&x=%C3%A9",
        br#"{"a":"\u00e9\ud83d\ude00","a2":1e400}"#,
    ];
    let words = ["{", "}", "[", "]", "\"", "\\u", ":", ",", "1e999", "{\"a\":", "%", "+", "\0"];
    bulkhead_fuzz::run("fields", &seeds, &words, |bytes| {
        if let Err(why) = json::object(bytes) {
            assert!(why.len() < 1_000, "{why}");
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = target::parameters(text);
        }
    });
}
