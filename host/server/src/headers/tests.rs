//! Tests of `headers.rs`.

use super::*;

fn refuse_unserved(headers: &HeaderMap) -> Result<(), Failure> {
    super::refuse_unserved(headers, &BTreeMap::from([("x-vault-audited".to_owned(), true)]))
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (name.parse().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        })
        .collect()
}

/// Builds a map with several values of the same header, which `collect` would replace.
fn repeated(name: &'static str, values: &[&str]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for value in values {
        map.append(name, value.parse().unwrap());
    }
    map
}

fn found(pairs: &[(&'static str, &str)]) -> Option<String> {
    token(&headers(pairs)).unwrap().map(|token| token.expose().to_owned())
}

#[test]
fn a_request_names_its_server_once() {
    let checked = |version: Version, uri: &str, hosts: &[&str]| {
        let mut request = hyper::Request::builder().uri(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check_server(&request.body(()).unwrap().into_parts().0).map_err(|failure| failure.kind)
    };
    assert_eq!(checked(Version::HTTP_11, "/v1/a", &["x"]), Ok(()));
    assert_eq!(checked(Version::HTTP_10, "/v1/a", &[]), Ok(()));
    assert_eq!(checked(Version::HTTP_11, "/v1/a", &[]), Err(FailureKind::InvalidRequest));
    for version in [Version::HTTP_10, Version::HTTP_11] {
        assert_eq!(checked(version, "/v1/a", &["x", "x"]), Err(FailureKind::InvalidRequest));
        assert_eq!(checked(version, "http://x/v1/a", &["x"]), Err(FailureKind::InvalidRequest));
        assert_eq!(checked(version, "x:443", &["x"]), Err(FailureKind::InvalidRequest));
    }
}

#[test]
fn http2_authority_and_host_name_one_server() {
    let checked = |method: &str, uri: &str, hosts: &[&str]| {
        let mut request =
            hyper::Request::builder().method(method).uri(uri).version(Version::HTTP_2);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check_server(&request.body(()).unwrap().into_parts().0).is_ok()
    };
    assert!(checked("GET", "https://x:8200/v1/a", &[]));
    assert!(checked("GET", "https://x:8200/v1/a", &["X:8200"]));
    assert!(checked("GET", "/v1/a", &["x"]));
    assert!(!checked("GET", "https://x/v1/a", &["y"]));
    assert!(!checked("GET", "https://x/v1/a", &["x", "x"]));
    assert!(!checked("GET", "/v1/a", &[]));
    assert!(!checked("CONNECT", "x:443", &[]));
}

#[test]
fn each_of_the_three_headers_carries_a_token() {
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[("x-vault-token", "bhs.a")]).as_deref(), Some("bhs.a"));
    assert_eq!(found(&[("x-secrets-token", "bhs.b")]).as_deref(), Some("bhs.b"));
    assert_eq!(found(&[("authorization", "Bearer bhs.c")]).as_deref(), Some("bhs.c"));
    assert_eq!(found(&[("authorization", "bearer   bhs.c")]).as_deref(), Some("bhs.c"));
}

#[test]
fn empty_headers_and_other_schemes_carry_none() {
    assert_eq!(found(&[("x-vault-token", ""), ("authorization", "Bearer ")]), None);
    assert_eq!(found(&[("authorization", "Basic Zm9vOmJhcg==")]), None);
    assert_eq!(found(&[("authorization", "Bearertoken")]), None);
    assert_eq!(found(&[("x-vault-token", ""), ("x-secrets-token", "t")]).as_deref(), Some("t"));
}

#[test]
fn repeated_token_counts_once_and_two_are_refused() {
    assert_eq!(
        found(&[("x-vault-token", "t"), ("authorization", "Bearer t")]).as_deref(),
        Some("t")
    );
    for map in [
        headers(&[("x-vault-token", "canary-one"), ("x-secrets-token", "canary-two")]),
        headers(&[("x-vault-token", "canary-one"), ("authorization", "Bearer canary-two")]),
        repeated("x-vault-token", &["canary-one", "canary-two"]),
    ] {
        let failure = token(&map).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidRequest);
        assert!(!failure.message.contains("canary"), "{}", failure.message);
    }
}

#[test]
fn unprintable_token_is_passed_on_for_recorded_refusal() {
    for raw in ["canary one", "canary\tone", "canaryé"] {
        assert!(token(&headers(&[("x-vault-token", raw)])).unwrap().is_some(), "{raw}");
    }
}

#[test]
fn accept_header_of_collector_prefers_text_of_metrics() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;\
        q=0.3,*/*;q=0.2";
    for (accept, is_text) in [
        (prometheus, true),
        ("Text/Plain; q=0.5; version=0.0.4", true),
        ("prometheus/telemetry", true),
        ("application/vnd.google.protobuf;q=1, application/openmetrics-text;q=0.5", true),
        ("text/plain", false),
        ("text/plain;version=1.0.0", false),
        ("application/json, */*", false),
        ("", false),
    ] {
        assert_eq!(prefers_metrics_text(&headers(&[("accept", accept)])), is_text, "{accept}");
    }
    assert!(!prefers_metrics_text(&headers(&[])));
}

