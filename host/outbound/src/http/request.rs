//! The outgoing request: headers set by the component, and headers reserved for the host.
//!
//! This file prevents request smuggling: a header that ends the request and begins another request,
//! or that gives two servers in a row different lengths.

use crate::addresses::Origin;
use crate::limits;
use bulkhead_wire::failure::quoted;
use bulkhead_wire::trace_parent::TraceParent;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Uri};

/// Headers of a trace context.
const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";
/// Headers about the connection and the trace, which only the host sets.
const HOST_ONLY_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    TRACE_PARENT,
    TRACE_STATE,
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Endings of the names of headers with secret values.
const SECRET_ENDINGS: [&str; 5] = ["authorization", "cookie", "-key", "-token", "-secret"];

/// A request of a component.
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Headers, in order.
    pub headers: Vec<HttpHeader>,
    /// The body.
    pub body: Vec<u8>,
    /// TLS settings; `None`: the public authorities and the operator's authorities.
    pub tls: Option<HttpTls>,
    /// Parts of the request that no text may show.
    pub secrets: Vec<String>,
    /// Promise that a POST changes nothing.
    pub safe: bool,
}

/// A header.
pub struct HttpHeader {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// TLS settings of a request. Certificates and keys are PEM.
#[derive(Default)]
pub struct HttpTls {
    /// Trusted authorities; `None`: the public authorities and the operator's authorities.
    pub root_certificates: Option<String>,
    /// The client's certificate and its chain.
    pub client_certificate: Option<String>,
    /// The client's private key.
    pub client_key: Option<String>,
    /// Expected name in the server's certificate, if different from the host.
    pub server_name: Option<String>,
}

/// Returns whether the request changes nothing, by its method or by the component's promise.
///
/// # Errors
/// A text for the component if the promise is impossible for the method.
pub fn is_safe(request: &HttpRequest) -> Result<bool, String> {
    match request.method.as_str() {
        "GET" | "HEAD" => Ok(true),
        "POST" => Ok(request.safe),
        _ if request.safe => {
            Err("safe is for a POST without effect; leave safe out with another method".into())
        }
        _ => Ok(false),
    }
}

/// Returns the parts of a request that no text may show.
pub fn secrets(request: &HttpRequest) -> impl Iterator<Item = &str> {
    let headers = request.headers.iter().filter(|header| {
        let name = header.name.to_ascii_lowercase();
        SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
    });
    // The authentication scheme before the credentials is a common word and no secret.
    let credentials = headers
        .map(|header| header.value.split_once(' ').map_or(header.value.as_str(), |(_, rest)| rest));
    let key = request.tls.iter().filter_map(|tls| tls.client_key.as_deref());
    credentials
        .chain(key)
        .chain(userinfo(&request.url))
        .chain(request.secrets.iter().map(String::as_str))
}

/// Returns user and password of a URL. A URL with a user or password is refused.
fn userinfo(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    authority.rsplit_once('@').map(|(userinfo, _)| userinfo)
}

/// Builds the request for the path `uri` at `origin`, with only the method, headers and body of
/// `request`.
///
/// # Errors
/// The part that may not be sent, without quoting a value.
pub fn prepare(
    origin: &Origin,
    uri: Uri,
    request: HttpRequest,
) -> Result<hyper::Request<Full<Bytes>>, String> {
    let method = method(&request.method)?;
    let mut headers = headers(&request.headers)?;
    let port = match (origin.tls, origin.port) {
        (true, 443) | (false, 80) => String::new(),
        (_, port) => format!(":{port}"),
    };
    let host = HeaderValue::try_from(format!("{}{port}", origin.host));
    headers.insert(HOST, host.map_err(|_| "the URL's host cannot be sent".to_owned())?);
    let mut prepared = hyper::Request::new(Full::new(Bytes::from(request.body)));
    *prepared.method_mut() = method;
    *prepared.uri_mut() = uri;
    *prepared.headers_mut() = headers;
    Ok(prepared)
}

/// Adds the context of a trace to a prepared request.
pub fn set_trace_context(request: &mut hyper::Request<Full<Bytes>>, parent: &TraceParent) {
    let state = parent.state.as_deref().map(HeaderValue::from_str);
    if let Ok(value) = HeaderValue::try_from(parent.to_string()) {
        request.headers_mut().insert(TRACE_PARENT, value);
    }
    if let Some(Ok(value)) = state {
        request.headers_mut().insert(TRACE_STATE, value);
    }
}

fn method(text: &str) -> Result<Method, String> {
    let method = Method::from_bytes(text.as_bytes()).ok();
    let method = method.filter(|method| *method != Method::CONNECT && *method != Method::TRACE);
    method.ok_or_else(|| {
        format!(
            "{} is not a method for a request; give GET, POST, PUT, PATCH, DELETE …",
            quoted(text)
        )
    })
}

fn headers(fields: &[HttpHeader]) -> Result<HeaderMap, String> {
    let bytes: usize =
        fields.iter().map(|header| header.name.len().saturating_add(header.value.len())).sum();
    if fields.len() > limits::HTTP_HEADERS || bytes > limits::HTTP_HEADER_BYTES {
        return Err("a request has at most 64 headers, with 32 KiB in all".to_owned());
    }
    let mut headers = HeaderMap::new();
    for header in fields {
        let (name, value) = read_header(header)?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn read_header(header: &HttpHeader) -> Result<(HeaderName, HeaderValue), String> {
    let shown = quoted(&header.name);
    let name = HeaderName::from_bytes(header.name.as_bytes())
        .map_err(|_| format!("{shown} is not a header's name"))?;
    if HOST_ONLY_HEADERS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
        return Err(format!("the header {shown} is set by the host; leave the header out"));
    }
    let value = HeaderValue::from_str(&header.value);
    let value = value
        .map_err(|_| format!("the value of the header {shown} is not a line of printable ASCII"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> HttpRequest {
        let header = |(name, value): &(&str, &str)| HttpHeader {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        HttpRequest {
            method: method.to_owned(),
            url: "https://a:8443/".to_owned(),
            headers: headers.iter().map(header).collect(),
            body: Vec::new(),
            tls: None,
            secrets: Vec::new(),
            safe: false,
        }
    }

    fn sent(request: HttpRequest) -> Result<hyper::Request<Full<Bytes>>, String> {
        let (origin, uri) = super::super::parse_url(&request.url).unwrap();
        prepare(&origin, uri, request)
    }

    #[test]
    fn invalid_or_host_reserved_headers_are_refused() {
        let many = [("x", "1"); 65];
        let large = "x".repeat(40_000);
        for (headers, says) in [
            (&[("x", "1\r\ny: 2")][..], "not a line"),
            (&[("x", "1\0")], "not a line"),
            (&[("x\r\ny", "1")], "not a header's name"),
            (&[("", "1")], "not a header's name"),
            (&[("x y", "1")], "not a header's name"),
            (&[("Host", "b")], "set by the host"),
            (&[("Transfer-Encoding", "chunked")], "set by the host"),
            (&[("content-length", "0")], "set by the host"),
            (&[("Connection", "x")], "set by the host"),
            (&[("proxy-authorization", "x")], "set by the host"),
            (&[("upgrade", "h2c")], "set by the host"),
            (&[("expect", "100-continue")], "set by the host"),
            (&[("Traceparent", "00-x")], "set by the host"),
            (&[("tracestate", "a=1")], "set by the host"),
            (&many, "64 headers"),
            (&[("x", &large)], "32 KiB"),
        ] {
            let why = sent(request("GET", headers)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        let sent = sent(request("GET", &[("x", "1"), ("X", "2")])).unwrap();
        assert_eq!(sent.headers().get_all("x").iter().count(), 2);
        assert_eq!(sent.headers().get("host").unwrap(), "a:8443");
    }

    #[test]
    fn methods_are_tokens_that_ask_for_no_tunnel() {
        for method in ["", "GET /", "GE\rT", "CONNECT", "TRACE"] {
            assert!(sent(request(method, &[])).is_err(), "{method:?}");
        }
        assert_eq!(sent(request("PURGE", &[])).unwrap().method(), "PURGE");
    }

    #[test]
    fn unknown_methods_are_unsafe_and_only_post_markable() {
        for (method, promised, safe) in [
            ("GET", false, Some(true)),
            ("HEAD", true, Some(true)),
            ("POST", false, Some(false)),
            ("POST", true, Some(true)),
            ("get", false, Some(false)),
            ("OPTIONS", false, Some(false)),
            ("PUT", true, None),
            ("post", true, None),
            ("DELETE", true, None),
        ] {
            let request = HttpRequest { safe: promised, ..request(method, &[]) };
            assert_eq!(is_safe(&request).ok(), safe, "{method} {promised}");
        }
    }

    #[test]
    fn credentials_are_secrets_and_surrounding_words_are_not() {
        let pairs = [
            ("Authorization", "Bearer tok-en"),
            ("x-api-key", "k-1"),
            ("X-Auth-Token", "t-1"),
            ("cookie", "a=b"),
            ("accept", "text/plain"),
        ];
        let mut request = request("GET", &pairs);
        request.url = "https://user:pass@a/b@c".to_owned();
        request.secrets = vec!["in the body".to_owned()];
        let found_secrets: Vec<&str> = secrets(&request).collect();
        assert_eq!(found_secrets, ["tok-en", "k-1", "t-1", "a=b", "user:pass", "in the body"]);
        request.url = "https://a/users/b@c".to_owned();
        assert!(
            !secrets(&request).any(|secret| secret.contains("users")),
            "a path is not a password"
        );
    }
}
