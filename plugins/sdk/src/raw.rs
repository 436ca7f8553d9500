//! Plain HTTP below the mount, for an engine that authenticates its callers itself.
//!
//! The host serves the rows of the engine's table as always. Each request on another path goes to
//! [`RawEngine::serve`], without a token of the host. An engine that lets a request wait answers a
//! [`Park`]: the host holds the request without an instance, and runs it again after a write to a
//! record that the request waits for.

use crate::call::Mount;
use crate::database_plugin::StoreTime;
use crate::engine::SecretsEngine;
use crate::host::Host;
use bulkhead_wire::failure::Failure;
use std::time::Duration;

pub use crate::raw_access::RawAccess;

/// A secrets engine that answers plain HTTP. [`SecretsEngine::RAW`] lists the headers that the
/// engine reads; the crate enables the SDK's feature `raw`.
pub trait RawEngine: SecretsEngine {
    /// Serves a request.
    ///
    /// # Errors
    /// The caller receives the failure as text. After a conflict the host runs the request again.
    fn serve(host: &dyn Host, request: &RawRequest) -> Result<RawReply, Failure>;

    /// Returns the caller of a request, without a body, if the caller is known. The host asks
    /// before it receives a large body, if [`RawAccess::identifies`] is set.
    ///
    /// # Errors
    /// Failures of the host. After a conflict the host asks again.
    fn identify(host: &dyn Host, request: &RawRequest) -> Result<Option<RawCaller>, Failure> {
        let _ = (host, request);
        Ok(None)
    }
}

/// A request of plain HTTP. No `Debug`: headers and body may contain secrets.
#[derive(Clone)]
pub struct RawRequest {
    /// Request id, also used in the logs.
    pub id: String,
    /// Method as sent: `GET`, `HEAD`, `PURGE` …
    pub method: String,
    /// Path of the mount's root in the URL, with a slash at both ends: `/` or `/v1/acl/`.
    pub base: String,
    /// Path after `base` as sent: escapes, empty and dot segments included.
    pub path: String,
    /// Query as sent, without the question mark.
    pub query: String,
    /// Headers listed in [`RawAccess`], in the order sent, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body as received.
    pub body: Vec<u8>,
    /// Reason of the run.
    pub run: RunReason,
    /// Time at which the host stops the call.
    pub deadline: StoreTime,
    /// Address of the peer, without a port.
    pub remote_address: String,
    /// The called mount.
    pub mount: Mount,
}

/// Reason why a request runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunReason {
    /// The request arrived.
    #[default]
    First,
    /// The request was parked, and a record of its keys was written.
    Changed,
    /// The request was parked, and its wait has elapsed: the engine must answer now.
    Elapsed,
}

impl RunReason {
    /// Returns the run for a word of the contract. A word of a later host means a run that must be
    /// answered.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "first" => Self::First,
            "changed" => Self::Changed,
            _ => Self::Elapsed,
        }
    }
}

/// An HTTP answer. No `Debug`: the body may contain a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawReply {
    /// Status, 200 to 599.
    pub status: u16,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// Body before compression.
    pub body: Vec<u8>,
    /// Parks the request instead of answering.
    pub park: Option<Park>,
    /// The caller that the engine authenticated. The audit log names the caller, and the rate limit
    /// for unauthenticated callers does not count the request.
    pub caller: Option<Box<RawCaller>>,
}

/// A caller that an engine authenticated. Contains no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawCaller {
    /// Public identifier, such as the accessor of a token.
    pub accessor: String,
    /// Name for human readers; may be empty.
    pub display_name: String,
}

/// Wait of a parked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// Keys of the mount's storage, 1 to 64.
    pub keys: Vec<String>,
    /// A commit with a higher index that puts or deletes one of the keys makes the request run
    /// again.
    pub after: u64,
    /// Time after which the request runs again in any case; at most 11 minutes.
    pub wait: Duration,
}