#[test]
fn only_the_root_namespace_exists() {
    for name in ["", "/", "root", "root/"] {
        assert_eq!(refuse_unserved(&headers(&[("x-vault-namespace", name)])), Ok(()), "{name}");
    }
    for name in ["team-a", "root/team-a", "Root"] {
        let failure = refuse_unserved(&headers(&[("x-vault-namespace", name)])).unwrap_err();
        assert!(
            failure.kind == FailureKind::InvalidRequest && failure.message.contains(name),
            "{}",
            failure.message
        );
    }
    assert!(refuse_unserved(&repeated("x-vault-namespace", &["root", "team-a"])).is_err());
}

#[test]
fn wrapping_request_is_read_or_refused_never_ignored() {
    let read_ttl = |ttl: &str| wrap_ttl(&headers(&[("x-vault-wrap-ttl", ttl)]));
    for (ttl, seconds) in [("60", 60), ("60s", 60), ("1h", 3_600), (" 1m30s ", 90), ("1d", 86_400)]
    {
        assert_eq!(read_ttl(ttl), Ok(Some(seconds)), "{ttl}");
    }
    for ttl in ["0", "0s", "500ms", "-1", "-5s", "soon", "1h;", "99999999999"] {
        let refused = read_ttl(ttl).unwrap_err();
        assert!(refused.message.contains("X-Vault-Wrap-TTL"), "{ttl}: {}", refused.message);
    }
    assert_eq!(wrap_ttl(&headers(&[])), Ok(None));
    assert_eq!(read_ttl(""), Ok(None));
    assert_eq!(wrap_ttl(&repeated("x-vault-wrap-ttl", &["60", "1m"])), Ok(Some(60)));
    assert!(wrap_ttl(&repeated("x-vault-wrap-ttl", &["60", "61"])).is_err());
}

#[test]
fn each_header_is_read_under_each_prefix() {
    for prefix in PREFIXES {
        let sent = |rest: &str, value: &str| {
            let name: hyper::header::HeaderName = format!("{prefix}{rest}").parse().unwrap();
            HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
        };
        assert_eq!(wrap_ttl(&sent("wrap-ttl", "1m")), Ok(Some(60)), "{prefix}");
        assert!(refuse_of_plain_http(&sent("wrap-ttl", "1m")).is_err(), "{prefix}");
        assert!(token(&sent("token", "bhs.a")).unwrap().is_some(), "{prefix}");
        assert!(refuse_unserved(&sent("namespace", "team")).is_err(), "{prefix}");
        assert!(refuse_unserved(&sent("wrap-tll", "60")).is_err(), "{prefix}");
    }
    let two = headers(&[("x-vault-wrap-ttl", "60"), ("x-bulkhead-wrap-ttl", "61")]);
    assert!(wrap_ttl(&two).is_err(), "two different lifetimes");
}

#[test]
fn headers_are_satisfied_or_refused_by_name() {
    for (name, value) in [
        ("x-vault-request", "true"),
        ("x-vault-index", "aGVsbG8="),
        ("x-vault-inconsistent", "forward-active-node"),
        ("x-vault-forward", "active-node"),
        ("x-vault-no-request-forwarding", "true"),
        ("x-vault-policy-override", "true"),
        ("x-vault-kv-client", "v2"),
        ("x-vault-audited", "by an operator"),
        ("x-vault-mfa", "duo:123456"),
        ("x-vault-wrap-format", ""),
        ("x-forwarded-for", "10.0.0.1"),
        ("content-encoding", "identity"),
    ] {
        assert_eq!(refuse_unserved(&headers(&[(name, value)])), Ok(()), "{name}: {value}");
    }
    for (name, value) in [
        ("x-vault-wrap-format", "jwt"),
        ("x-vault-inline-auth-path", "auth/userpass/login/a"),
        ("content-encoding", "gzip"),
    ] {
        let refused = refuse_unserved(&headers(&[(name, value)])).unwrap_err();
        assert!(!refused.message.contains(value), "{name}: {}", refused.message);
    }
}

#[test]
fn a_patch_needs_its_content_type() {
    assert_eq!(
        check_patch(&headers(&[("content-type", "application/merge-patch+json; charset=utf-8")])),
        Ok(())
    );
    for map in [headers(&[]), headers(&[("content-type", "application/json")])] {
        assert_eq!(check_patch(&map).unwrap_err().kind, FailureKind::UnsupportedMediaType);
    }
}

#[test]
fn form_body_must_not_begin_like_json() {
    let form = headers(&[("content-type", "application/x-www-form-urlencoded")]);
    assert!(is_form(&form, b"a=1"));
    assert!(!is_form(&form, b" \n{\"a\":1}"));
    assert!(!is_form(&form, b"[1]"));
    assert!(!is_form(&headers(&[("content-type", "text/plain")]), b"a=1"));
}

#[test]
fn too_long_header_list_is_431() {
    assert_eq!(check_size(&headers(&[("x-a", &"a".repeat(LIST_MAX - 3))])), Ok(()));
    let failure = check_size(&headers(&[("x-a", &"a".repeat(LIST_MAX))])).unwrap_err();
    assert_eq!(failure.kind, FailureKind::HeadersTooLarge);
}
