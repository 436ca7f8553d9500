//! The place of log lines: standard error or a file.
//!
//! This file prevents the loss of lines with a full or missing log file: such lines go to standard
//! error, which also says so and counts the lines. A pipe as the log file would stop the server
//! with its reader, and is refused. A new file is readable by its owner and group only.

use super::flood::WINDOW;
use super::format::{LogFormat, LogLine};
use bulkhead_access::log::cause;
use bulkhead_tls::machine_time;
use bulkhead_wire::log_level::LogLevel;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Variable by which systemd names the device and the inode of the journal's stream.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// Permissions of a new file.
const FILE_MODE: u32 = 0o640;

/// The place of log lines.
pub(super) struct LogDestination {
    format: LogFormat,
    /// Lines on standard error begin with a priority in angle brackets, which the journal removes.
    is_journal: bool,
    file: Option<LogFile>,
}

struct LogFile {
    path: PathBuf,
    /// `None` if the path could not be opened again.
    file: Option<File>,
    notices: FailureNotices,
    /// True if the last line of the file may lack its end.
    is_torn: bool,
    /// True if the last line, or the last opening of the path, failed.
    is_failing: bool,
}

/// The notices about a failing file: at most one pair in a window, because a file may fail and
/// work with each other line.
#[derive(Default)]
struct FailureNotices {
    /// True from the notice of a failure to the notice of the return.
    is_announced: bool,
    /// Time of the last notice of a failure.
    last: Option<Instant>,
    /// Number of lines that went to standard error since the last notice of a return.
    diverted: u64,
}

impl LogDestination {
    /// Returns standard error.
    pub(super) fn stderr(format: LogFormat) -> Self {
        let is_journal = is_journal(std::env::var_os(JOURNAL_VARIABLE));
        Self { format, is_journal, file: None }
    }

    /// Opens a file, or creates the file.
    ///
    /// # Errors
    /// The reason why the file cannot be written, and the remedy.
    pub(super) fn file(path: &Path, format: LogFormat) -> Result<Self, String> {
        let file = open(path).map_err(|error| {
            format!(
                "log_file {} cannot be opened: {error}; name a file that the server's user may \
                 write, or leave log_file out",
                path.display()
            )
        })?;
        let (path, file) = (path.to_path_buf(), Some(file));
        let notices = FailureNotices::default();
        let file = LogFile { path, file, notices, is_torn: false, is_failing: false };
        Ok(Self { file: Some(file), ..Self::stderr(format) })
    }

    /// Returns the path of the file, if lines go to a file.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|file| file.path.clone())
    }

    /// Returns whether lines go to standard error because the file fails.
    pub(super) fn is_diverted(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_failing)
    }

    /// Writes to a file that was [opened](open) again at its path from now on. Returns the file
    /// before, whose end may wait for the disk.
    pub(super) fn replace(&mut self, opened: io::Result<File>) -> Option<File> {
        let file = self.file.as_mut()?;
        match opened {
            Ok(opened) => {
                (file.is_torn, file.is_failing) = (false, false);
                file.file.replace(opened)
            }
            Err(error) => {
                let before = file.file.take();
                self.divert(&error, None);
                before
            }
        }
    }

    /// Writes a line with a single write, as far as the system allows.
    pub(super) fn write(&mut self, line: &LogLine<'_>) {
        let text = line.text(self.format);
        let Some(file) = &mut self.file else {
            return write_stderr(self.is_journal, line.level, &text);
        };
        match file.append(&text) {
            Ok(()) => {
                if let Some(diverted) = file.notices.note_success(Instant::now()) {
                    let pairs = [
                        ("file", file.path.display().to_string()),
                        ("lines-on-stderr", diverted.to_string()),
                    ];
                    self.notify(LogLevel::Info, "log-file-restored", &pairs);
                }
            }
            Err(error) => self.divert(&error, Some((line.level, &text))),
        }
    }

    /// Writes a line to standard error instead of the file, which failed with `error`.
    fn divert(&mut self, error: &io::Error, line: Option<(LogLevel, &str)>) {
        let Some(file) = &mut self.file else { return };
        file.is_failing = true;
        if file.notices.note_failure(Instant::now()) {
            let pairs = [("file", file.path.display().to_string()), cause(error)];
            self.notify(LogLevel::Error, "log-file-failing", &pairs);
        }
        if let Some((level, text)) = line {
            if let Some(file) = &mut self.file {
                file.notices.diverted += 1;
            }
            write_stderr(self.is_journal, level, text);
        }
    }

    /// Writes a line about the file to standard error.
    fn notify(&self, level: LogLevel, event: &str, pairs: &[(&str, String)]) {
        let line =
            LogLine { time: machine_time(), level, event, request: None, trace: None, pairs };
        write_stderr(self.is_journal, level, &line.text(self.format));
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
        self.is_failing = written.is_err();
        written
    }
}

