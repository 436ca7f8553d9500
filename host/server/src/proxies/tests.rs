//! Trusted and untrusted `X-Forwarded-For` headers.

use super::*;
use bulkhead_wire::failure::FailureKind;

const PROXY: &str = "10.0.0.1";
const UNTRUSTED_PEER: &str = "203.0.113.9";

fn proxies() -> TrustedProxies {
    TrustedProxies::new(["10.0.0.0/8", "fd00::/8", "192.0.2.7"]).unwrap()
}

/// Returns the client of a request from `peer`, port 4711, with a header line for each of `lines`.
fn resolve_client(peer: &str, lines: &[&str]) -> Result<SocketAddr, Failure> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(HEADER, hyper::header::HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    proxies().client(SocketAddr::new(peer.parse().unwrap(), 4711), &headers)
}

#[track_caller]
fn assert_client(peer: &str, lines: &[&str], expected: &str) {
    let client = resolve_client(peer, lines)
        .unwrap_or_else(|failure| panic!("{lines:?}: {}", failure.message));
    assert_eq!(client.ip().to_string(), expected, "from {peer} with {lines:?}");
}

#[test]
fn peer_without_header_is_client_with_port() {
    for peer in [PROXY, UNTRUSTED_PEER] {
        assert_eq!(
            resolve_client(peer, &[]).unwrap(),
            SocketAddr::new(peer.parse().unwrap(), 4711)
        );
    }
}

#[test]
fn header_from_stranger_is_ignored_in_any_form() {
    for line in ["10.0.0.2", "127.0.0.1", "198.51.100.1, 10.0.0.1", "nonsense", "", "\u{fe}"] {
        let client = resolve_client(UNTRUSTED_PEER, &[line, line]).unwrap();
        assert_eq!(client, SocketAddr::new(UNTRUSTED_PEER.parse().unwrap(), 4711), "{line:?}");
    }
}

#[test]
fn trusted_proxy_header_names_client_without_port() {
    let client = resolve_client(PROXY, &["198.51.100.1"]).unwrap();
    assert_eq!(client, SocketAddr::new("198.51.100.1".parse().unwrap(), 0));
    assert_client("192.0.2.7", &["198.51.100.1"], "198.51.100.1");
    assert_client("192.0.2.8", &["198.51.100.1"], "192.0.2.8");
}

#[test]
fn client_entries_before_own_address_are_ignored() {
    assert_client(PROXY, &["127.0.0.1, 198.51.100.1"], "198.51.100.1");
    assert_client(PROXY, &["10.0.0.7, 198.51.100.1, 10.0.0.2"], "198.51.100.1");
    assert_client(PROXY, &["fd00::1,198.51.100.1"], "198.51.100.1");
    assert_client(PROXY, &["unknown, <script>, 198.51.100.1"], "198.51.100.1");
    assert_client(PROXY, &["\u{fe}", "198.51.100.1"], "198.51.100.1");
    assert_client(PROXY, &["\u{fe},198.51.100.1"], "198.51.100.1");
    let forged = vec!["10.0.0.9"; 2_000].join(", ");
    assert_client(PROXY, &[&forged, "198.51.100.1"], "198.51.100.1");
}

#[test]
fn several_header_lines_form_one_ordered_list() {
    assert_client(PROXY, &["127.0.0.1", "198.51.100.1", "10.0.0.2, 10.0.0.3"], "198.51.100.1");
    assert_client(PROXY, &["198.51.100.1", "198.51.100.2"], "198.51.100.2");
}

#[test]
fn chain_of_only_trusted_proxies_ends_at_first() {
    assert_client(PROXY, &["10.1.1.1, 10.2.2.2"], "10.1.1.1");
}

#[test]
fn hops_come_in_the_forms_that_proxies_write() {
    for (line, client) in [
        ("198.51.100.1:4711", "198.51.100.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:DB8::1]:4711", "2001:db8::1"),
        (" \t198.51.100.1\t ", "198.51.100.1"),
        ("2001:db8::1, fd00::17", "2001:db8::1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("[::ffff:198.51.100.1]:1", "198.51.100.1"),
        ("2001:db8::1, ::ffff:10.0.0.2", "2001:db8::1"),
    ] {
        assert_client(PROXY, &[line], client);
    }
}

#[test]
fn trusted_proxy_without_client_address_is_400() {
    let long = "a".repeat(10_000);
    let chain = vec!["10.0.0.9"; CHAIN_MAX + 1].join(",");
    for line in [
        "",
        "unknown",
        "_hidden",
        "198.51.100.1,",
        ",198.51.100.1,,10.0.0.2",
        "198.51.100.256",
        "0198.51.100.1",
        "198.51.100",
        "198.51.100.1:70000",
        "198.51.100.1/32",
        "2001:db8::1::2",
        "[198.51.100.1]",
        "fe80::1%eth0",
        "\"198.51.100.1\"",
        "for=198.51.100.1",
        "198.51.100.1 10.0.0.1",
        "\u{fe}",
        &long,
        &chain,
    ] {
        let failure = resolve_client(PROXY, &[line]).expect_err(line);
        assert_eq!(failure.kind, FailureKind::InvalidRequest, "{line:?}");
        assert!(
            failure.message.contains("X-Forwarded-For") && failure.message.len() < 400,
            "{}",
            failure.message
        );
    }
    assert_client(PROXY, &[&vec!["10.0.0.9"; CHAIN_MAX].join(",")], "10.0.0.9");
}

#[test]
fn without_trusted_proxies_nobody_speaks_for_another() {
    let mut headers = HeaderMap::new();
    headers.append(HEADER, "198.51.100.1".parse().unwrap());
    let peer = SocketAddr::new(PROXY.parse().unwrap(), 4711);
    assert_eq!(TrustedProxies::default().client(peer, &headers), Ok(peer));
}

#[test]
fn networks_are_networks() {
    assert_eq!(proxies().to_string(), "10.0.0.0/8, fd00::/8, 192.0.2.7/32");
    for (text, says) in [
        ("", "neither an address"),
        ("10.0.0.0/33", "neither an address"),
        ("10.0.0/8", "neither an address"),
        ("proxy.example.com", "neither an address"),
        ("0.0.0.0/0", "every client"),
        ("::/0", "every client"),
        ("10.0.0.5/8", "write \"10.0.0.0/8\""),
        ("::ffff:10.0.0.0/104", "IPv4"),
    ] {
        let why = TrustedProxies::new([text]).unwrap_err();
        assert!(why.starts_with(&quoted(text)) && why.contains(says), "{why}");
    }
}

#[test]
fn unix_client_is_proxy_only_by_socket_setting() {
    let proxies = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let mut headers = HeaderMap::new();
    headers.append(HEADER, hyper::header::HeaderValue::from_static("198.51.100.1"));
    for (is_proxy, expected) in [(false, "127.0.0.1:0"), (true, "198.51.100.1:0")] {
        let client = proxies.client(ConnectionOrigin::Unix { is_proxy }, &headers).unwrap();
        assert_eq!(client.to_string(), expected);
    }
    let client =
        TrustedProxies::default().client(ConnectionOrigin::Unix { is_proxy: true }, &headers);
    assert_eq!(client.unwrap().to_string(), "198.51.100.1:0");
}
