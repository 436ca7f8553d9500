//! Request headers: token, namespace, wrapping, and type of the body.
//!
//! This file prevents a proxy and this server from reading the same request differently. A request
//! with 2 different tokens is refused, because a proxy may check one header while this server uses
//! the other. A request that names 2 servers, or none, is refused too.
//!
//! This file also prevents a secret in the clear: a header of this API is read under each prefix,
//! or the request is refused (decision H80).

use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::request::AuditedHeader;
use bulkhead_wire::secret::Secret;
use bulkhead_wire::trace_parent::TraceParent;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Version};
use std::collections::BTreeMap;

/// Prefixes of this API's headers. Each header has the same meaning under each prefix.
const PREFIXES: [&str; 3] = ["x-vault-", "x-secrets-", "x-bulkhead-"];

/// Rest of the name of the headers that carry only a token. `Authorization: Bearer` is the other
/// way (decision P2).
const TOKEN: &str = "token";

/// Rest of the name of the headers with the states that an answer must include.
const REQUIRED_STATE: &str = "index";

/// Name of the header with the state that an answer includes.
pub const STATE: HeaderName = HeaderName::from_static("x-vault-index");

/// Headers that every answer satisfies, by the rest of the name. Each node answers by itself, after
/// it has the required states; no endpoint demands a second factor; no policy can be overridden.
/// `request` marks a request as an API client's, and `kv-client` as that of a command for secrets.
const SATISFIED: [&str; 7] = [
    "request",
    "kv-client",
    "inconsistent",
    "forward",
    "no-request-forwarding",
    "mfa",
    "policy-override",
];

/// Types of answers that stand for the text format of metrics.
const METRICS_TYPES: [&str; 2] = ["application/openmetrics-text", "prometheus/telemetry"];

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

/// Returns whether the client reads the text format of Prometheus: its header `Accept` names that
/// format or OpenMetrics, as the header of Prometheus does, or the type that Vault reads.
pub fn prefers_metrics_text(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|wanted| {
        let mut words = wanted.split(';').map(str::trim);
        let media_type = words.next().unwrap_or_default();
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        let is_version = |word: &str| word.eq_ignore_ascii_case("version=0.0.4");
        METRICS_TYPES.into_iter().any(is) || (is("text/plain") && words.any(is_version))
    })
}

/// Returns the trace context of a request.
pub fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    TraceParent::parse(values("traceparent"), values("tracestate"))
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
        return Err(Failure::invalid(
            "the request has two Host headers; send a single Host header",
        ));
    }
    let Some(authority) = head.uri.authority() else {
        return match first {
            None if head.version >= Version::HTTP_11 => Err(Failure::invalid(
                "the request has no Host header, which HTTP/1.1 and later require",
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
            "the request names different servers in :authority and Host; name a single server",
        ));
    }
    Ok(())
}

/// Returns the non-empty values of a header of this API, under each prefix. A request has few
/// headers: one pass costs less than a look-up of each name.
fn values<'a>(headers: &'a HeaderMap, rest: &'a str) -> impl Iterator<Item = &'a HeaderValue> {
    let is_named = move |name: &HeaderName| rest_of(name.as_str()) == Some(rest);
    let named = headers.iter().filter(move |(name, _)| is_named(name));
    named.map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// Returns the part of a header's name behind a prefix of this API.
fn rest_of(name: &str) -> Option<&str> {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns the token of the token headers. Empty headers are ignored.
///
/// # Errors
/// 400 if 2 headers carry different tokens.
pub fn token(headers: &HeaderMap) -> Result<Option<Secret>, Failure> {
    let named = values(headers, TOKEN);
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let mut found: Option<Secret> = None;
    for raw in named.map(HeaderValue::as_bytes).chain(bearers).filter(|raw| !raw.is_empty()) {
        // Bytes that no valid token contains are passed on: the core refuses and audits the token
        // like any other invalid token.
        let token = Secret::new(String::from_utf8_lossy(raw));
        if found.as_ref().is_some_and(|first| *first != token) {
            return Err(Failure::invalid(
                "the request carries two different tokens; send a single token, in X-Vault-Token, \
                 X-Secrets-Token or Authorization: Bearer",
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
/// namespace were ignored, the answer would be another tenant's; if a misspelt wrapping header
/// were ignored, the answer would hold the secret in the clear.
///
/// # Errors
/// 400 for a namespace other than the root (decision P6), a wish that this service cannot fulfil,
/// and an unknown header of this API (decision H80); 415 for an encoded body.
pub fn refuse_unserved(
    headers: &HeaderMap,
    audited: &BTreeMap<String, bool>,
) -> Result<(), Failure> {
    refuse_namespace(headers)?;
    for name in headers.keys().map(hyper::header::HeaderName::as_str) {
        let Some(rest) = rest_of(name) else { continue };
        match rest {
            TOKEN | REQUIRED_STATE | "namespace" | "wrap-ttl" => {}
            _ if SATISFIED.contains(&rest) || audited.contains_key(name) => {}
            "wrap-format" => check_wrap_format(headers)?,
            _ => {
                let name = quoted(name);
                return Err(Failure::invalid(format!(
                    "header {name} is not known to this service; leave it out, or correct the name"
                )));
            }
        }
    }
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    let message = "the body has a Content-Encoding; send the body without compression";
    Err(Failure::new(FailureKind::UnsupportedMediaType, message))
}

/// Refuses every form of the wrapping token but the usual one.
fn check_wrap_format(headers: &HeaderMap) -> Result<(), Failure> {
    let is_usual = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"uuid");
    match values(headers, "wrap-format").all(is_usual) {
        true => Ok(()),
        false => Err(Failure::invalid(
            "X-Vault-Wrap-Format asks for another form of the wrapping token; leave the header out",
        )),
    }
}

/// Refuses a namespace other than the root.
fn refuse_namespace(headers: &HeaderMap) -> Result<(), Failure> {
    for value in values(headers, "namespace") {
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

/// Refuses headers that a plain HTTP place would pass over: a namespace, and a wish for wrapping.
///
/// # Errors
/// 400.
pub fn refuse_of_plain_http(headers: &HeaderMap) -> Result<(), Failure> {
    refuse_namespace(headers)?;
    match wrap_ttl(headers)? {
        None => Ok(()),
        Some(_) => Err(Failure::invalid(
            "this path's answers cannot be wrapped; leave X-Vault-Wrap-TTL out",
        )),
    }
}

/// Returns the lifetime of the wrapping token, in seconds; `None` if the answer is not to be
/// wrapped. Empty headers are ignored.
///
/// # Errors
/// 400 for a text that is not a duration of at least one second, and for 2 different durations: if
/// the wish were ignored, the answer would hold the secret in the clear.
pub fn wrap_ttl(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let mut found: Option<u64> = None;
    for value in values(headers, "wrap-ttl") {
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
                "the request carries two different X-Vault-Wrap-TTL; send only one",
            ));
        }
        found = Some(seconds);
    }
    Ok(found)
}

/// Returns the states that the answer must include.
pub fn required_states(headers: &HeaderMap) -> Vec<String> {
    let sent = values(headers, REQUIRED_STATE);
    sent.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
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
mod tests;
