//! The file of a device: opened, written line by line, opened anew after somebody moved it away.
//!
//! The attacks and faults this file stops: a file name of the API that leads elsewhere, through
//! `..` or a link; a line that a full disk cut and the next one continues; a reader that does not
//! read and holds everybody up.

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
    /// A file that the operator named, whatever it is.
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
    /// Lines that nobody has begun to write. Locked for moments only.
    gathered: std::sync::Mutex<Group>,
    /// Lines that were written whole, of all files so far.
    written: AtomicU64,
    held: Mutex<Held>,
}

/// Whoever has it is the only one who writes.
#[derive(Default)]
struct Held {
    /// `None` until it can be opened.
    file: Option<Arc<File>>,
    /// The last line has no end.
    torn: bool,
    /// What is being written, and how many bytes of it are. Whoever finds something here follows
    /// one who gave up.
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
        let line = self.gathered().add(parts);
        let held = self.write_in_turn(&line).await;
        if self.flushing.is_none()
            && let Some(outcome) = line.outcome()
        {
            return outcome.map(drop);
        }
        // Only who has to wait pays for a timer.
        let ended = tokio::time::timeout(patience, self.end(&line, held)).await;
        ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Lets whoever else has a line ready add it, then writes them all, if nobody else has done it.
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

    /// Waits for the end of `line`, and writes it where nobody else does.
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

