//! Limits of a call and its commits, with the defaults of host and component.
//!
//! This file prevents a component from being stopped at a limit that the component does not know: a
//! loop over host calls ends before the limit and goes on in the next call.

/// Maximum number of records put and deleted in a single commit, about 10 µs each.
pub const COMMIT_RECORDS: usize = 2_048;
/// Maximum bytes of bodies in a single commit, about 5 ms per MiB.
pub const COMMIT_BYTES: usize = 3 << 20;
/// Maximum number of records and listed keys read by a writing unit since the last checkpoint. The
/// committer reads each again while other commits wait, about 2 µs each.
pub const COMMIT_READS: usize = 24_576;

/// Prefix of the names of limits in the pairs of a context.
const PREFIX: &str = "limit-";

/// Limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum number of calls into the host.
    pub host_calls: u32,
    /// Maximum number of HTTP requests.
    pub http_calls: u32,
    /// Maximum bytes that HTTP requests send and receive.
    pub http_bytes: usize,
    /// Maximum bytes that the call writes, keys and values together.
    pub storage_bytes: usize,
}

impl CallLimits {
    /// The limits of a mount without grants of limits. Constants of components are held against
    /// these limits.
    pub const DEFAULT: Self =
        Self { host_calls: 100_000, http_calls: 20, http_bytes: 8 << 20, storage_bytes: 16 << 20 };

    /// Returns the limits as pairs of the contract: `limit-http-calls` and its value.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (format!("{PREFIX}{name}"), value);
        vec![
            pair("host-calls", self.host_calls.to_string()),
            pair("http-calls", self.http_calls.to_string()),
            pair("http-bytes", self.http_bytes.to_string()),
            pair("storage", self.storage_bytes.to_string()),
        ]
    }

    /// Reads the limits from pairs of the contract. A limit that an earlier host does not tell has
    /// its default.
    #[must_use]
    pub fn from_pairs(pairs: &[(String, String)]) -> Self {
        let mut limits = Self::DEFAULT;
        for (name, value) in pairs {
            limits.set(name.strip_prefix(PREFIX).unwrap_or_default(), value);
        }
        limits
    }

    /// Sets the limit with this name in a grant line. Ignores other names, and texts other than
    /// numbers.
    fn set(&mut self, name: &str, value: &str) {
        let size = || value.parse().ok();
        let count = || value.parse().ok();
        match name {
            "host-calls" => self.host_calls = count().unwrap_or(self.host_calls),
            "http-calls" => self.http_calls = count().unwrap_or(self.http_calls),
            "http-bytes" => self.http_bytes = size().unwrap_or(self.http_bytes),
            "storage" => self.storage_bytes = size().unwrap_or(self.storage_bytes),
            _ => {}
        }
    }

    /// Returns the default limits with the values of a component's own lines, such as
    /// `limit:http-calls=1000`: the limits of a mount of an official component without grants.
    #[must_use]
    pub fn asked(lines: &[&str]) -> Self {
        let mut limits = Self::DEFAULT;
        for (name, value) in lines
            .iter()
            .filter_map(|line| line.strip_prefix("limit:"))
            .filter_map(|line| line.split_once('='))
        {
            let bytes = crate::size::parse(value).map(|bytes| bytes.to_string());
            limits.set(name, bytes.as_deref().unwrap_or(value));
        }
        limits
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_limits_pass_the_contract_unchanged() {
        let limits = CallLimits { host_calls: 1, http_calls: 2, http_bytes: 3, storage_bytes: 4 };
        assert_eq!(CallLimits::from_pairs(&limits.to_pairs()), limits);
    }

    #[test]
    fn missing_call_limits_are_defaults() {
        let pairs = [("limit-http-calls", "many"), ("http-calls", "3"), ("limit-new", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(CallLimits::from_pairs(&pairs), CallLimits::DEFAULT);
    }

    #[test]
    fn call_limits_of_asks_are_read_with_units() {
        let limits = CallLimits::asked(&["http", "limit:http-calls=7", "limit:http-bytes=1MiB"]);
        let expected = CallLimits { http_calls: 7, http_bytes: 1 << 20, ..CallLimits::DEFAULT };
        assert_eq!(limits, expected);
    }
}
