//! API servers of Kubernetes: their URLs, names, label selectors, and the form of the tokens of
//! service accounts.
//!
//! The attack this module stops: a configuration that leads a token to another server by another
//! spelling of a URL. A URL is normalised before any use, and compared only with normalised URLs.

mod names;
mod selector;

pub use names::{LONGEST_LABEL, LONGEST_SUBDOMAIN, is_key, is_label, is_label_value, is_subdomain};
pub use selector::LabelSelector;

use crate::host::Host;
use bulkhead_wire::failure::{Failure, quoted};

/// Maximum length of a URL, in bytes: the URL is also the lane of leases.
const LONGEST_URL: usize = 256;

/// Returns the API server of the server's own pod, if any.
///
/// # Errors
/// As [`Ambient::pod`](crate::host::Ambient::pod).
pub fn own_url(host: &dyn Host) -> Result<Option<String>, Failure> {
    host.ambient().pod()?.map(|pod| read_url("the pod's environment", &pod.url())).transpose()
}

/// Returns true if the text is three parts of base64url, and thus safe in a header.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.split('.').count() == 3 && text.split('.').all(is_part)
}

/// Normalises the URL of an API server, written in `field`: `https://host:port/path`, in lower case
/// up to the path.
///
/// # Errors
/// Invalid request with the field, the value and the mistake.
pub fn read_url(field: &str, text: &str) -> Result<String, Failure> {
    let unfit = |why: &str| Failure::invalid(format!("{field}: {} {why}", quoted(text)));
    if text.len() > LONGEST_URL {
        return Err(unfit("is longer than 256 bytes"));
    }
    let scheme = text.get(..8).unwrap_or_default();
    let rest = match scheme.eq_ignore_ascii_case("https://") {
        true => text.get(8..).unwrap_or_default(),
        false => return Err(unfit("does not begin with https://")),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    if !path.bytes().all(is_plain)
        || path.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(unfit("has a path other than names joined by slashes"));
    }
    let authority = authority.to_ascii_lowercase();
    let (host, port) = split_port(&authority).ok_or_else(|| unfit("has no host, or a bad port"))?;
    Ok(format!("https://{host}:{port}{path}"))
}

/// Splits an authority into host and port; an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    let end_of_host = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')?.checked_add(2)?,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end_of_host)?;
    let is_address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty()
        && !host.starts_with('.')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_address && !is_name {
        return None;
    }
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
        None if port.is_empty() => 443,
        None => return None,
    };
    (port > 0).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::{is_token, read_url};

    #[test]
    fn a_url_has_one_spelling() {
        for (text, expected) in [
            ("https://api.example:6443", "https://api.example:6443"),
            ("HTTPS://API.example:6443/", "https://api.example:6443"),
            ("https://api.example:443", "https://api.example:443"),
            ("https://api.example", "https://api.example:443"),
            ("https://10.0.0.1:0443", "https://10.0.0.1:443"),
            ("https://[FD00::1]:6443", "https://[fd00::1]:6443"),
            ("https://[fd00::1]", "https://[fd00::1]:443"),
            (
                "https://rancher.example/k8s/clusters/c-M1/",
                "https://rancher.example:443/k8s/clusters/c-M1",
            ),
        ] {
            assert_eq!(read_url("cluster_host", text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_server_url_is_refused() {
        let long = format!("https://{}.example", "a".repeat(300));
        for text in [
            "host",
            "http://api.example",
            "https://",
            "https:///x",
            "https://user@api.example",
            "https://user:pass@api.example",
            "https://api.example?x=1",
            "https://api.example#x",
            "https://api.example/../x",
            "https://api.example/a//b",
            "https://api.example/%2e",
            "https://api.example:0",
            "https://api.example:99999",
            "https://api.example:+1",
            "https://api.example:",
            "https://[fd00::1",
            "https://[x]",
            "https://fd00::1",
            "https://a b",
            "https://a\nb",
            "ldap://api.example",
            "https://api.example\\x",
            &long,
        ] {
            assert!(read_url("cluster_host", text).is_err(), "{text} was read");
        }
    }

    #[test]
    fn token_has_three_header_safe_parts() {
        assert!(is_token("eyJh.eyJi.c2ln-_"));
        for text in ["", "a.b", "a.b.", "a.b.c.d", "a.b.c\r\nx: y", "a.b.c=", "a b.c.d"] {
            assert!(!is_token(text), "{text:?}");
        }
    }
}
