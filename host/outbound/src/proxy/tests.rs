//! Tests of the texts for proxies and bypasses.

use super::*;

fn origin(text: &str) -> Origin {
    crate::http::parse_url(text).unwrap().0
}

#[test]
fn proxy_is_host_and_port_without_shown_credentials() {
    for (text, place) in [
        ("http://Proxy.Example:3128", "http://proxy.example:3128"),
        ("http://proxy.example/", "http://proxy.example:80"),
        ("proxy.example:3128", "http://proxy.example:3128"),
        ("[::1]:3128", "http://[::1]:3128"),
    ] {
        let proxy = HttpProxy::parse(text).unwrap();
        assert_eq!((proxy.to_string(), proxy.has_credentials()), (place.to_owned(), false));
    }
    let proxy = HttpProxy::parse("http://us%3Aer:hunter2%21@proxy:3128").unwrap();
    assert!(!format!("{proxy} {proxy:?} {:?}", proxy.authorization).contains("hunter2"));
    let shown = proxy.authorization.unwrap();
    assert_eq!(shown.as_bytes(), format!("Basic {}", STANDARD.encode("us:er:hunter2!")).as_bytes());
    for text in [
        "",
        "https://user:hunter2@proxy:3128",
        "socks5://user:hunter2@proxy",
        "http://user:hunter2@proxy/path",
        "http://user:hunter2@proxy?x",
        "http://user:hunter2@pro xy",
        "http://user:hunter2%0d%0aX: y@proxy",
        "http://:hunter2@proxy",
        "http://user:hunter2@proxy:99999",
    ] {
        let why = HttpProxy::parse(text).unwrap_err();
        assert!(!why.contains("hunter2"), "{why}");
    }
    for credentials in ["user", ":hunter2", "user:hunter2\nmore", ""] {
        let proxy = HttpProxy::parse("http://proxy").unwrap();
        assert!(proxy.with_credentials(credentials.as_bytes()).is_err(), "{credentials:?}");
    }
}

#[test]
fn no_proxy_exempts_domains_ranges_ports_and_loopback() {
    let bypasses = [
        "corp.example",
        ".inside.example",
        "*.far.example:8443",
        "10.0.0.0/8",
        "192.0.2.7",
        "fd00::/8",
        "one.example:444",
    ];
    let bypasses = bypasses.map(|text| ProxyBypass::parse(text).unwrap()).to_vec();
    let outbound =
        OutboundNetwork::new(HttpProxy::parse("http://proxy:3128").ok(), bypasses, Vec::new())
            .unwrap();
    for (url, is_proxied) in [
        ("https://corp.example", false),
        ("https://a.CORP.example.", false),
        ("https://evilcorp.example", true),
        ("https://inside.example", true),
        ("https://a.b.inside.example", false),
        ("https://a.far.example", true),
        ("https://a.far.example:8443", false),
        ("http://10.9.8.7", false),
        ("http://[::ffff:10.9.8.7]", false),
        ("https://11.0.0.1", true),
        ("https://192.0.2.7:9", false),
        ("https://[fd00::1]", false),
        ("https://one.example", true),
        ("https://one.example:444", false),
        ("https://login.example", true),
        ("http://localhost:9", false),
        ("http://127.9.9.9", false),
        ("http://[::1]", false),
    ] {
        assert_eq!(outbound.proxy_to(&origin(url)).is_some(), is_proxied, "{url}");
    }
    let everything = vec![ProxyBypass::parse("*").unwrap()];
    let outbound =
        OutboundNetwork::new(HttpProxy::parse("proxy:1").ok(), everything, Vec::new()).unwrap();
    assert!(outbound.proxy_to(&origin("https://login.example")).is_none());
    for text in ["", "a b", "10.0.0.0/33", "host:0", "host:x", "a/b", "*x"] {
        let why = ProxyBypass::parse(text).unwrap_err();
        assert!(why.starts_with(&quoted(text)), "{why}");
    }
}

#[test]
fn invalid_authority_error_gives_its_index() {
    let authority = include_bytes!("../http/fixtures/authority.pem");
    let mut authorities = bulkhead_tls::pem::certificates(authority).unwrap();
    authorities.push(CertificateDer::from(vec![1, 2, 3]));
    assert_eq!(OutboundNetwork::new(None, Vec::new(), authorities).unwrap_err(), 2);
}
