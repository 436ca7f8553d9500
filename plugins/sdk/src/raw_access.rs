//! Headers, body size and shown paths of plain HTTP requests that reach an engine.

use bulkhead_wire::description;

/// The parts of plain HTTP requests that an engine reads, and the parts that the audit log shows.
#[derive(Clone, Copy, Debug)]
pub struct RawAccess {
    /// Names of the headers, in lower case.
    pub headers: &'static [&'static str],
    /// Names of the headers with secret values.
    pub secret_headers: &'static [&'static str],
    /// Maximum body size in bytes for a caller that the engine names; 0 means 1 MiB. The host reads
    /// at most 64 KiB of other callers.
    pub body_limit: u64,
    /// Paths that the audit log shows, relative to the mount's root: words, and captures such as
    /// `:name` whose values are never secret. The log shows a hash of every other segment.
    pub paths: &'static [&'static str],
    /// The engine implements [`RawEngine::identify`](crate::raw::RawEngine::identify) and names its
    /// callers in replies. A caller without a name counts as unauthenticated.
    pub identifies: bool,
}

impl RawAccess {
    pub(crate) fn described(self) -> description::RawAccess {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        description::RawAccess {
            headers: owned(self.headers),
            secret_headers: owned(self.secret_headers),
            body_limit: self.body_limit,
            paths: owned(self.paths),
            identifies: self.identifies,
        }
    }
}
