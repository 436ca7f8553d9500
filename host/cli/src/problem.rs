//! Why a command did not do what it was asked, and with which exit code it ends.

use std::fmt;

/// What goes to standard error, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// 1 refused or failed by the server, 2 wrong usage or server not reachable (decision P16).
    pub(crate) code: u8,
    /// A whole line or lines.
    pub(crate) message: String,
}

impl Problem {
    /// The command line, a file it names or the environment is not usable.
    pub(crate) fn usage(why: impl fmt::Display) -> Self {
        Self { code: 2, message: format!("Error: {why}") }
    }

    /// No answer came. `doing` is like `reading database/config/orders`.
    pub(crate) fn unreachable(doing: &str, why: impl fmt::Display) -> Self {
        Self { code: 2, message: format!("Error {doing}: {why}") }
    }

    /// An answer came, and it says no or makes no sense.
    pub(crate) fn refused(doing: &str, why: impl fmt::Display) -> Self {
        Self { code: 1, message: format!("Error {doing}: {why}") }
    }

    /// Standard output is closed or full: what was asked is done, but the caller cannot see it.
    #[must_use]
    pub(crate) fn unwritable(error: std::io::Error) -> Self {
        Self { code: 1, message: format!("Error: standard output cannot be written: {error}") }
    }
}
