//! Request headers: token, namespace, and type of the body.
//!
//! Prevents a proxy and this server from reading the same request differently. A request with 2
//! different tokens is refused, because a proxy may check one header while this server uses the
//! other. A request that names 2 servers, or none, is refused too.

use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::AuditedHeader;
use bulkhead_wire::secret::Secret;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Version};
use std::collections::BTreeMap;

/// Headers that carry only a token. `Authorization: Bearer` is the third way (decision P2).
const TOKEN_HEADERS: [&str; 2] = ["x-vault-token", "x-secrets-token"];

/// Maximum size of all headers, in bytes of names and values. hyper refuses at twice that size, and
/// above 100 headers.
pub const LIST_MAX: usize = 32 * 1024;

/// Maximum number of headers. hyper enforces the same maximum for HTTP/1.1.
const HEADERS_MAX: usize = 100;

/// Returns the headers of a request that an operator wants in the audit log. `wanted` has
/// lower-case names, each with true if the value is hashed.
pub fn audited(headers: &HeaderMap, wanted: &BTreeMap<String, bool>) -> Vec<AuditedHeader> {
    let sent = wanted.iter().filter_map(|(name, is_hashed)| {
        let mut values = headers.get_all(name.as_str()).iter().peekable();
        values.peek()?;
        let values: Vec<_> = values.map(|one| String::from_utf8_lossy(one.as_bytes())).collect();
        Some(AuditedHeader { name: name.clone(), value: values.join(", "), is_hashed: *is_hashed })
    });
    sent.collect()
}

/// Refuses too many or too large headers.
///
/// # Errors
/// 431.
pub fn check_size(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.len() > HEADERS_MAX {
        let message = format!("there are {} headers; the most is {HEADERS_MAX}", headers.len());
        return Err(Failure::new(FailureKind::HeadersTooLarge, message));
    }
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size <= LIST_MAX {
        return Ok(());
    }
    let message = format!("the headers take {size} bytes; the most is {LIST_MAX}");
    Err(Failure::new(FailureKind::HeadersTooLarge, message))
}

/// Refuses a request that names 2 servers, has 2 Host headers, or (since HTTP/1.1) names no server.
///
/// # Errors
/// 400.
pub fn check_server(head: &Parts) -> Result<(), Failure> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Failure::invalid("the request has two Host headers; send one"));
    }
    let Some(authority) = head.uri.authority() else {
        return match first {
            None if head.version >= Version::HTTP_11 => Err(Failure::invalid(
                "the request has no Host header; HTTP/1.1 and later ask for one",
            )),
            _ => Ok(()),
        };
    };
    // HTTP/2 requests carry the authority besides the path.
    if head.version < Version::HTTP_2 || head.method == Method::CONNECT {
        return Err(Failure::invalid(
            "this is not a proxy; ask for a path such as /v1/sys/health, without scheme and host",
        ));
    }
    if first
        .is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
    {
        return Err(Failure::invalid(
            "the request names one server in :authority and another one in Host; send one",
        ));
    }
    Ok(())
}

/// Returns the token of the token headers. Empty headers are ignored.
///
/// # Errors
/// 400 if 2 headers carry different tokens.
pub fn token(headers: &HeaderMap) -> Result<Option<Secret>, Failure> {
    let named = TOKEN_HEADERS.iter().flat_map(|name| headers.get_all(*name));
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let mut found: Option<Secret> = None;
    for raw in named.map(HeaderValue::as_bytes).chain(bearers).filter(|raw| !raw.is_empty()) {
        // Bytes that no valid token contains are passed on: the core refuses and audits the token
        // like any other invalid token.
        let token = Secret::new(String::from_utf8_lossy(raw));
        if found.as_ref().is_some_and(|first| *first != token) {
            return Err(Failure::invalid(
                "the request carries two different tokens; \
                 send one, in X-Vault-Token, X-Secrets-Token or Authorization: Bearer",
            ));
        }
        found = Some(token);
    }
    Ok(found)
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// Refuses headers that would change the meaning of the request and are not supported. If a
/// namespace were ignored, the answer would be another tenant's.
///
/// # Errors
/// 400 for a namespace other than the root (decision P6).
pub fn refuse_unserved(headers: &HeaderMap) -> Result<(), Failure> {
    for value in headers.get_all("x-vault-namespace") {
        let name = String::from_utf8_lossy(value.as_bytes());
        if !matches!(name.trim_matches('/'), "" | "root") {
            let shown: String = name.chars().take(64).collect();
            return Err(Failure::invalid(format!(
                "namespace {shown:?} does not exist: this service has only the root namespace; \
                 leave X-Vault-Namespace out"
            )));
        }
    }
    Ok(())
}

/// Returns the lifetime of the wrapping token, in seconds; `None` if the answer is not to be
/// wrapped. Empty headers are ignored.
///
/// # Errors
/// 400 for a text that is not a duration of at least one second, and for 2 different durations: if
/// the wish were ignored, the answer would hold the secret in the clear.
pub fn wrap_ttl(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let mut found: Option<u64> = None;
    for value in headers.get_all("x-vault-wrap-ttl").iter().filter(|value| !value.is_empty()) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let seconds = duration::parse(&text)
            .map_err(|why| Failure::invalid(format!("X-Vault-Wrap-TTL: {why}")))?;
        if seconds == 0 {
            return Err(Failure::invalid(
                "X-Vault-Wrap-TTL is shorter than a second; give the lifetime of the wrapping \
                 token, such as 60 or \"5m\", or leave the header out to get the answer itself",
            ));
        }
        if found.is_some_and(|first| first != seconds) {
            return Err(Failure::invalid(
                "the request carries two different X-Vault-Wrap-TTL; send one",
            ));
        }
        found = Some(seconds);
    }
    Ok(found)
}

