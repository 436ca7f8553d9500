//! The file of a device: opened, written line by line, opened anew after the operator moved it
//! away.
//!
//! The attacks and faults this file stops: a file name of the API that leads elsewhere, through
//! `..` or a link; a line that a full disk cut and the next one continues; a reader that does not
//! read and holds all requests up.

use super::flush::Flushing;
use super::group::{Group, Line, Outcome};
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

/// How often a line that another is writing, or is about to write, is left to it before its end is
/// waited for: a write takes some microseconds, and waking another thread takes longer.
const TURNS: u32 = 16;

/// Where a device writes.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A file that the operator named, of any type.
    File(PathBuf),
    /// An ordinary file directly in the directory that the operator left to the API.
    Within { directory: PathBuf, name: String },
    /// Nowhere, for a reason.
    Nowhere(String),
}

/// A file that lines are appended to. Lines of requests that are served at the same time are
/// written in one go.
pub(super) struct LineFile {
    place: Place,
    /// 0 leaves the permissions of a file that exists.
    mode: u32,
    /// `Some` when lines are flushed before they count.
    flushing: Option<Flushing>,
    /// Lines that no task has begun to write. Locked for moments only.
    gathered: std::sync::Mutex<Group>,
    /// Lines that were written whole, of all files so far.
    written: AtomicU64,
    held: Mutex<Held>,
}

/// The task that has it is the only one that writes.
#[derive(Default)]
struct Held {
    /// `None` until it can be opened.
    file: Option<Arc<File>>,
    /// The last line has no end.
    torn: bool,
    /// What is being written, and how many bytes of it are. A task that finds something here
    /// follows one who gave up.
    begun: Option<(Group, usize)>,
    /// What the last lines stood in.
    used: Group,
}

impl LineFile {
    /// A file that is opened by the first line, or by [`LineFile::reopen`].
    pub(super) fn new(place: Place, mode: u32, sync: bool) -> Self {
        let flushing = sync.then(Flushing::default);
        let (gathered, written, held) =
            (std::sync::Mutex::default(), AtomicU64::default(), Mutex::default());
        Self { place, mode, flushing, gathered, written, held }
    }

    /// Opens the file at its place, and goes over to it if that worked. Where lines are flushed,
    /// those of the old file are flushed first.
    ///
    /// # Errors
    /// Why it cannot be opened; the old one is kept then.
    pub(super) async fn reopen(&self) -> io::Result<()> {
        let file = self.open()?;
        let mut held = self.held.lock().await;
        self.settle(&mut held, None);
        if let (Some(flushing), Some(old)) = (&self.flushing, &held.file) {
            let written = self.written.load(Ordering::Acquire);
            // A failure is for those who wait for these lines, and the more reason to go elsewhere.
            let _ = flushing.until(written, || written, Arc::clone(old)).await;
        }
        held.take(file)
    }

