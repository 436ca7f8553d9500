//! The file of a device: opened, appended to line by line, and reopened after the operator moved
//! the old file away.
//!
//! This file prevents three attacks and faults: a file name from the API that leads elsewhere,
//! through `..` or a link; a line that a full disk cut and the next line continues; a pipe whose
//! reader does not read and so delays all requests.

use super::flush::DeviceFlushes;
use super::group::{LineGroup, PendingLine, WriteOutcome};
use bulkhead_wire::sync;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::unix::pipe::Sender;
use tokio::sync::{Mutex, MutexGuard};

/// Number of times a task yields to the task that writes, or is about to write, the line before it
/// waits for the lock. A write takes microseconds; waking another thread takes longer.
const MAX_YIELDS: u32 = 16;

/// The destination of a device's lines.
#[derive(Clone, Debug)]
pub(super) enum AuditTarget {
    /// A file that the operator named, of any type.
    File(PathBuf),
    /// A regular file directly in the directory reserved for the API.
    Within { directory: PathBuf, name: String },
    /// No destination, with the reason.
    Nowhere(String),
}

/// An append-only file of lines. Lines of concurrent requests are written in a single call.
pub(super) struct LineFile {
    place: AuditTarget,
    /// Permissions of the file; 0 leaves the permissions of an existing file.
    mode: u32,
    /// `Some` if a line counts only once flushed to the disk.
    flushing: Option<DeviceFlushes>,
    /// Lines that no task has begun to write. The lock is held only briefly.
    gathered: std::sync::Mutex<LineGroup>,
    /// Number of complete lines written so far, in all files.
    written: AtomicU64,
    held: Mutex<FileWriterState>,
}

/// The state of the writer. The task that holds the lock is the only writer.
#[derive(Default)]
struct FileWriterState {
    /// `None` until the file can be opened.
    file: Option<Arc<File>>,
    /// True if the last line of the file has no line break.
    torn: bool,
    /// The group being written, and the number of its bytes already written. If a task finds a
    /// group here, the previous writer was dropped in the middle of a write.
    begun: Option<(LineGroup, usize)>,
    /// The buffer of the previous group, for reuse.
    used: LineGroup,
}

impl LineFile {
    /// Returns a file that the first line, or [`LineFile::reopen`], opens.
    pub(super) fn new(place: AuditTarget, mode: u32, sync: bool) -> Self {
        let flushing = sync.then(DeviceFlushes::default);
        let (gathered, written, held) =
            (std::sync::Mutex::default(), AtomicU64::default(), Mutex::default());
        Self { place, mode, flushing, gathered, written, held }
    }

    /// Opens the file at its path and replaces the old file. If lines are flushed, the lines of the
    /// old file are flushed first.
    ///
    /// # Errors
    /// The file cannot be opened. The old file stays in use.
    pub(super) async fn reopen(&self) -> io::Result<()> {
        let file = self.open()?;
        let mut writer = self.held.lock().await;
        self.settle(&mut writer, None);
        if let (Some(flushing), Some(old)) = (&self.flushing, &writer.file) {
            let written = self.written.load(Ordering::Acquire);
            // A failed flush fails the requests that wait for these lines; the new file is used all
            // the same.
            let _ = flushing.until(written, || written, Arc::clone(old)).await;
        }
        writer.take(file)
    }

    /// Appends `parts` and a line break as one line. Opens the file if it is not open.
    ///
    /// The future may be dropped at any moment: the next line ends a partial line with a line
    /// break.
    ///
    /// # Errors
    /// The line is not in the file, or is not known to be on the disk. `TimedOut` after `patience`.
    pub(super) async fn append(&self, parts: &[&[u8]], patience: Duration) -> io::Result<()> {
        let line = self.lock_group().add(parts);
        let writer = self.write_in_turn(&line).await;
        if self.flushing.is_none()
            && let Some(outcome) = line.outcome()
        {
            return outcome.map(drop);
        }
        // Only a task that has to wait pays for a timer.
        let ended = tokio::time::timeout(patience, Box::pin(self.end(&line, writer))).await;
        ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Lets other tasks add their lines, then writes all lines, unless another task has written
    /// them. Returns the lock on the writer if the file is full for the moment.
    async fn write_in_turn(&self, line: &PendingLine) -> Option<MutexGuard<'_, FileWriterState>> {
        for _ in 0..MAX_YIELDS {
            tokio::task::yield_now().await;
            if line.outcome().is_some() {
                return None;
            }
            if let Ok(mut writer) = self.held.try_lock() {
                self.begin(&mut writer);
                return self.write(&mut writer).map(|_| writer);
            }
        }
        None
    }

