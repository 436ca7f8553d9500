//! The parts of a request of plain HTTP that reach an engine.

use bulkhead_wire::description;

/// The parts that an engine reads of the requests that it answers as plain HTTP.
#[derive(Clone, Copy, Debug)]
pub struct RawAccess {
    /// Names of headers, in lower case.
    pub headers: &'static [&'static str],
    /// The headers among them whose values are secrets.
    pub secret_headers: &'static [&'static str],
    /// Largest body in bytes; 0 means 1 MiB.
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