    /// Appends `parts` and a line break as one line, opening the file where that is still to do.
    /// May be dropped at any moment: what it began is closed by the next line.
    ///
    /// # Errors
    /// Why the line is not in the file, or not known to be on the disk; timed out when that took
    /// longer than `patience`.
    pub(super) async fn append(&self, parts: &[&[u8]], patience: Duration) -> io::Result<()> {
        let line = self.lock_group().add(parts);
        let held = self.write_in_turn(&line).await;
        if self.flushing.is_none()
            && let Some(outcome) = line.outcome()
        {
            return outcome.map(drop);
        }
        // Only who has to wait pays for a timer.
        let ended = tokio::time::timeout(patience, Box::pin(self.end(&line, held))).await;
        ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Lets other tasks with a line ready add it, then writes them all, unless another has done it.
    /// Returns the file where it is full for the moment.
    async fn write_in_turn(&self, line: &Line) -> Option<MutexGuard<'_, Held>> {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            if line.outcome().is_some() {
                return None;
            }
            if let Ok(mut held) = self.held.try_lock() {
                self.begin(&mut held);
                return self.write(&mut held).map(|_| held);
            }
        }
        None
    }

    /// Waits for the end of `line`, and writes it where no other task does.
    async fn end(&self, line: &Line, held: Option<MutexGuard<'_, Held>>) -> io::Result<()> {
        let mut held = held;
        while line.outcome().is_none() {
            match &mut held {
                Some(held) => {
                    if let Some(file) = self.write(held) {
                        writable(&file).await?;
                    }
                }
                None => {
                    let mut next = self.held.lock().await;
                    if line.outcome().is_none() {
                        self.begin(&mut next);
                    }
                    held = Some(next);
                }
            }
        }
        drop(held);
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

    /// Takes the lines that were gathered, after closing those that a task gave up.
    fn begin(&self, held: &mut Held) {
        self.settle(held, None);
        let next = Group::reusing(std::mem::take(&mut held.used));
        held.begun = Some((std::mem::replace(&mut *self.lock_group(), next), 0));
    }

    /// Writes what was begun, as far as the file takes it now. Returns the file where it is full
    /// for the moment.
    fn write(&self, held: &mut Held) -> Option<Arc<File>> {
        let opened =
            if held.file.is_none() { self.open().and_then(|file| held.take(file)) } else { Ok(()) };
        match opened.and_then(|()| held.write()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => held.file.clone(),
            done => {
                self.settle(held, done.err());
                None
            }
        }
    }

    /// Tells those who wait what became of the lines that were begun.
    fn settle(&self, held: &mut Held, cause: Option<io::Error>) {
        let Some((group, done)) = held.begun.take() else { return };
        if done > 0 {
            held.torn = group.is_cut(done);
        }
        let whole = group.whole(done);
        let more = u64::try_from(whole).unwrap_or(u64::MAX);
        let written = self.written.fetch_add(more, Ordering::AcqRel).saturating_add(more);
        group.settle(Outcome { whole, written, file: held.file.clone(), cause });
        held.used = group;
    }

    fn lock_group(&self) -> std::sync::MutexGuard<'_, Group> {
        sync::lock(&self.gathered)
    }

    fn open(&self) -> io::Result<File> {
        // Never waits for the other end of a pipe: neither here nor at a write.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode =
            Mode::from_raw_mode(if self.mode == 0 { super::settings::MODE } else { self.mode });
        let file = match &self.place {
            Place::File(path) => rustix::fs::open(path, flags, mode)?,
            Place::Within { directory, name } => {
                let directory = open_directory(directory)?;
                rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW, mode)?
            }
            Place::Nowhere(why) => return Err(io::Error::other(why.clone())),
        };
        let found = rustix::fs::fstat(&file)?;
        let is_ordinary = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if matches!(self.place, Place::Within { .. }) && !is_ordinary {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        let wanted = Mode::from_raw_mode(self.mode);
        if is_ordinary && self.mode != 0 && Mode::from_raw_mode(found.st_mode) != wanted {
            rustix::fs::fchmod(&file, wanted)?;
        }
        Ok(file.into())
    }
}

/// The directory that is left to the API, made when it is missing.
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

impl Held {
    /// Goes on in `file`, whose last line may be one that a dead process did not finish.
    fn take(&mut self, file: File) -> io::Result<()> {
        let length = file.metadata()?.len();
        self.torn = length > 0 && !ends_with_a_line(&file, length);
        self.file = Some(Arc::new(file));
        Ok(())
    }

    /// Writes what was begun, in one go wherever the system takes it so.
    fn write(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::Error::other("the file is not open")) };
        if self.torn {
            write(file, b"\n")?;
            self.torn = false;
        }
        while let Some((group, done)) = &mut self.begun
            && let rest = group.after(*done)
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

/// Waits until the reader of a pipe, or of another file that can be full for a while, has made
/// room.
async fn writable(file: &File) -> io::Result<()> {
    Sender::from_file_unchecked(file.try_clone()?)?.writable().await
}

/// Whether the last of `length` bytes ends a line. Where it cannot be read, a line break too many
/// is the lesser evil.
fn ends_with_a_line(file: &File, length: u64) -> bool {
    let mut last = [0];
    let same = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let read = same.and_then(|same| same.read_exact_at(&mut last, length - 1));
    read.is_ok() && last == *b"\n"
}

#[cfg(test)]
mod tests;
