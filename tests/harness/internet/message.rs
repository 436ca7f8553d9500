//! A request to a site, and the site's answer.

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use serde_json::Value;

/// A request that arrived completely.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub host: String,
    /// As sent, without the query.
    pub path: String,
    /// As sent, without the `?`.
    pub raw_query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns a header's text; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization").strip_prefix("Bearer ")
    }

    pub fn query(&self, name: &str) -> Option<String> {
        pair(&self.raw_query, name)
    }

    pub fn form(&self, name: &str) -> Option<String> {
        pair(std::str::from_utf8(&self.body).ok()?, name)
    }

    /// Parses the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Returns the value of `name` in `a=b&c=d`.
fn pair(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (decoded(key) == name).then(|| decoded(value)))
}

/// Decodes percent signs and pluses.
pub fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        (rest, _) = match (first, byte) {
            (b'%', Some(byte)) => (&after[2..], bytes.push(byte)),
            (b'+', _) => (after, bytes.push(b' ')),
            _ => (after, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Headers, without the length.
    pub headers: Box<HeaderMap>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::text(status, &body.to_string()).with("content-type", "application/json")
    }

    pub fn text(status: u16, body: &str) -> Self {
        Self { status, headers: Box::default(), body: body.as_bytes().to_vec() }
    }

    pub fn empty(status: u16) -> Self {
        Self::text(status, "")
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header's value"));
        self
    }

    /// Returns `true` if the content type is JSON.
    pub fn is_json(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
    }
}
