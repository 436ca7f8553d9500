//! Headers and body size of plain HTTP requests that reach an engine.

use bulkhead_wire::description;

/// Headers and body size that an engine reads of plain HTTP requests.
#[derive(Clone, Copy, Debug)]
pub struct RawAccess {
    /// Names of the headers, in lower case.
    pub headers: &'static [&'static str],
    /// Names of the headers with secret values.
    pub secret_headers: &'static [&'static str],
    /// Maximum body size in bytes; 0 means 1 MiB.
    pub body_limit: u64,
}

impl RawAccess {
    pub(crate) fn described(self) -> description::RawAccess {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        description::RawAccess {
            headers: owned(self.headers),
            secret_headers: owned(self.secret_headers),
            body_limit: self.body_limit,
        }
    }
}
