//! Input, output and environment of a command, replaceable in tests.

use crate::keyboard::HideInput;
use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::Path;

/// A function that reads a snapshot to the end and checks its digests. Returns a line about the
/// snapshot, or the reason why the file is not a complete snapshot.
pub type SnapshotInspector<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// The place of the data of a server that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePlace<'a> {
    /// A data directory with a file of SQLite.
    Directory(&'a Path),
    /// The database in this configuration file of the server.
    Configuration(&'a Path),
}

/// A function that restores a snapshot into the data of a server that does not run: place,
/// snapshot, and whether data at the place may be replaced. Returns a line about the place and the
/// snapshot, or the reason why the data are unchanged.
pub type DataRestorer<'a> = &'a dyn Fn(RestorePlace<'_>, &Path, bool) -> Result<String, String>;

/// The streams and variables of a command.
pub struct CommandIo<'a> {
    /// Standard input, read only for `-` or for a secret that is not on the command line.
    pub stdin: &'a mut dyn BufRead,
    /// Output for answers.
    pub stdout: &'a mut dyn Write,
    /// Output for errors and warnings.
    pub stderr: &'a mut dyn Write,
    /// Standard output is a terminal.
    pub terminal: bool,
    /// Hides typed characters. `None` if standard input is not a terminal.
    pub hide: Option<HideInput<'a>>,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
    /// Checks a snapshot that was saved or is to be restored.
    pub inspect_snapshot: SnapshotInspector<'a>,
    /// Restores a snapshot without a server.
    pub restore_data: DataRestorer<'a>,
}