impl FailureNotices {
    /// Notes a failure. Returns true if a notice is due.
    fn note_failure(&mut self, now: Instant) -> bool {
        if self.is_announced || !self.has_window_ended(now) {
            return false;
        }
        (self.is_announced, self.last) = (true, Some(now));
        true
    }

    /// Notes a complete write. Returns the number of diverted lines if a notice is due.
    fn note_success(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.is_announced || (self.diverted > 0 && self.has_window_ended(now));
        if !is_due {
            return None;
        }
        self.is_announced = false;
        Some(std::mem::take(&mut self.diverted))
    }

    fn has_window_ended(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) >= WINDOW)
    }
}

/// Opens a file for lines, or creates the file. Never waits for the reader of a pipe.
///
/// # Errors
/// The file cannot be opened, or is neither a regular file nor a character device.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE).custom_flags(flags);
    let file = options.open(path)?;
    check_file_type(file.metadata()?.file_type()).map_err(io::Error::other)?;
    // A terminal that accepts no further bytes makes a line wait instead of tearing the line.
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Refuses everything but regular files and character devices, such as a terminal: the reader of a
/// pipe could stop the server.
///
/// # Errors
/// The reason.
pub(crate) fn check_file_type(file_type: FileType) -> Result<(), &'static str> {
    match file_type.is_file() || file_type.is_char_device() {
        true => Ok(()),
        false if file_type.is_dir() => Err("the path is a directory"),
        false => Err("the path is neither a regular file nor a terminal"),
    }
}

fn write_stderr(is_journal: bool, level: LogLevel, line: &str) {
    let mut stderr = io::stderr().lock();
    // If standard error is closed, there is no reader left.
    stderr.write_all(prefixed(is_journal, level, line).as_bytes()).unwrap_or_default();
}

/// Writes a line to standard error without the lock of the standard library, which another thread
/// may hold.
pub(super) fn write_stderr_unlocked(line: &LogLine<'_>) {
    let is_journal = is_journal(std::env::var_os(JOURNAL_VARIABLE));
    let text = prefixed(is_journal, line.level, &line.text(LogFormat::Logfmt));
    if let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
        // If standard error is closed, there is no reader left.
        File::from(stderr).write_all(text.as_bytes()).unwrap_or_default();
    }
}

/// Returns the line as standard error has the line.
fn prefixed(is_journal: bool, level: LogLevel, line: &str) -> String {
    match is_journal {
        true => format!("<{}>{line}", level.priority()),
        false => line.to_owned(),
    }
}

/// Returns whether standard error is the stream of the journal that `variable` names. A process
/// whose error stream was redirected inherits the variable all the same.
fn is_journal(variable: Option<OsString>) -> bool {
    let Some(named) = variable.and_then(|value| value.into_string().ok()) else { return false };
    let stderr = rustix::fs::fstat(io::stderr());
    stderr.is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flapping_file_is_announced_once_a_window() {
        let (mut notices, begin) = (FailureNotices::default(), Instant::now());
        assert_eq!(notices.note_success(begin), None);
        assert!(notices.note_failure(begin) && !notices.note_failure(begin));
        notices.diverted = 2;
        assert_eq!(notices.note_success(begin), Some(2));
        for _ in 0..3 {
            assert!(!notices.note_failure(begin));
            notices.diverted += 1;
            assert_eq!(notices.note_success(begin), None);
        }
        // The lines between the pairs are counted by the next notice.
        assert!(notices.note_failure(begin + WINDOW));
        notices.diverted += 1;
        assert_eq!(notices.note_success(begin + WINDOW), Some(4));
        notices.diverted = 1;
        assert_eq!(notices.note_success(begin + 2 * WINDOW), Some(1));
    }
}
