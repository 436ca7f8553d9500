//! Answers: JSON or nothing, with the headers that clients of the scheduler read.

use crate::query::ReadQuery;
use crate::refusal::Refusal;
use bulkhead_sdk::Failure;
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use std::time::Duration;

/// An answer with status 200.
pub struct Reply {
    /// JSON; `None` for an empty body without a content type.
    body: Option<Vec<u8>>,
    index: u64,
    is_read: bool,
    /// What a blocked read waits for, if the caller asked for an index that was not reached.
    pub park: Option<Park>,
    next_token: Option<String>,
}

/// A read that waits until one of the mount's keys is written after an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// Keys of the mount's storage.
    pub keys: Vec<String>,
    /// The index that the caller knows.
    pub after: u64,
    /// How long to wait at most.
    pub wait: Duration,
}

/// An answer ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    /// HTTP status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Bytes as they go out, before compression.
    pub body: Vec<u8>,
}

/// Headers have two names: the scheduler's own, and the name of the API document.
const PREFIXES: [&str; 2] = ["X-Nomad-", "X-Scheduler-"];

impl Reply {
    /// The answer of a read at `index`.
    ///
    /// # Errors
    /// Internal for what is no JSON.
    pub fn read(value: &impl Serialize, index: u64, is_pretty: bool) -> Result<Self, Refusal> {
        let body = Some(json(value, is_pretty)?);
        Ok(Self { body, index, is_read: true, park: None, next_token: None })
    }

    /// The answer of a write at `index` that shows what was written.
    ///
    /// # Errors
    /// Internal for what is no JSON.
    pub fn written(value: &impl Serialize, index: u64, is_pretty: bool) -> Result<Self, Refusal> {
        let body = Some(json(value, is_pretty)?);
        Ok(Self { body, index, is_read: false, park: None, next_token: None })
    }

    /// The answer of a write at `index` without an object.
    #[must_use]
    pub const fn done(index: u64) -> Self {
        Self { body: None, index, is_read: false, park: None, next_token: None }
    }

    /// Blocks the read on `keys` if the caller knows this index already.
    #[must_use]
    pub fn watching(mut self, keys: Vec<String>, query: &ReadQuery) -> Self {
        let is_known = query.index > 0 && self.index <= query.index;
        self.park = is_known.then(|| Park { keys, after: query.index, wait: query.wait });
        self
    }

    /// Tells where the next page begins.
    #[must_use]
    pub fn continued(mut self, next_token: Option<String>) -> Self {
        self.next_token = next_token;
        self
    }

    /// The answer as it is sent.
    #[must_use]
    pub fn sent(self) -> Sent {
        let mut headers = Vec::new();
        let mut tell = |name: &str, value: String| {
            headers.extend(PREFIXES.map(|prefix| (format!("{prefix}{name}"), value.clone())));
        };
        tell("Index", self.index.to_string());
        if self.is_read {
            tell("LastContact", "0".to_owned());
            tell("KnownLeader", "true".to_owned());
        }
        if let Some(next_token) = self.next_token {
            tell("NextToken", next_token);
        }
        let body = self.body.map(|body| {
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
            body
        });
        Sent { status: 200, headers, body: body.unwrap_or_default() }
    }
}

/// The value as JSON, compact or with four spaces and a newline at its end.
fn json(value: &impl Serialize, is_pretty: bool) -> Result<Vec<u8>, Refusal> {
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
