//! Failures of a command, with message and exit code.

use std::fmt;

/// An error message for standard error, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandProblem {
    /// 0: the message is the output that was asked for. 1: refused or failed by the server. 2:
    /// wrong usage, server not reachable, or nothing at a path (decision P16).
    pub(crate) code: u8,
    /// Complete lines.
    pub(crate) message: String,
}

impl CommandProblem {
    /// An unusable command line, file or environment variable.
    pub(crate) fn usage(why: impl fmt::Display) -> Self {
        Self { code: 2, message: format!("Error: {why}") }
    }

    /// No answer from the server. `doing` names the action, for example `reading
    /// database/config/orders`.
    pub(crate) fn unreachable(doing: &str, why: impl fmt::Display) -> Self {
        Self { code: 2, message: format!("Error {doing}: {why}") }
    }

    /// A refusal by the server, or an invalid answer.
    pub(crate) fn refused(doing: &str, why: impl fmt::Display) -> Self {
        Self { code: 1, message: format!("Error {doing}: {why}") }
    }

    /// The text that the caller asked for instead of an answer of the server. The text goes to
    /// standard output.
    #[must_use]
    pub(crate) fn instead_of_asking(text: String) -> Self {
        Self { code: 0, message: text }
    }

    /// Nothing exists at `path`. Vault's commands end with exit code 2 here, and scripts test for
    /// the code.
    #[must_use]
    pub(crate) fn nothing_at(path: &str) -> Self {
        Self { code: 2, message: format!("nothing exists at {path}") }
    }

    /// Standard output is closed or full. The command succeeded, but its output is lost.
    #[must_use]
    pub(crate) fn unwritable(error: std::io::Error) -> Self {
        Self { code: 1, message: format!("Error: standard output cannot be written: {error}") }
    }
}
