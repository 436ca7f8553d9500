//! Requests to other servers, and their answers.
//!
//! ```
//! use bulkhead_sdk::http::Request;
//! use bulkhead_sdk::{Failure, Host};
//!
//! fn token(host: &dyn Host, secret: &str) -> Result<String, Failure> {
//!     let body = serde_json::json!({"grant_type": "client_credentials", "client_secret": secret});
//!     let request = Request::asking("https://login.example.com/token");
//!     let request = request.secret(secret).json(&body)?;
//!     let answer = host.http().send(&request)?;
//!     if answer.status != 200 {
//!         return Err(Failure::invalid(format!("login.example.com answered {}", answer.status)));
//!     }
//!     let read: serde_json::Value = answer.json()?;
//!     Ok(read["access_token"].as_str().unwrap_or_default().to_owned())
//! }
//! ```

use bulkhead_wire::failure::{Failure, Kind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text with everything encoded that means anything in a URL or a form.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The word for [`Request::as_pod`].
pub(crate) const POD: &str = "pod";

/// One request. No `Debug`: it holds credentials.
#[derive(Clone, Default, PartialEq)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// `https://…`
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Vec<u8>,
    /// Milliseconds; 0 is what the call may take.
    pub timeout: u32,
    /// How the server is trusted, and who we are; the public roots and no client certificate unless
    /// set.
    pub tls: Option<Tls>,
    /// Values inside of url, headers and body that no text may show.
    pub secrets: Vec<String>,
    /// A POST that changes nothing.
    pub safe: bool,
    /// In whose name the host sends it; see [`Request::as_pod`].
    pub identity: Option<String>,
}

/// How a server is trusted, and who we are. No `Debug`: it holds a key.
#[derive(Clone, Default, PartialEq)]
pub struct Tls {
    /// PEM; the public roots unless set, and these alone where they are.
    pub root_certificates: Option<String>,
    /// PEM, together with its key.
    pub client_certificate: Option<String>,
    /// PEM.
    pub client_key: Option<String>,
    /// The name that the certificate must bear, where it is not the URL's host.
    pub server_name: Option<String>,
}

impl Request {
    /// A request of any method but `CONNECT` and `TRACE`.
    #[must_use]
    pub fn new(method: &str, url: &str) -> Self {
        Self { method: method.to_owned(), url: url.to_owned(), ..Self::default() }
    }

    /// A GET.
    #[must_use]
    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// A POST.
    #[must_use]
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// A POST that changes nothing, such as to a token endpoint: the call may be run again after
    /// it, and send it again.
    #[must_use]
    pub fn asking(url: &str) -> Self {
        Self { safe: true, ..Self::post(url) }
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says that `value` stands in url, headers or body and may be shown nowhere.
    #[must_use]
    pub fn secret(mut self, value: &str) -> Self {
        self.secrets.push(value.to_owned());
        self
    }

    /// With a body of JSON.
    ///
    /// # Errors
    /// Internal when `body` cannot be written as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Result<Self, Failure> {
        self.body = serde_json::to_vec(body)
            .map_err(|_| Failure::internal("the request's body cannot be written as JSON"))?;
        Ok(self.header("content-type", "application/json"))
    }

    /// With a body of pairs, as HTML forms and OAuth's endpoints write them.
    #[must_use]
    pub fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| format!("{}={}", encoded(name), encoded(value));
        self.body = pairs.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes();
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    /// With an access token, which is a secret.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}")).secret(token)
    }

    /// With how the server is trusted, and who we are.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sent in the name of the pod that the server is: with its token, which no plugin sees, to its
    /// cluster, whose URL begins with [`Pod::url`](crate::host::Pod::url), and nowhere else. The
    /// pod's authority is trusted unless [`Tls::root_certificates`] are given, and a request with
    /// an `authorization` header of its own keeps that. Needs the grant `ambient:pod-identity`.
    #[must_use]
    pub fn as_pod(mut self) -> Self {
        self.identity = Some(POD.to_owned());
        self
    }

    /// Given up after so many milliseconds.
    #[must_use]
    pub fn timeout(mut self, milliseconds: u32) -> Self {
        self.timeout = milliseconds;
        self
    }
}

/// A server's answer, of any status. No `Debug`: it may hold a token.
#[derive(Clone, Default, PartialEq)]
pub struct Response {
    /// The status. A redirect is an answer like any other.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// What came.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// Unreachable when it has not the shape of `T`: another server answered than was meant. The
    /// body is not quoted.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|_| {
            let status = self.status;
            Failure::new(
                Kind::Unreachable,
                format!("the server's answer (status {status}) is not the JSON that it should be"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_body_says_what_it_is() {
        let json = Request::post("https://a").json(&json!({"a": 1})).unwrap();
        assert_eq!(json.headers, [("content-type".to_owned(), "application/json".to_owned())]);
        assert_eq!(json.body, br#"{"a":1}"#);
        let form = Request::asking("https://a").form(&[("scope", "a/.default b"), ("x", "1&y=2")]);
        assert_eq!(form.body, b"scope=a%2F.default%20b&x=1%26y%3D2");
        let bearer = Request::get("https://a").bearer("t-1");
        assert_eq!(bearer.headers, [("authorization".to_owned(), "Bearer t-1".to_owned())]);
        assert_eq!(bearer.secrets, ["t-1"]);
    }

    #[test]
    fn an_answer_that_is_not_json_is_not_quoted() {
        let answer = Response { status: 200, body: b"hunter2".to_vec(), ..Response::default() };
        let why = answer.json::<Value>().unwrap_err();
        assert_eq!(why.kind, Kind::Unreachable);
        assert!(!why.message.contains("hunter2"));
    }
}
