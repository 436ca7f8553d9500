//! The world as a command sees it, so that a test can own it.

use crate::keyboard::Hide;
use std::ffi::OsString;
use std::io::{BufRead, Write};

/// Where a command reads, writes and looks variables up.
pub struct Io<'a> {
    /// Standard input, read only where `-` asks for it, or a key is not on the command line.
    pub stdin: &'a mut dyn BufRead,
    /// Answers.
    pub stdout: &'a mut dyn Write,
    /// Errors and warnings.
    pub stderr: &'a mut dyn Write,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    /// Where a person types on standard input: what keeps it from being shown.
    pub hide: Option<Hide<'a>>,
    /// Looks an environment variable up.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
}
