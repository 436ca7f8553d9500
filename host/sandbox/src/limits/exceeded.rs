//! The error that stops a guest at a limit of its call.

use std::fmt;

/// A limit of a call that the guest exceeded. The call is stopped.
#[derive(Debug)]
pub(crate) struct ExceededLimit {
    /// Name of the limit in a grant line, without `limit:`.
    pub(crate) word: &'static str,
    /// The limit's value, with its unit.
    pub(crate) bound: String,
}

impl ExceededLimit {
    /// Makes the error of a limit that is a count.
    pub(crate) fn count(word: &'static str, most: impl fmt::Display) -> Self {
        Self { word, bound: most.to_string() }
    }

    /// Makes the error of a limit in bytes.
    pub(crate) fn size(word: &'static str, bytes: usize) -> Self {
        let bound = match bytes {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
            bytes => bytes.to_string(),
        };
        Self { word, bound }
    }
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}={}", self.word, self.bound)
    }
}

impl std::error::Error for ExceededLimit {}
