//! A URL, parsed once: the check, the name resolution and the request all use the same parts.
//!
//! This file prevents a text that the check reads as a certain server and the connection as another
//! server.

use crate::addresses::{Origin, ServerHost};
use crate::limits;
use hyper::Uri;

/// Parses a URL into the server, and the path and query. No message quotes the URL, which may hold
/// a secret.
///
/// # Errors
/// The fault of the URL.
pub fn parse_url(text: &str) -> Result<(Origin, Uri), String> {
    if text.len() > limits::HTTP_URL_BYTES {
        return Err("the URL is longer than 8 KiB".to_owned());
    }
    // The URL standard drops or replaces these characters, and other parsers may differ.
    if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
        return Err(
            "the URL holds a space, a control character or a backslash; percent-encode the \
             character"
                .to_owned(),
        );
    }
    let url = url::Url::parse(text)
        .map_err(|_| "the URL cannot be read; write https://host/path".to_owned())?;
    let tls = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err("the URL is neither https:// nor http://".to_owned()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the URL holds a user or password; send both in an authorization header".to_owned()
        );
    }
    if url.fragment().is_some() {
        return Err(
            "the URL holds a fragment, which no server is sent; leave the fragment out".to_owned()
        );
    }
    let host = url
        .host_str()
        .and_then(ServerHost::parse)
        .ok_or_else(|| "the URL's host is not a host".to_owned())?;
    let port = url
        .port_or_known_default()
        .filter(|port| *port > 0)
        .ok_or_else(|| "the URL has no port".to_owned())?;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{}{query}", url.path());
    let uri = path.parse().map_err(|_| {
        "the URL's path or query cannot be sent; percent-encode the characters".to_owned()
    })?;
    Ok((Origin { tls, host, port }, uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, String) {
        let (origin, uri) = parse_url(text).unwrap();
        (origin.to_string(), uri.to_string())
    }

    #[test]
    fn every_spelling_of_a_host_is_one_origin() {
        for (text, origin) in [
            ("https://Login.Example.com./a", "https://login.example.com:443"),
            ("HTTPS://login.example.com:443", "https://login.example.com:443"),
            ("http://127.1/", "http://127.0.0.1:80"),
            ("https://0x7f000001/", "https://127.0.0.1:443"),
            ("https://2130706433:8443/", "https://127.0.0.1:8443"),
            ("https://[::ffff:169.254.169.254]/", "https://169.254.169.254:443"),
            ("https://１２７.0.0.1/", "https://127.0.0.1:443"),
            ("https://[FD00:0::1]/", "https://[fd00::1]:443"),
            ("https:login.example.com/", "https://login.example.com:443"),
        ] {
            assert_eq!(read(text).0, origin, "{text}");
        }
    }

    #[test]
    fn path_and_query_go_as_they_were_read() {
        for (text, expected) in [
            ("https://a", "/"),
            ("https://a?x=1", "/?x=1"),
            ("https://a//b/c", "//b/c"),
            ("https://a/b/../c?u=https://d/e", "/c?u=https://d/e"),
            ("https://a/ü?ö=\"", "/%C3%BC?%C3%B6=%22"),
            ("https://a/{b}|c", "/%7Bb%7D|c"),
        ] {
            assert_eq!(read(text).1, expected, "{text}");
        }
    }

    #[test]
    fn an_ambiguous_or_obscuring_url_is_refused() {
        let long = format!("https://a/{}", "x".repeat(limits::HTTP_URL_BYTES));
        for (text, says) in [
            ("", "cannot be read"),
            ("/path", "cannot be read"),
            ("ftp://a/", "neither"),
            ("file:///etc/passwd", "neither"),
            ("https://a@b/", "user or password"),
            ("https://:hunter2@b/", "user or password"),
            ("https://b#@a", "fragment"),
            ("https://b\\@a", "backslash"),
            ("https://a/\r\nX: y", "control character"),
            ("https://a/\0", "control character"),
            (" https://a", "space"),
            ("https://a:0/", "port"),
            ("https://a:99999/", "cannot be read"),
            ("https://a'b/", "not a host"),
            ("https://[fe80::1%25lo]/", "cannot be read"),
            (long.as_str(), "8 KiB"),
        ] {
            let why = parse_url(text).unwrap_err();
            assert!(why.contains(says), "{text:?}: {why}");
            assert!(!why.contains("hunter2"));
        }
    }
}
