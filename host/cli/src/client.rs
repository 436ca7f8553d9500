//! A single HTTP request to a single server.
//!
//! This file prevents a redirect from sending the token to another server: redirects are never
//! followed.

mod server_address;

pub(crate) use server_address::ServerAddress;

use crate::tls::{self, TlsTrust};
use bulkhead_wire::secret::Secret;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Timeout of a request. A synchronous revocation waits for its database.
pub(crate) const TIME: Duration = Duration::from_secs(120);

/// Minimum and maximum pause between repeated requests.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Maximum size of an answer, in bytes.
pub(crate) const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// Characters that are not escaped in a URL's query and path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PLAIN_PATH: &AsciiSet = &PLAIN.remove(b'/');

/// A request to the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerRequest {
    /// `GET`, `PUT`, `POST`, `PATCH` or `DELETE`. A list is a `GET` with `list=true`.
    pub(crate) method: Method,
    /// Path below `/v1/`, not escaped.
    pub(crate) path: String,
    /// Query parameters, not escaped.
    pub(crate) query: Vec<(String, String)>,
    /// Body, if any.
    pub(crate) body: Option<RequestBody>,
    /// An answer of plain text is accepted, such as metrics for Prometheus.
    pub(crate) may_answer_text: bool,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestBody {
    /// JSON fields.
    Json(Value),
    /// JSON fields that change parts of a record; null removes a part.
    MergePatch(Value),
    /// The bytes of a component.
    Component(Vec<u8>),
    /// The content of a file, which is read while it is sent.
    File(PathBuf),
}

impl ServerRequest {
    /// Creates a call without parameters or body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, query: Vec::new(), body: None, may_answer_text: false }
    }

    /// Adds a JSON body.
    #[must_use]
    pub(crate) fn with_fields(self, body: Value) -> Self {
        Self { body: Some(RequestBody::Json(body)), ..self }
    }

    /// Adds a body that changes parts of a record.
    #[must_use]
    pub(crate) fn with_merge_patch(self, body: Value) -> Self {
        Self { body: Some(RequestBody::MergePatch(body)), ..self }
    }

    /// Adds a component as the body.
    #[must_use]
    pub(crate) fn with_component(self, component: Vec<u8>) -> Self {
        Self { body: Some(RequestBody::Component(component)), ..self }
    }

    /// Adds a file as the body. Only `upload` sends such a request.
    #[must_use]
    pub(crate) fn with_file(self, file: PathBuf) -> Self {
        Self { body: Some(RequestBody::File(file)), ..self }
    }

    /// Returns true for a login, which needs no token.
    pub(crate) fn is_login(&self) -> bool {
        let is_below_auth = self.body.is_some() && self.path.starts_with("auth/");
        is_below_auth && self.path.split('/').any(|segment| segment == "login")
    }

    /// Returns the path and query of the request's URL, escaped.
    pub(crate) fn target(&self) -> String {
        let mut target =
            format!("/v1/{}", utf8_percent_encode(self.path.trim_matches('/'), PLAIN_PATH));
        for (index, (name, value)) in self.query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.extend(utf8_percent_encode(name, PLAIN));
            target.push('=');
            target.extend(utf8_percent_encode(value, PLAIN));
        }
        target
    }
}

/// An additional header of a request.
pub(crate) type ExtraHeader = (HeaderName, HeaderValue);

/// The identity of the caller.
pub(crate) struct RequestCaller {
    /// Token, if any.
    pub(crate) token: Option<Secret>,
    /// Namespace, if set.
    pub(crate) namespace: Option<String>,
    /// Additional headers.
    pub(crate) headers: Vec<ExtraHeader>,
}

/// The answer of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerAnswer {
    /// HTTP status.
    pub(crate) status: u16,
    /// JSON body; null if empty, and a text if the server answered plain text.
    pub(crate) body: Value,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AskError {
    /// The server could not be reached or did not answer.
    Unreachable(String),
    /// The answer did not come from a Bulkhead server, or was a redirect.
    InvalidAnswer(String),
}

/// Sends a request and returns the answer of any status. Repeats the request, with growing
/// pauses, until `last` accepts the answer.
///
/// # Errors
/// [`AskError`], with a message for the user.
pub(crate) fn ask(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
    last: &dyn Fn(&ServerAnswer) -> bool,
) -> Result<ServerAnswer, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        AskError::Unreachable(format!("the network runtime cannot start: {error}"))
    })?;
    let late =
        || AskError::Unreachable(format!("{server} did not answer within {} s", TIME.as_secs()));
    runtime.block_on(async {
        let mut pause = PAUSE_MIN;
        loop {
            let answer = tokio::time::timeout(TIME, send((server, trust), caller, call))
                .await
                .map_err(|_| late())??;
            if last(&answer) {
                return Ok(answer);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    })
}

/// A connection of any kind.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for T {}

pub(crate) async fn connect(
    server: &ServerAddress,
    trust: &TlsTrust,
) -> Result<Box<dyn ClientStream>, AskError> {
    let unreachable = |error: io::Error| {
        AskError::Unreachable(format!(
            "cannot reach {server}: {error}; is the server running?\n\
             Next: export BULKHEAD_ADDR=https://HOST:8200    # where your server listens\n\
             or:   bulkhead server -dev    # starts a server to try things out"
        ))
    };
    let (host, authority, is_encrypted) = match server {
        ServerAddress::Unix(path) => {
            return Ok(Box::new(UnixStream::connect(path).await.map_err(unreachable)?));
        }
        ServerAddress::Network { host, authority, is_encrypted } => {
            (host, authority, *is_encrypted)
        }
    };
    let wrong = AskError::Unreachable;
    let encrypting = match is_encrypted {
        true => Some((trust.client().map_err(wrong)?, trust.name_of(host).map_err(wrong)?)),
        false => None,
    };
    let stream = TcpStream::connect(authority.as_str()).await.map_err(unreachable)?;
    let Some((client, name)) = encrypting else { return Ok(Box::new(stream)) };
    match client.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(AskError::Unreachable(format!(
            "no connection to {server}: {}",
            tls::advice(&error).unwrap_or_else(|| error.to_string())
        ))),
    }
}