/// Checks that a PATCH is a merge patch, the only supported kind.
///
/// # Errors
/// 415.
pub fn check_patch(headers: &HeaderMap) -> Result<(), Failure> {
    if media_type(headers).eq_ignore_ascii_case("application/merge-patch+json") {
        return Ok(());
    }
    let message = "PATCH takes a body of type application/merge-patch+json; set Content-Type";
    Err(Failure::new(FailureKind::UnsupportedMediaType, message))
}

/// Returns whether the body is a form. curl declares every body a form, so a body that begins like
/// JSON is JSON.
#[must_use]
pub fn is_form(headers: &HeaderMap, body: &[u8]) -> bool {
    media_type(headers).eq_ignore_ascii_case("application/x-www-form-urlencoded")
        && !matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns the content type without parameters; empty if the header is missing.
fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_request_of_http_2_names_its_server_beside_the_path_and_no_other_in_a_header() {
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
    fn the_same_token_twice_is_one_and_two_tokens_are_refused() {
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
    fn a_token_of_unprintable_characters_is_handed_on_to_be_refused_and_recorded() {
        for raw in ["canary one", "canary\tone", "canaryé"] {
            assert!(token(&headers(&[("x-vault-token", raw)])).unwrap().is_some(), "{raw}");
        }
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
    fn a_wish_for_wrapping_is_read_or_refused_and_never_ignored() {
        let asked = |ttl: &str| wrap_ttl(&headers(&[("x-vault-wrap-ttl", ttl)]));
        for (ttl, seconds) in
            [("60", 60), ("60s", 60), ("1h", 3_600), (" 1m30s ", 90), ("1d", 86_400)]
        {
            assert_eq!(asked(ttl), Ok(Some(seconds)), "{ttl}");
        }
        for ttl in ["0", "0s", "500ms", "-1", "-5s", "soon", "1h;", "99999999999"] {
            let refused = asked(ttl).unwrap_err();
            assert!(refused.message.contains("X-Vault-Wrap-TTL"), "{ttl}: {}", refused.message);
        }
        assert_eq!(wrap_ttl(&headers(&[])), Ok(None));
        assert_eq!(asked(""), Ok(None));
        assert_eq!(wrap_ttl(&repeated("x-vault-wrap-ttl", &["60", "1m"])), Ok(Some(60)));
        assert!(wrap_ttl(&repeated("x-vault-wrap-ttl", &["60", "61"])).is_err());
    }

    #[test]
    fn a_patch_needs_its_content_type() {
        assert_eq!(
            check_patch(&headers(&[(
                "content-type",
                "application/merge-patch+json; charset=utf-8"
            )])),
            Ok(())
        );
        for map in [headers(&[]), headers(&[("content-type", "application/json")])] {
            assert_eq!(check_patch(&map).unwrap_err().kind, FailureKind::UnsupportedMediaType);
        }
    }

    #[test]
    fn a_body_is_a_form_only_if_it_does_not_begin_like_json() {
        let form = headers(&[("content-type", "application/x-www-form-urlencoded")]);
        assert!(is_form(&form, b"a=1"));
        assert!(!is_form(&form, b" \n{\"a\":1}"));
        assert!(!is_form(&form, b"[1]"));
        assert!(!is_form(&headers(&[("content-type", "text/plain")]), b"a=1"));
    }

    #[test]
    fn a_list_of_headers_that_is_too_long_is_431() {
        assert_eq!(check_size(&headers(&[("x-a", &"a".repeat(LIST_MAX - 3))])), Ok(()));
        let failure = check_size(&headers(&[("x-a", &"a".repeat(LIST_MAX))])).unwrap_err();
        assert_eq!(failure.kind, FailureKind::HeadersTooLarge);
    }
}
