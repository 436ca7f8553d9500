//! HTTP requests to other servers, and their responses.
//!
//! ```
//! use bulkhead_sdk::http::Request;
//! use bulkhead_sdk::{Failure, Host};
//!
//! fn token(host: &dyn Host, secret: &str) -> Result<String, Failure> {
//!     let body = serde_json::json!({"grant_type": "client_credentials", "client_secret": secret});
//!     let request = Request::safe_post("https://login.example.com/token");
//!     let request = request.secret(secret).json(&body)?;
//!     let answer = host.http().send(&request)?;
//!     if answer.status != 200 {
//!         return Err(Failure::invalid(format!("login.example.com answered {}", answer.status)));
//!     }
//!     let read: serde_json::Value = answer.json()?;
//!     Ok(read["access_token"].as_str().unwrap_or_default().to_owned())
//! }
//! ```

use bulkhead_wire::failure::{Failure, FailureKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes every character that has a meaning in a URL or a form.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Identity of [`Request::as_pod`] in the contract.
pub(crate) const POD: &str = "pod";

/// An HTTP request. No `Debug`: the request holds credentials.
#[derive(Clone, Default, PartialEq)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// `https://…`
    pub url: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Vec<u8>,
    /// Timeout in milliseconds; 0 means the remaining time of the call.
    pub timeout: u32,
    /// Trusted roots and client certificate; `None` means the public roots and no client
    /// certificate.
    pub tls: Option<HttpTls>,
    /// Secrets inside of URL, headers and body, which must not appear in any text.
    pub secrets: Vec<String>,
    /// True for a POST that changes nothing.
    pub safe: bool,
    /// Sender identity that the host adds; see [`Request::as_pod`].
    pub identity: Option<String>,
}

/// Trusted roots and client certificate of a request. No `Debug`: the type holds a private key.
#[derive(Clone, Default, PartialEq)]
pub struct HttpTls {
    /// Trusted roots in PEM, instead of the public roots.
    pub root_certificates: Option<String>,
    /// Client certificate in PEM; requires `client_key`.
    pub client_certificate: Option<String>,
    /// Private key of the client certificate, in PEM.
    pub client_key: Option<String>,
    /// Name that the server's certificate must have, if not the URL's host.
    pub server_name: Option<String>,
}

impl Request {
    /// Creates a request with any method except `CONNECT` and `TRACE`.
    #[must_use]
    pub fn new(method: &str, url: &str) -> Self {
        Self { method: method.to_owned(), url: url.to_owned(), ..Self::default() }
    }

    /// Creates a GET request.
    #[must_use]
    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// Creates a POST request.
    #[must_use]
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// Creates a POST request that changes nothing, such as a request to a token endpoint. The host
    /// may run the call again afterwards and so repeat the request.
    #[must_use]
    pub fn safe_post(url: &str) -> Self {
        Self { safe: true, ..Self::post(url) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Declares `value`, a part of URL, headers or body, as a secret that must not appear in any
    /// text.
    #[must_use]
    pub fn secret(mut self, value: &str) -> Self {
        self.secrets.push(value.to_owned());
        self
    }

    /// Sets a JSON body.
    ///
    /// # Errors
    /// Internal if `body` cannot be written as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        self.body = serde_json::to_vec(body)
            .map_err(|_| Failure::internal("the request's body cannot be written as JSON"))?;
        Ok(self.header("content-type", "application/json"))
    }

    /// Sets a body of pairs in the format of HTML forms and OAuth endpoints.
    #[must_use]
    pub fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| format!("{}={}", encoded(name), encoded(value));
        self.body = pairs.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes();
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    /// Adds an access token, and declares the token as a secret.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}")).secret(token)
    }

    /// Sets the trusted roots and the client certificate.
    #[must_use]
    pub fn tls(mut self, tls: HttpTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sends the request with the identity of the server's own pod: the host adds the pod's token,
    /// which no plugin sees. The URL must begin with [`Pod::url`](crate::host::Pod::url); the token
    /// is sent to no other server. The pod's certificate authority is trusted unless
    /// [`HttpTls::root_certificates`] is set. An `authorization` header of the request replaces the
    /// token. Needs the grant `ambient:pod-identity`.
    #[must_use]
    pub fn as_pod(mut self) -> Self {
        self.identity = Some(POD.to_owned());
        self
    }

    /// Sets the timeout.
    #[must_use]
    pub fn timeout(mut self, milliseconds: u32) -> Self {
        self.timeout = milliseconds;
        self
    }
}

/// A server's response, of any status. No `Debug`: the response may hold a token.
#[derive(Clone, Default, PartialEq)]
pub struct Response {
    /// HTTP status. A redirect is not followed.
    pub status: u16,
    /// Headers: names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Body of the response.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the first header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Unreachable if the body does not have the shape of `T`: probably another server answered.
    /// The message does not quote the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|_| {
            let status = self.status;
            Failure::new(
                FailureKind::Unreachable,
                format!("the server's answer (status {status}) is not the expected JSON"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn request_body_sets_content_type_and_encoding() {
        let json = Request::post("https://a").json(&json!({"a": 1})).unwrap();
        assert_eq!(json.headers, [("content-type".to_owned(), "application/json".to_owned())]);
        assert_eq!(json.body, br#"{"a":1}"#);
        let form =
            Request::safe_post("https://a").form(&[("scope", "a/.default b"), ("x", "1&y=2")]);
        assert_eq!(form.body, b"scope=a%2F.default%20b&x=1%26y%3D2");
        let bearer = Request::get("https://a").bearer("t-1");
        assert_eq!(bearer.headers, [("authorization".to_owned(), "Bearer t-1".to_owned())]);
        assert_eq!(bearer.secrets, ["t-1"]);
    }

    #[test]
    fn non_json_answer_is_not_quoted() {
        let answer = Response { status: 200, body: b"hunter2".to_vec(), ..Response::default() };
        let why = answer.json::<Value>().unwrap_err();
        assert_eq!(why.kind, FailureKind::Unreachable);
        assert!(!why.message.contains("hunter2"));
    }
}