    /// Waits until `line` is written, and writes it if no other task does.
    async fn end(
        &self,
        line: &PendingLine,
        writer: Option<MutexGuard<'_, FileWriterState>>,
    ) -> io::Result<()> {
        let mut writer = writer;
        while line.outcome().is_none() {
            match &mut writer {
                Some(writer) => {
                    if let Some(file) = self.write(writer) {
                        writable(&file).await?;
                    }
                }
                None => {
                    let mut next = self.held.lock().await;
                    if line.outcome().is_none() {
                        self.begin(&mut next);
                    }
                    writer = Some(next);
                }
            }
        }
        drop(writer);
        let (number, file) =
            line.outcome().unwrap_or_else(|| Err(io::Error::other("nobody wrote the line")))?;
        match &self.flushing {
            Some(flushing) => {
                flushing
                    .until(number, || self.written.load(Ordering::Acquire), Arc::clone(file))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Closes a group that a dropped task left, then takes the gathered lines.
    fn begin(&self, writer: &mut FileWriterState) {
        self.settle(writer, None);
        let next = LineGroup::reusing(std::mem::take(&mut writer.used));
        writer.begun = Some((std::mem::replace(&mut *self.lock_group(), next), 0));
    }

    /// Writes the begun group as far as the file takes bytes now. Returns the file if the file is
    /// full for the moment.
    fn write(&self, writer: &mut FileWriterState) -> Option<Arc<File>> {
        let opened = if writer.file.is_none() {
            self.open().and_then(|file| writer.take(file))
        } else {
            Ok(())
        };
        match opened.and_then(|()| writer.write()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => writer.file.clone(),
            done => {
                self.settle(writer, done.err());
                None
            }
        }
    }

    /// Reports the outcome of the begun lines to the tasks that wait.
    fn settle(&self, writer: &mut FileWriterState, cause: Option<io::Error>) {
        let Some((group, done)) = writer.begun.take() else { return };
        if done > 0 {
            writer.torn = group.is_cut(done);
        }
        let complete_lines = group.complete_lines(done);
        let more = u64::try_from(complete_lines).unwrap_or(u64::MAX);
        let written = self.written.fetch_add(more, Ordering::AcqRel).saturating_add(more);
        group.settle(WriteOutcome {
            whole: complete_lines,
            written,
            file: writer.file.clone(),
            cause,
        });
        writer.used = group;
    }

    fn lock_group(&self) -> std::sync::MutexGuard<'_, LineGroup> {
        sync::lock(&self.gathered)
    }

    fn open(&self) -> io::Result<File> {
        // The open call and the writes never wait for the other end of a pipe.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode =
            Mode::from_raw_mode(if self.mode == 0 { super::settings::MODE } else { self.mode });
        let file = match &self.place {
            AuditTarget::File(path) => rustix::fs::open(path, flags, mode)?,
            AuditTarget::Within { directory, name } => {
                let directory = open_directory(directory)?;
                rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW, mode)?
            }
            AuditTarget::Nowhere(why) => return Err(io::Error::other(why.clone())),
        };
        let found = rustix::fs::fstat(&file)?;
        let is_ordinary = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if matches!(self.place, AuditTarget::Within { .. }) && !is_ordinary {
            return Err(io::Error::other("the path is not an ordinary file"));
        }
        let wanted = Mode::from_raw_mode(self.mode);
        if is_ordinary && self.mode != 0 && Mode::from_raw_mode(found.st_mode) != wanted {
            rustix::fs::fchmod(&file, wanted)?;
        }
        Ok(file.into())
    }
}

/// Opens the directory reserved for the API; creates the directory if it is missing.
fn open_directory(path: &PathBuf) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            rustix::fs::mkdir(path, Mode::RWXU)?;
            Ok(rustix::fs::open(path, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

impl FileWriterState {
    /// Replaces the file. A dead process may have left an incomplete last line in the new file.
    fn take(&mut self, file: File) -> io::Result<()> {
        let length = file.metadata()?.len();
        self.torn = length > 0 && !ends_with_a_line(&file, length);
        self.file = Some(Arc::new(file));
        Ok(())
    }

    /// Writes the begun group, in a single call if the system accepts it.
    fn write(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::Error::other("the file is not open")) };
        if self.torn {
            write(file, b"\n")?;
            self.torn = false;
        }
        while let Some((group, done)) = &mut self.begun
            && let rest = group.unwritten_bytes(*done)
            && !rest.is_empty()
        {
            *done += write(file, rest)?;
        }
        Ok(())
    }
}

/// Writes as much of `bytes` as the file takes.
fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}

/// Waits until a full pipe, or another file that can be full for a while, has room.
async fn writable(file: &File) -> io::Result<()> {
    Sender::from_file_unchecked(file.try_clone()?)?.writable().await
}

/// Returns whether the last of `length` bytes ends a line. Returns `false` if the file cannot be
/// read, because a superfluous line break is harmless.
fn ends_with_a_line(file: &File, length: u64) -> bool {
    let mut last = [0];
    let same = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let read = same.and_then(|same| same.read_exact_at(&mut last, length - 1));
    read.is_ok() && last == *b"\n"
}

#[cfg(test)]
mod tests;
