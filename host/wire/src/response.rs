//! The answer to the client: a status and a body.

use crate::byte_stream::ByteStream;
use crate::envelope::Envelope;
use crate::failure::Failure;
use crate::listing::Listing;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// The exact content type: clients compare for equality, and drop the errors if a charset follows.
const JSON: &str = "application/json";

/// Initial buffer of an ordinary answer, in bytes, so that the buffer rarely has to grow.
const INITIAL_BUFFER_BYTES: usize = 1 << 10;

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: ResponseBody,
    /// Milliseconds until the client should retry.
    pub retry_after: Option<u64>,
    /// Value of `X-Vault-Index`: the state that the answer includes, if nodes share the data.
    pub state: Option<String>,
}

/// The body of an answer.
#[derive(Clone, PartialEq)]
pub enum ResponseBody {
    /// No bytes.
    Empty,
    /// The ordinary answer.
    Envelope(Box<Envelope>),
    /// An envelope with a listing as its `data`.
    Listed(Box<Envelope>, Listing),
    /// An envelope whose `data` members are repeated at the top level, for old scripts (decision
    /// H3). The envelope's own keys win.
    Copied(Box<Envelope>),
    /// JSON without an envelope, for `sys/health` and its like (decision H3).
    Bare(Value),
    /// JSON without an envelope, cacheable by every client and proxy: not secret, and the same for
    /// all callers.
    Published {
        /// The document.
        document: Value,
        /// Maximum time in a cache, in seconds.
        max_age: u64,
    },
    /// JSON without an envelope, shared by many answers, so that a thousand answers take the memory
    /// of a single answer.
    Document(Arc<Vec<u8>>),
    /// Bytes answered by a component, unchanged.
    Raw {
        /// Value of `Content-Type`.
        content_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes made while the answer is sent. Never wrapped, and never stored.
    Streamed {
        /// Value of `Content-Type`.
        content_type: String,
        /// The bytes.
        stream: ByteStream,
    },
    /// An envelope with a wrapping token, which leaves in place of the answer.
    Wrapped {
        /// The envelope that leaves.
        envelope: Box<Envelope>,
        /// The wrapped answer, for the audit alone.
        hidden: Box<ResponseBody>,
    },
    /// The answer of an earlier request, unchanged.
    Unwrapped {
        /// Value of `Content-Type`.
        content_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// `{"errors": […]}`.
    Errors(Vec<String>),
    /// `{"errors": […], "warnings": […]}`, with the same text in both lists.
    Advice(String),
}

/// The bytes of an answer.
pub enum ResponseBytes {
    /// Bytes owned by this answer.
    Own(Vec<u8>),
    /// Bytes shared with other answers.
    Shared(Arc<Vec<u8>>),
    /// Bytes made while the answer is sent.
    Streamed(ByteStream),
}

impl Response {
    /// Returns an answer without further headers.
    #[must_use]
    pub fn new(status: u16, body: ResponseBody) -> Self {
        Self { status, body, retry_after: None, state: None }
    }

    /// Returns the answer to a failure. An empty message stands for an object that does not exist:
    /// `errors: []`.
    #[must_use]
    pub fn failed(failure: &Failure) -> Self {
        let errors = Some(failure.message.clone()).filter(|message| !message.is_empty());
        let body = match errors {
            Some(advice) if failure.is_warning => ResponseBody::Advice(advice),
            errors => ResponseBody::Errors(errors.into_iter().collect()),
        };
        let retry_after = failure.retry_after;
        Self { retry_after, ..Self::new(failure.kind.status(), body) }
    }

    /// Returns 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self::new(204, ResponseBody::Empty)
    }

    /// Returns 200 with `data` in an envelope, without a lease.
    #[must_use]
    pub fn data(request_id: impl Into<String>, data: Map<String, Value>) -> Self {
        let envelope =
            Envelope { request_id: request_id.into(), data: Some(data), ..Envelope::default() };
        Self::new(200, ResponseBody::Envelope(Box::new(envelope)))
    }

    /// Returns JSON without an envelope.
    #[must_use]
    pub fn bare(status: u16, value: Value) -> Self {
        Self::new(status, ResponseBody::Bare(value))
    }

    /// Returns how long the answer may be cached, in seconds; `None`: not at all.
    #[must_use]
    pub fn max_age(&self) -> Option<u64> {
        match self.body {
            ResponseBody::Published { max_age, .. } => Some(max_age),
            _ => None,
        }
    }

    /// Returns status, content type and bytes, for the listener.
    #[must_use]
    pub fn into_content(self) -> (u16, String, ResponseBytes) {
        match self.body {
            ResponseBody::Document(bytes) => {
                (self.status, JSON.to_owned(), ResponseBytes::Shared(bytes))
            }
            ResponseBody::Streamed { content_type, stream } => {
                (self.status, content_type, ResponseBytes::Streamed(stream))
            }
            _ => {
                let (status, content_type, bytes) = self.into_bytes();
                (status, content_type, ResponseBytes::Own(bytes))
            }
        }
    }

    /// Returns status, content type and bytes. Bytes shared with other answers are copied. Bytes
    /// made while they are sent are not at hand, and give 500.
    #[must_use]
    pub fn into_bytes(self) -> (u16, String, Vec<u8>) {
        let (content_type, bytes) = match self.body {
            ResponseBody::Empty => (JSON.to_owned(), Vec::new()),
            ResponseBody::Envelope(envelope) | ResponseBody::Wrapped { envelope, .. } => {
                match write_envelope(&envelope) {
                    Ok(bytes) => (JSON.to_owned(), bytes),
                    Err(_) => return write_failure(),
                }
            }
            ResponseBody::Listed(envelope, listing) => match write_listing(&envelope, &listing) {
                Some(bytes) => (JSON.to_owned(), bytes),
                None => return write_failure(),
            },
            ResponseBody::Copied(envelope) => match write_copied(&envelope) {
                Ok(bytes) => (JSON.to_owned(), bytes),
                Err(_) => return write_failure(),
            },
            ResponseBody::Bare(value) | ResponseBody::Published { document: value, .. } => {
                (JSON.to_owned(), value.to_string().into_bytes())
            }
            ResponseBody::Document(bytes) => (JSON.to_owned(), Arc::unwrap_or_clone(bytes)),
            ResponseBody::Raw { content_type, bytes }
            | ResponseBody::Unwrapped { content_type, bytes } => (content_type, bytes),
            ResponseBody::Streamed { .. } => return write_failure(),
            ResponseBody::Errors(list) => (JSON.to_owned(), errors(&list)),
            ResponseBody::Advice(text) => {
                let body = json!({ "errors": [text], "warnings": [text] });
                (JSON.to_owned(), body.to_string().into_bytes())
            }
        };
        (self.status, content_type, bytes)
    }
}

/// Returns 500. An envelope has only text keys, so a failure to write the envelope is a bug of the
/// server and must not look like success.
fn write_failure() -> (u16, String, Vec<u8>) {
    (500, JSON.to_owned(), errors(&["the answer could not be written".to_owned()]))
}

fn write_envelope(envelope: &Envelope) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_BUFFER_BYTES);
    serde_json::to_writer(&mut bytes, envelope)?;
    Ok(bytes)
}