    /// Takes the lines that were gathered, after closing those that somebody left.
    fn begin(&self, held: &mut Held) {
        self.settle(held, None);
        let next = Group::reusing(std::mem::take(&mut held.used));
        held.begun = Some((std::mem::replace(&mut *self.gathered(), next), 0));
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

    fn gathered(&self) -> std::sync::MutexGuard<'_, Group> {
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

/// Waits until the reader of a pipe, or of whatever else can be full for a while, has made room.
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
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs::{self, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("bulkhead-audit-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str) -> LineFile {
            LineFile::new(Place::File(self.0.join(name)), 0o600, false)
        }

        fn within(&self, name: &str) -> LineFile {
            let place = Place::Within { directory: self.0.join("api"), name: name.to_owned() };
            LineFile::new(place, 0o600, false)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn pipe(path: &Path) -> File {
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        OpenOptions::new().read(true).custom_flags(non_blocking()).open(path).unwrap()
    }

    fn non_blocking() -> i32 {
        i32::try_from(OFlags::NONBLOCK.bits()).unwrap()
    }

    #[tokio::test]
    async fn lines_of_many_stand_one_after_the_other() {
        let folder = Folder::new("many");
        let file = Arc::new(folder.file("log"));
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..50 {
            let file = Arc::clone(&file);
            writers.spawn(async move {
                file.append(&[b"line ", format!("{number:02}").as_bytes()], LONG).await.unwrap()
            });
        }
        writers.join_all().await;
        let text = folder.read("log");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..50).map(|number| format!("line {number:02}")).collect();
        assert_eq!(lines, expected);
    }

    #[tokio::test]
    async fn a_file_is_made_for_its_owner_only_and_another_mode_is_put_right() {
        let folder = Folder::new("mode");
        let mode = || fs::metadata(folder.0.join("log")).unwrap().permissions().mode() & 0o7777;
        folder.file("log").append(&[b"x"], LONG).await.unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o755)).unwrap();
        folder.file("log").append(&[b"x"], LONG).await.unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o640)).unwrap();
        LineFile::new(Place::File(folder.0.join("log")), 0, false)
            .append(&[b"x"], LONG)
            .await
            .unwrap();
        assert_eq!(mode(), 0o640);
        assert_eq!(folder.read("log"), "x\nx\nx\n");
    }

    #[tokio::test]
    async fn a_line_that_a_dead_process_left_unfinished_is_closed_first() {
        let folder = Folder::new("dead");
        fs::write(folder.0.join("log"), "{\"half\":").unwrap();
        let file = folder.file("log");
        file.append(&[b"whole"], LONG).await.unwrap();
        file.append(&[b"next"], LONG).await.unwrap();
        assert_eq!(folder.read("log"), "{\"half\":\nwhole\nnext\n");
    }

    #[tokio::test]
    async fn a_line_that_was_cut_is_closed_before_the_next_one() {
        let folder = Folder::new("cut");
        let mut reader = pipe(&folder.0.join("pipe"));
        let file = folder.file("pipe");
        let long = vec![b'a'; 100_000];
        let late = file.append(&[&long], Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut read = vec![0; 100_000];
        let half = reader.read(&mut read).unwrap();
        assert!(half < long.len(), "{half}");
        file.append(&[b"next"], LONG).await.unwrap();
        let next = reader.read(&mut read).unwrap();
        assert_eq!(read.get(..next).unwrap(), b"\nnext\n");
    }

    #[tokio::test]
    async fn a_line_longer_than_a_pipe_is_written_as_its_reader_reads() {
        let folder = Folder::new("long");
        let mut reader = pipe(&folder.0.join("pipe"));
        let file = folder.file("pipe");
        let (long, mut read) = (vec![b'a'; 200_000], Vec::new());
        let line = [long.as_slice()];
        let append = file.append(&line, LONG);
        tokio::pin!(append);
        loop {
            let mut piece = vec![0; 65_536];
            tokio::select! {
                done = &mut append => break done.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(1)) => {
                    let length = reader.read(&mut piece).unwrap_or_default();
                    read.extend(piece.into_iter().take(length));
                }
            }
        }
        drop(reader.read_to_end(&mut read));
        assert_eq!((read.len(), read.last()), (200_001, Some(&b'\n')));
    }

    #[tokio::test]
    async fn a_full_disk_and_a_missing_folder_are_errors_and_the_next_line_tries_again() {
        let folder = Folder::new("errors");
        let full = LineFile::new(Place::File("/dev/full".into()), 0o600, false);
        assert_eq!(
            full.append(&[b"x"], LONG).await.unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        let file = folder.file("later/log");
        assert_eq!(file.append(&[b"x"], LONG).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(folder.0.join("later")).unwrap();
        file.append(&[b"y"], LONG).await.unwrap();
        assert_eq!(folder.read("later/log"), "y\n");
    }

    #[tokio::test]
    async fn the_directory_of_the_api_is_made_and_no_link_or_pipe_in_it_is_followed() {
        let folder = Folder::new("within");
        folder.within("a.log").append(&[b"x"], LONG).await.unwrap();
        assert_eq!(folder.read("api/a.log"), "x\n");
        assert_eq!(fs::metadata(folder.0.join("api")).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(folder.0.join("victim"), "").unwrap();
        symlink(folder.0.join("victim"), folder.0.join("api/link")).unwrap();
        folder.within("link").append(&[b"x"], LONG).await.unwrap_err();
        let _reader = pipe(&folder.0.join("api/pipe"));
        folder.within("pipe").append(&[b"x"], LONG).await.unwrap_err();
        folder.within("..").append(&[b"x"], LONG).await.unwrap_err();
        assert_eq!(folder.read("victim"), "");
    }

    #[tokio::test]
    async fn a_file_that_was_moved_away_is_left_when_the_place_can_be_opened() {
        let folder = Folder::new("moved");
        let file = LineFile::new(Place::File(folder.0.join("log")), 0o600, true);
        file.reopen().await.unwrap();
        file.reopen().await.unwrap();
        file.append(&[b"one"], LONG).await.unwrap();
        fs::rename(folder.0.join("log"), folder.0.join("old")).unwrap();
        file.append(&[b"two"], LONG).await.unwrap();
        fs::create_dir(folder.0.join("log")).unwrap();
        file.reopen().await.unwrap_err();
        file.append(&[b"three"], LONG).await.unwrap();
        fs::remove_dir(folder.0.join("log")).unwrap();
        file.reopen().await.unwrap();
        file.append(&[b"four"], LONG).await.unwrap();
        assert_eq!(
            (folder.read("old").as_str(), folder.read("log").as_str()),
            ("one\ntwo\nthree\n", "four\n")
        );
    }
}
