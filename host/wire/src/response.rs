//! The answer to the client: a status and a body.

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
}

impl Response {
    /// Returns the answer to a failure. An empty message stands for an object that does not exist:
    /// `errors: []`.
    #[must_use]
    pub fn failed(failure: &Failure) -> Self {
        let errors = Some(failure.message.clone()).filter(|message| !message.is_empty());
        let body = match errors {
            Some(advice) if failure.is_warning => ResponseBody::Advice(advice),
            errors => ResponseBody::Errors(errors.into_iter().collect()),
        };
        Self { status: failure.kind.status(), body, retry_after: failure.retry_after }
    }

    /// Returns 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self { status: 204, body: ResponseBody::Empty, retry_after: None }
    }

    /// Returns 200 with `data` in an envelope, without a lease.
    #[must_use]
    pub fn data(request_id: impl Into<String>, data: Map<String, Value>) -> Self {
        let envelope =
            Envelope { request_id: request_id.into(), data: Some(data), ..Envelope::default() };
        Self { status: 200, body: ResponseBody::Envelope(Box::new(envelope)), retry_after: None }
    }

    /// Returns JSON without an envelope.
    #[must_use]
    pub fn bare(status: u16, value: Value) -> Self {
        Self { status, body: ResponseBody::Bare(value), retry_after: None }
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
            _ => {
                let (status, content_type, bytes) = self.into_bytes();
                (status, content_type, ResponseBytes::Own(bytes))
            }
        }
    }

    /// Returns status, content type and bytes. Bytes shared with other answers are copied.
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
mod tests {
    use super::*;

    fn text(response: Response) -> (u16, String, String) {
        let (status, content_type, bytes) = response.into_bytes();
        (status, content_type, String::from_utf8(bytes).unwrap())
    }

    fn answer(status: u16, body: &str) -> (u16, String, String) {
        (status, "application/json".to_owned(), body.to_owned())
    }

