//! The part of a description about plain HTTP.

use super::{is_false, is_zero};
use serde::{Deserialize, Serialize};

/// Headers and body size a component receives with plain HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAccess {
    /// Names of headers, in lower case. Headers with cookies or host tokens are refused.
    pub headers: Vec<String>,
    /// The subset of `headers` with secret values. The audit log shows only hashes of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_headers: Vec<String>,
    /// Largest body in bytes of a caller that the component names; 0 means 1 MiB. Bodies of other
    /// callers have at most 64 KiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body_limit: u64,
    /// Paths that the audit log shows: words, and captures such as `:name`. A segment that is
    /// neither a word nor such a capture is shown as a hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The component names the callers that it knows, and answers the run `identify`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub identifies: bool,
}