/// Writes the envelope with the listing in place of `data`, which is `None`. The first match is
/// always the envelope's own key: no text before can contain these bytes, because quotes in texts
/// are escaped.
fn write_listing(envelope: &Envelope, listing: &Listing) -> Option<Vec<u8>> {
    let text = serde_json::to_string(envelope).ok()?;
    let (before, behind) = text.split_once("\"data\":null")?;
    let mut bytes = Vec::with_capacity(text.len() + listing.bytes() + INITIAL_BUFFER_BYTES);
    bytes.extend_from_slice(before.as_bytes());
    bytes.extend_from_slice(b"\"data\":");
    listing.write(&mut bytes);
    bytes.extend_from_slice(behind.as_bytes());
    Some(bytes)
}

fn write_copied(envelope: &Envelope) -> serde_json::Result<Vec<u8>> {
    let mut all = envelope.data.clone().unwrap_or_default();
    if let Value::Object(members) = serde_json::to_value(envelope)? {
        all.extend(members);
    }
    serde_json::to_vec(&all)
}

fn errors(list: &[String]) -> Vec<u8> {
    json!({ "errors": list }).to_string().into_bytes()
}

/// Shows the kind and size of a body, never its content.
impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Envelope(envelope) | Self::Copied(envelope) => envelope.fmt(f),
            Self::Listed(envelope, listing) => write!(f, "{envelope:?} {listing:?}"),
            Self::Bare(_) => f.write_str("Bare"),
            Self::Published { max_age, .. } => write!(f, "Published(for {max_age}s)"),
            Self::Document(bytes) => write!(f, "Document({} bytes)", bytes.len()),
            Self::Raw { content_type, bytes } => {
                write!(f, "Raw({content_type}, {} bytes)", bytes.len())
            }
            Self::Streamed { content_type, .. } => write!(f, "Streamed({content_type})"),
            Self::Wrapped { .. } => f.write_str("Wrapped"),
            Self::Unwrapped { content_type, bytes } => {
                write!(f, "Unwrapped({content_type}, {} bytes)", bytes.len())
            }
            Self::Errors(list) => write!(f, "Errors({})", list.len()),
            Self::Advice(_) => f.write_str("Advice"),
        }
    }
}

#[cfg(test)]
mod tests;