async fn send(
    (server, trust): (&ServerAddress, &TlsTrust),
    caller: &RequestCaller,
    call: &ServerRequest,
) -> Result<ServerAnswer, AskError> {
    let request = build_request(server, caller, call).map_err(AskError::Unreachable)?;
    let broken = |error| broken_connection(server, &error);
    let stream = connect(server, trust).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status().as_u16();
    refuse_redirect(server, &response)?;
    let is_text = call.may_answer_text && response.status().is_success() && is_plain(&response);
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| {
        AskError::Unreachable(format!("the answer of {server} ended early: {error}"))
    })?;
    connection.abort();
    match (is_text, &*body.to_bytes()) {
        (true, text) => Ok(ServerAnswer { status, body: String::from_utf8_lossy(text).into() }),
        (false, bytes) => parse_answer(status, bytes, server),
    }
}

/// Returns the error for a connection that broke.
pub(crate) fn broken_connection(server: &ServerAddress, error: &hyper::Error) -> AskError {
    let cause = tls::advice(error)
        .or_else(|| Some(error.source()?.to_string()))
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    AskError::Unreachable(format!("the connection to {server} broke: {error}{cause}"))
}

/// Returns true for an answer of plain text.
fn is_plain<B>(response: &Response<B>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/plain"))
}

/// Refuses a redirect, because the token may go only to the configured server.
pub(crate) fn refuse_redirect<B>(
    server: &ServerAddress,
    response: &Response<B>,
) -> Result<(), AskError> {
    let Some(target) = response.headers().get(LOCATION) else { return Ok(()) };
    if !response.status().is_redirection() {
        return Ok(());
    }
    Err(AskError::InvalidAnswer(format!(
        "{server} answered {} and redirects to {:?}, and no token is sent there; set BULKHEAD_ADDR \
         or -address to the right server",
        response.status().as_u16(),
        String::from_utf8_lossy(target.as_bytes())
    )))
}

pub(crate) fn build_request(
    server: &ServerAddress,
    caller: &RequestCaller,
    call: &ServerRequest,
) -> Result<Request<Full<Bytes>>, String> {
    let (content, body) = match &call.body {
        // `upload` adds the file.
        None | Some(RequestBody::File(_)) => (None, Bytes::new()),
        Some(RequestBody::Json(fields)) => {
            (Some("application/json"), Bytes::from(fields.to_string()))
        }
        Some(RequestBody::MergePatch(fields)) => {
            (Some("application/merge-patch+json"), Bytes::from(fields.to_string()))
        }
        Some(RequestBody::Component(bytes)) => {
            (Some("application/wasm"), Bytes::from(bytes.clone()))
        }
    };
    let builder = Request::builder()
        .method(call.method.clone())
        .uri(call.target())
        .header(HOST, server.host_header());
    let built = builder.header("x-vault-request", "true").body(Full::new(body));
    let mut request = built.map_err(|error| format!("the request cannot be written: {error}"))?;
    let headers = request.headers_mut();
    headers.extend(content.map(|content| (CONTENT_TYPE, HeaderValue::from_static(content))));
    headers.extend(caller.headers.iter().cloned());
    if let Some(token) = &caller.token {
        let mut value = HeaderValue::from_str(token.expose())
            .map_err(|_| "the token is not a header value".to_owned())?;
        value.set_sensitive(true);
        headers.insert("x-vault-token", value);
    }
    if let Some(namespace) = &caller.namespace {
        let value = HeaderValue::from_str(namespace)
            .map_err(|_| "the namespace is not a header value".to_owned())?;
        headers.insert("x-vault-namespace", value);
    }
    Ok(request)
}

pub(crate) fn parse_answer(
    status: u16,
    bytes: &[u8],
    server: &ServerAddress,
) -> Result<ServerAnswer, AskError> {
    if bytes.is_empty() {
        return Ok(ServerAnswer { status, body: Value::Null });
    }
    let body = serde_json::from_slice(bytes);
    let body = body.map_err(|_| {
        AskError::InvalidAnswer(format!(
            "{server} answered {status} with a body other than JSON: is this a Bulkhead server?"
        ))
    })?;
    Ok(ServerAnswer { status, body })
}

#[cfg(test)]
mod tests;