    #[test]
    fn a_failure_is_a_list_of_errors() {
        let failure =
            Failure { retry_after: Some(1500), ..Failure::invalid("ttl \"x\"\nis wrong") };
        let response = Response::failed(&failure);
        assert_eq!(response.retry_after, Some(1500));
        assert_eq!(text(response), answer(400, r#"{"errors":["ttl \"x\"\nis wrong"]}"#));
    }

    #[test]
    fn missing_object_is_404_without_error_text() {
        assert_eq!(text(Response::failed(&Failure::absent())), answer(404, r#"{"errors":[]}"#));
    }

    #[test]
    fn moved_path_is_error_and_warning() {
        let expected = r#"{"errors":["use secret/data/a"],"warnings":["use secret/data/a"]}"#;
        let moved = Response::failed(&Failure::moved("use secret/data/a"));
        assert_eq!(text(moved), answer(404, expected));
    }

    #[test]
    fn nothing_to_say_is_204_without_a_byte() {
        assert_eq!(text(Response::no_content()), answer(204, ""));
    }

    #[test]
    fn data_has_envelope_and_bare_answers_have_none() {
        let data = Map::from_iter([("keys".to_owned(), json!([]))]);
        let (status, content_type, body) = text(Response::data("5e1c", data));
        assert_eq!((status, content_type.as_str()), (200, "application/json"));
        assert!(
            body.starts_with(r#"{"request_id":"5e1c","lease_id":"","#)
                && body.contains(r#""data":{"keys":[]}"#)
        );
        assert_eq!(
            text(Response::bare(503, json!({ "sealed": true }))),
            answer(503, r#"{"sealed":true}"#)
        );
    }

    #[test]
    fn envelope_keys_win_over_copied_data() {
        let data = json!({ "team/": { "type": "kv" }, "auth": "not this" }).as_object().cloned();
        let envelope = Envelope { request_id: "5e1c".to_owned(), data, ..Envelope::default() };
        let response = Response {
            status: 200,
            body: ResponseBody::Copied(Box::new(envelope)),
            retry_after: None,
        };
        let body: Value = serde_json::from_str(&text(response).2).unwrap();
        assert_eq!((&body["team/"], &body["auth"]), (&json!({ "type": "kv" }), &Value::Null));
        assert_eq!(
            (&body["request_id"], &body["data"]["auth"]),
            (&json!("5e1c"), &json!("not this"))
        );
    }

    #[test]
    fn listing_stands_in_envelope_like_other_data() {
        let data = json!({ "keys": ["a", "b"], "key_info": { "a": { "n": 1 }, "b": {} } });
        let envelope = Envelope {
            request_id: "\"data\":null,\\\"data\\\":null".to_owned(),
            warnings: vec!["\"data\":null".to_owned()],
            ..Envelope::default()
        };
        let full_envelope = Envelope { data: data.as_object().cloned(), ..envelope.clone() };
        let listing = Listing {
            keys: data["keys"].to_string(),
            key_info: Some(data["key_info"].to_string()),
            entries: 2,
            room: None,
        };
        let answered = |body| text(Response { status: 200, body, retry_after: None });
        let listed = answered(ResponseBody::Listed(Box::new(envelope), listing));
        assert_eq!(listed, answered(ResponseBody::Envelope(Box::new(full_envelope))));
    }

    #[test]
    fn only_published_documents_may_be_cached() {
        let body = ResponseBody::Published { document: json!({ "keys": [] }), max_age: 3_600 };
        let published = Response { status: 200, body, retry_after: None };
        assert_eq!(published.max_age(), Some(3_600));
        assert_eq!(text(published), answer(200, r#"{"keys":[]}"#));
        assert_eq!(Response::bare(200, json!({})).max_age(), None);
    }

    #[test]
    fn a_document_is_shared_by_its_answers() {
        let document = Arc::new(b"{}".to_vec());
        let response = || Response {
            status: 200,
            body: ResponseBody::Document(document.clone()),
            retry_after: None,
        };
        let (_, _, content) = response().into_content();
        assert!(matches!(content, ResponseBytes::Shared(bytes) if Arc::ptr_eq(&bytes, &document)));
        assert_eq!(text(response()), answer(200, "{}"));
    }

    #[test]
    fn raw_bytes_keep_their_type() {
        let body =
            ResponseBody::Raw { content_type: "text/plain".to_owned(), bytes: b"hi".to_vec() };
        let response = Response { status: 202, body, retry_after: None };
        assert_eq!(response.into_bytes(), (202, "text/plain".to_owned(), b"hi".to_vec()));
    }

    #[test]
    fn wrapped_answer_releases_only_wrapping_token() {
        let wrap_info = Some(json!({ "token": "bhs.1" }));
        let envelope = Box::new(Envelope { wrap_info, ..Envelope::default() });
        let hidden = Box::new(ResponseBody::Bare(json!({ "password": "hunter2" })));
        let body = ResponseBody::Wrapped { envelope, hidden };
        let (status, _, bytes) = text(Response { status: 200, body, retry_after: None });
        assert!(status == 200 && bytes.contains("bhs.1") && !bytes.contains("hunter2"), "{bytes}");
    }

    #[test]
    fn a_logged_response_shows_no_body() {
        let secret = || json!({ "password": "hunter2" });
        let bodies = [
            ResponseBody::Envelope(Box::new(Envelope {
                data: secret().as_object().cloned(),
                ..Envelope::default()
            })),
            ResponseBody::Copied(Box::new(Envelope {
                data: secret().as_object().cloned(),
                ..Envelope::default()
            })),
            ResponseBody::Bare(secret()),
            ResponseBody::Raw { content_type: "text/plain".to_owned(), bytes: b"hunter2".to_vec() },
            ResponseBody::Unwrapped {
                content_type: "text/plain".to_owned(),
                bytes: b"hunter2".to_vec(),
            },
            ResponseBody::Wrapped {
                envelope: Box::default(),
                hidden: Box::new(ResponseBody::Bare(secret())),
            },
            ResponseBody::Errors(vec!["hunter2".to_owned()]),
            ResponseBody::Advice("hunter2".to_owned()),
        ];
        for body in bodies {
            let shown = format!("{:?}", Response { status: 200, body, retry_after: None });
            assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
        }
    }
}
