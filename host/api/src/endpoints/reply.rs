//! The answer of a handler to a permitted request.

use super::after_commit::AfterCommit;
use bulkhead_access::wrapping::ClientAnswer;
use bulkhead_wire::byte_stream::ByteStream;
use bulkhead_wire::envelope::AuthBlock;
use bulkhead_wire::listing::Listing;
use serde_json::{Map, Value};

/// The body of an answer.
pub(crate) enum ReplyBody {
    /// 204.
    Nothing,
    /// 202: the work goes on in the background.
    Accepted,
    /// `data` of the envelope.
    Data(Map<String, Value>),
    /// A listing as `data` of the envelope.
    Listed(Listing),
    /// `data`, with its members repeated at the top level.
    Copied(Map<String, Value>),
    /// JSON without an envelope.
    Bare(Value),
    /// A text without an envelope.
    Text { content_type: &'static str, text: String },
    /// Bytes made while the answer is sent, without an envelope.
    Streamed { content_type: &'static str, stream: ByteStream },
    /// `auth` of the envelope.
    Auth(Box<AuthBlock>),
    /// The answer of an earlier request.
    Unwrapped(ClientAnswer),
    /// `wrap_info` of the envelope.
    Wrapped(Value),
    /// A lease without data: a renewal.
    Lease { id: String, ttl: u64, renewable: bool },
}

/// An answer, with the action to run once the unit of work is committed.
pub(crate) struct Reply {
    pub(crate) body: ReplyBody,
    pub(crate) warnings: Vec<String>,
    pub(crate) after_commit: AfterCommit,
}

impl From<ReplyBody> for Reply {
    fn from(body: ReplyBody) -> Self {
        Self { body, warnings: Vec::new(), after_commit: AfterCommit::Nothing }
    }
}

impl Reply {
    /// Adds warnings to the answer.
    pub(super) fn with_warnings(self, warnings: impl IntoIterator<Item = String>) -> Self {
        Self { warnings: warnings.into_iter().collect(), ..self }
    }

    /// Adds an action that runs after the commit, before the answer leaves.
    pub(super) fn after_commit(self, after_commit: AfterCommit) -> Self {
        Self { after_commit, ..self }
    }
}
