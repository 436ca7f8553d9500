//! Plain HTTP below the mount, for an engine that authenticates its callers itself.
//!
//! The host serves the rows of the engine's table as always. Each request on another path goes to
//! [`RawEngine::serve`], without a token of the host. An engine that lets a request wait answers a
//! [`Park`]: the host holds the request, without an instance, and runs it again when a record that
//! the request waits for is written.

use crate::call::Mount;
use crate::database_plugin::StoreTime;
use crate::engine::SecretsEngine;
use crate::host::Host;
use bulkhead_wire::failure::Failure;
use std::time::Duration;

pub use crate::raw_access::RawAccess;

/// A secrets engine that answers plain HTTP. It says in [`SecretsEngine::RAW`] which headers it
/// reads; the crate enables the SDK's feature `raw`.
pub trait RawEngine: SecretsEngine {
    /// Serves one request.
    ///
    /// # Errors
    /// The caller is told the failure as text. After a conflict the host runs the request again.
    fn serve(host: &dyn Host, request: &Request) -> Result<Reply, Failure>;
}

/// One request of plain HTTP. No `Debug`: headers and body may hold secrets.
#[derive(Clone)]
pub struct Request {
    /// Request id, also in the logs.
    pub id: String,
    /// As it was sent: `GET`, `HEAD`, `PURGE` …
    pub method: String,
    /// Path of the mount's root in the URL, with a slash at both ends: `/` or `/v1/acl/`.
    pub base: String,
    /// Path behind `base` as it was sent: escapes, empty and dot segments included.
    pub path: String,
    /// Query as it was sent, without the question mark.
    pub query: String,
    /// The described headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bytes as they came.
    pub body: Vec<u8>,
    /// Why the request runs.
    pub run: Run,
    /// The call is stopped at this time.
    pub deadline: StoreTime,
    /// The peer's address without a port.
    pub remote_address: String,
    /// The mount that is called.
    pub mount: Mount,
}

/// Why a request runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// It came.
    #[default]
    First,
    /// It was parked, and one of its keys was written.
    Changed,
    /// It was parked, and its wait is over: it must be answered now.
    Elapsed,
}

impl Run {
    /// The run behind a word of the contract. A word that only a later host knows is a run that
    /// must be answered.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "first" => Self::First,
            "changed" => Self::Changed,
            _ => Self::Elapsed,
        }
    }
}

/// An HTTP answer. No `Debug`: the body may hold a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// 200 to 599.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Bytes as they go out, before compression.
    pub body: Vec<u8>,
    /// Holds the request instead of answering it.
    pub park: Option<Park>,
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// Keys of the mount's storage, 1 to 64.
    pub keys: Vec<String>,
    /// The request runs again after a commit of a higher index that put or deleted one of the keys.
    pub after: u64,
    /// The request runs again after this time in any case. At most 11 minutes.
    pub wait: Duration,
}
