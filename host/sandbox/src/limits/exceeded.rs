//! What a guest is stopped with when it goes over a limit of its call.

use std::fmt;

/// A limit of its call that a guest went over: the call is stopped there.
#[derive(Debug)]
pub(crate) struct Exceeded {
    /// As a grant words the limit, without `limit:`.
    pub(crate) word: &'static str,
    /// What it allows, with its unit.
    pub(crate) bound: String,
}

impl Exceeded {
    /// Of a limit that is a count of something.
    pub(crate) fn count(word: &'static str, most: impl fmt::Display) -> Self {
        Self { word, bound: most.to_string() }
    }

    /// Of a limit in bytes.
    pub(crate) fn size(word: &'static str, bytes: usize) -> Self {
        let bound = match bytes {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
            bytes => bytes.to_string(),
        };
        Self { word, bound }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}={}", self.word, self.bound)
    }
}

impl std::error::Error for Exceeded {}
