//! Answers: JSON or an empty body, with the headers that the scheduler's clients read.

use crate::query::ReadQuery;
use crate::refusal::ApiRefusal;
use bulkhead_sdk::Failure;
use bulkhead_sdk::raw::{Park, RawReply as Sent};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use std::time::Duration;

/// An answer of an endpoint.
pub(crate) struct ApiReply {
    status: u16,
    body: ApiReplyBody,
    /// `None` if the answer states no index.
    index: Option<u64>,
    is_read: bool,
    /// Keys that a blocking read waits for, if the index that the caller knows is still current.
    park: Option<Park>,
    next_token: Option<String>,
}

/// The body of an answer.
enum ApiReplyBody {
    /// An empty body without a content type.
    Nothing,
    Json(Vec<u8>),
    /// One sentence.
    Text(&'static str),
}

/// Prefixes of header names: the scheduler's own, and that of the API document.
const PREFIXES: [&str; 2] = ["X-Nomad-", "X-Scheduler-"];

impl ApiReply {
    fn new(body: ApiReplyBody, index: Option<u64>) -> Self {
        Self { status: 200, body, index, is_read: false, park: None, next_token: None }
    }

    /// Creates the answer to a read at `index`.
    ///
    /// # Errors
    /// Internal if the value cannot be serialized.
    pub(crate) fn read(
        value: &impl Serialize,
        index: u64,
        is_pretty: bool,
    ) -> Result<Self, ApiRefusal> {
        Ok(Self { is_read: true, ..Self::written(value, index, is_pretty)? })
    }

    /// Creates the answer to a read of a missing record, at the table's `index`.
    #[must_use]
    pub(crate) fn missing(text: &'static str, index: u64) -> Self {
        Self { status: 404, is_read: true, ..Self::new(ApiReplyBody::Text(text), Some(index)) }
    }

    /// Creates the answer to a write at `index` that shows the written record.
    ///
    /// # Errors
    /// Internal if the value cannot be serialized.
    pub(crate) fn written(
        value: &impl Serialize,
        index: u64,
        is_pretty: bool,
    ) -> Result<Self, ApiRefusal> {
        Ok(Self::new(ApiReplyBody::Json(json(value, is_pretty)?), Some(index)))
    }

    /// Creates an answer without an index.
    ///
    /// # Errors
    /// Internal if the value cannot be serialized.
    pub(crate) fn plain(value: &impl Serialize, is_pretty: bool) -> Result<Self, ApiRefusal> {
        Ok(Self::new(ApiReplyBody::Json(json(value, is_pretty)?), None))
    }

    /// Creates an answer without a body to a write at `index`.
    #[must_use]
    pub(crate) const fn done(index: u64) -> Self {
        let (status, body, index) = (200, ApiReplyBody::Nothing, Some(index));
        Self { status, body, index, is_read: false, park: None, next_token: None }
    }

    /// Creates an answer without body and index.
    #[must_use]
    pub(crate) const fn bare() -> Self {
        let body = ApiReplyBody::Nothing;
        Self { status: 200, body, index: None, is_read: false, park: None, next_token: None }
    }

    /// Makes the read wait for a change of `keys` if the caller knows this index already.
    #[must_use]
    pub(crate) fn watching(mut self, keys: Vec<String>, query: &ReadQuery, wait: Duration) -> Self {
        let is_known = query.index > 0 && self.index.is_some_and(|index| index <= query.index);
        self.park = is_known.then_some(Park { keys, after: query.index, wait });
        self
    }

    /// Adds the begin of the next page.
    #[must_use]
    pub(crate) fn continued(mut self, next_token: Option<String>) -> Self {
        self.next_token = next_token;
        self
    }

    /// Converts the answer to the form that is sent.
    #[must_use]
    pub(crate) fn sent(self) -> Sent {
        let mut headers = Vec::new();
        let mut add_header = |name: &str, value: String| {
            headers.extend(PREFIXES.map(|prefix| (format!("{prefix}{name}"), value.clone())));
        };
        if let Some(index) = self.index {
            add_header("Index", index.to_string());
        }
        if self.is_read {
            add_header("LastContact", "0".to_owned());
            add_header("KnownLeader", "true".to_owned());
        }
        if let Some(next_token) = self.next_token {
            add_header("NextToken", next_token);
        }
        let (kind, body) = match self.body {
            ApiReplyBody::Nothing => (None, Vec::new()),
            ApiReplyBody::Json(json) => (Some("application/json"), json),
            ApiReplyBody::Text(text) => (Some(PLAIN_TEXT), text.as_bytes().to_vec()),
        };
        headers.extend(kind.map(|kind| ("Content-Type".to_owned(), kind.to_owned())));
        Sent { status: self.status, headers, body, park: self.park, ..Sent::default() }
    }
}

/// Content type of plain sentences.
pub(crate) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Serializes the value: compact, or indented by four spaces and with a final newline.
fn json(value: &impl Serialize, is_pretty: bool) -> Result<Vec<u8>, ApiRefusal> {
    let written = if is_pretty {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(b"    ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        value.serialize(&mut serializer).map(|()| {
            bytes.push(b'\n');
            bytes
        })
    } else {
        serde_json::to_vec(value)
    };
    written.map_err(|error| Failure::internal(error.to_string()).into())
}
