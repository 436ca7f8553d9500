//! The place of log lines: standard error or a file.
//!
//! This file prevents the loss of lines with a full or missing log file: such lines go to standard
//! error, which also says so once and counts the lines. A new file is readable by its owner and
//! group only.

use bulkhead_wire::log_level::LogLevel;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Variable by which systemd names the device and the inode of the journal's stream.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// Permissions of a new file.
const FILE_MODE: u32 = 0o640;

/// The place of log lines.
pub(super) struct LogDestination {
    /// Lines on standard error begin with a priority in angle brackets, which the journal removes.
    is_journal: bool,
    file: Option<LogFile>,
}

struct LogFile {
    path: PathBuf,
    /// `None` if the path could not be opened again.
    file: Option<File>,
    /// True from the first failed write to the next complete one.
    is_failing: bool,
    /// Number of lines that went to standard error since the file failed.
    diverted: u64,
    /// True if the last line of the file may lack its end.
    is_torn: bool,
}

impl LogDestination {
    /// Returns standard error.
    pub(super) fn stderr() -> Self {
        Self { is_journal: is_journal(std::env::var_os(JOURNAL_VARIABLE)), file: None }
    }

    /// Opens a file, or creates the file.
    ///
    /// # Errors
    /// The reason why the file cannot be written, and the remedy.
    pub(super) fn file(path: &Path) -> Result<Self, String> {
        let file = open(path).map_err(|error| {
            format!(
                "log_file {} cannot be opened: {error}; name a file that the server's user may \
                 write, or leave log_file out",
                path.display()
            )
        })?;
        let (path, file) = (path.to_path_buf(), Some(file));
        let file = LogFile { path, file, is_failing: false, diverted: 0, is_torn: false };
        Ok(Self { file: Some(file), ..Self::stderr() })
    }

    /// Opens the file again at its path.
    pub(super) fn reopen(&mut self) {
        let Some(file) = &mut self.file else { return };
        match open(&file.path) {
            Ok(opened) => {
                file.file = Some(opened);
                file.is_torn = false;
            }
            Err(error) => {
                file.file = None;
                self.divert(&error, None);
            }
        }
    }

    /// Writes a line with a single write, as far as the system allows.
    pub(super) fn write(&mut self, level: LogLevel, line: &str) {
        let Some(file) = &mut self.file else { return write_stderr(self.is_journal, level, line) };
        match file.append(line) {
            Ok(()) if file.is_failing => {
                let restored = format!(
                    "level=info event=log-file-restored file={} lines-on-stderr={}\n",
                    file.path.display(),
                    file.diverted
                );
                (file.is_failing, file.diverted) = (false, 0);
                write_stderr(self.is_journal, LogLevel::Info, &restored);
            }
            Ok(()) => {}
            Err(error) => self.divert(&error, Some((level, line))),
        }
    }

    /// Writes a line to standard error instead of the file, which failed with `error`.
    fn divert(&mut self, error: &io::Error, line: Option<(LogLevel, &str)>) {
        let Some(file) = &mut self.file else { return };
        if !file.is_failing {
            let failing = format!(
                "level=error event=log-file-failing file={} cause={:?}\n",
                file.path.display(),
                error.to_string()
            );
            write_stderr(self.is_journal, LogLevel::Error, &failing);
            file.is_failing = true;
        }
        if let Some((level, line)) = line {
            file.diverted += 1;
            write_stderr(self.is_journal, level, line);
        }
    }
}

impl LogFile {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("the file is not open"))?;
        let written = match self.is_torn {
            true => file.write_all(format!("\n{line}").as_bytes()),
            false => file.write_all(line.as_bytes()),
        };
        self.is_torn = written.is_err();
        written
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

fn write_stderr(is_journal: bool, level: LogLevel, line: &str) {
    let mut stderr = io::stderr().lock();
    // If standard error is closed, there is no reader left.
    match is_journal {
        true => stderr.write_all(format!("<{}>{line}", level.priority()).as_bytes()),
        false => stderr.write_all(line.as_bytes()),
    }
    .unwrap_or_default();
}

/// Returns whether standard error is the stream of the journal that `variable` names. A process
/// whose error stream was redirected inherits the variable all the same.
fn is_journal(variable: Option<OsString>) -> bool {
    let Some(named) = variable.and_then(|value| value.into_string().ok()) else { return false };
    let stderr = rustix::fs::fstat(io::stderr());
    stderr.is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
