//! The file of a device: opened, written line by line, opened anew after somebody moved it away.
//!
//! The attacks and faults this file stops: a file name of the API that leads elsewhere, through `..` or a link; a line
//! that a full disk cut and the next one continues; a reader that does not read and holds everybody up.

use super::flush::Flushing;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Mutex;

/// Bytes of a line that are kept allocated for the next one.
const KEPT: usize = 64 << 10;

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

/// A file that lines are appended to.
pub(super) struct LineFile {
    place: Place,
    /// 0 leaves the permissions of a file that exists.
    mode: u32,
    /// `Some` when lines are flushed before they count.
    flushing: Option<Flushing>,
    /// Lines that were written whole, of all files so far.
    written: AtomicU64,
    held: Mutex<Held>,
}

/// Whoever has it is the only one who writes.
struct Held {
    /// `None` until it can be opened.
    file: Option<Arc<File>>,
    /// The last line has no end.
    torn: bool,
    /// A line as it is put together.
    line: Vec<u8>,
}

impl LineFile {
    /// A file that is opened by the first line, or by [`LineFile::reopen`].
    pub(super) fn new(place: Place, mode: u32, sync: bool) -> Self {
        let held = Mutex::new(Held { file: None, torn: false, line: Vec::new() });
        Self { place, mode, flushing: sync.then(Flushing::default), written: AtomicU64::new(0), held }
    }

    /// Opens the file at its place, and goes over to it if that worked. Where lines are flushed, those of the old file
    /// are flushed first.
    ///
    /// # Errors
    /// Why it cannot be opened; the old one is kept then.
    pub(super) async fn reopen(&self) -> io::Result<()> {
        let file = self.open()?;
        let mut held = self.held.lock().await;
        if let (Some(flushing), Some(old)) = (&self.flushing, &held.file) {
            let written = self.written.load(Ordering::Acquire);
            // A failure is for those who wait for these lines, and the more reason to go elsewhere.
            let _ = flushing.until(written, || written, Arc::clone(old)).await;
        }
        held.take(file)
    }

    /// Appends `parts` and a line break as one line, opening the file where that is still to do. May be dropped at any
    /// moment: what it began is closed by the next line.
    ///
    /// # Errors
    /// Why the line is not in the file, or not known to be on the disk.
    pub(super) async fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let (number, file) = {
            let mut held = self.held.lock().await;
            if held.file.is_none() {
                held.take(self.open()?)?;
            }
            let file = held.write(parts).await?;
            (self.written.fetch_add(1, Ordering::AcqRel) + 1, file)
        };
        match &self.flushing {
            Some(flushing) => flushing.until(number, || self.written.load(Ordering::Acquire), file).await,
            None => Ok(()),
        }
    }

    fn open(&self) -> io::Result<File> {
        // Never waits for the other end of a pipe: neither here nor at a write.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if self.mode == 0 { super::settings::MODE } else { self.mode });
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

    /// Writes a line, in one go wherever the system takes it so.
    async fn write(&mut self, parts: &[&[u8]]) -> io::Result<Arc<File>> {
        let file = self.file.clone().ok_or_else(|| io::Error::other("the file is not open"))?;
        self.line.clear();
        self.line.shrink_to(KEPT);
        if self.torn {
            self.line.push(b'\n');
        }
        parts.iter().for_each(|part| self.line.extend_from_slice(part));
        self.line.push(b'\n');
        let mut done = 0;
        while let Some(rest) = self.line.get(done..).filter(|rest| !rest.is_empty()) {
            match file.as_ref().write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    done += written;
                    self.torn = done < self.line.len();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(&file).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(file)
    }
}

/// Waits until the reader of a pipe, or of whatever else can be full for a while, has made room.
async fn writable(file: &File) -> io::Result<()> {
    Sender::from_file_unchecked(file.try_clone()?)?.writable().await
}

/// Whether the last of `length` bytes ends a line. Where it cannot be read, a line break too many is the lesser evil.
fn ends_with_a_line(file: &File, length: u64) -> bool {
    let mut last = [0];
    let same = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let read = same.and_then(|same| same.read_exact_at(&mut last, length - 1));
    read.is_ok() && last == *b"\n"
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::fs::{self, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("bulkhead-audit-{name}-{}", std::process::id()));
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
            writers.spawn(async move { file.append(&[b"line ", format!("{number:02}").as_bytes()]).await.unwrap() });
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
        folder.file("log").append(&[b"x"]).await.unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o755)).unwrap();
        folder.file("log").append(&[b"x"]).await.unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(folder.0.join("log"), fs::Permissions::from_mode(0o640)).unwrap();
        LineFile::new(Place::File(folder.0.join("log")), 0, false).append(&[b"x"]).await.unwrap();
        assert_eq!(mode(), 0o640);
        assert_eq!(folder.read("log"), "x\nx\nx\n");
    }

    #[tokio::test]
    async fn a_line_that_a_dead_process_left_unfinished_is_closed_first() {
        let folder = Folder::new("dead");
        fs::write(folder.0.join("log"), "{\"half\":").unwrap();
        let file = folder.file("log");
        file.append(&[b"whole"]).await.unwrap();
        file.append(&[b"next"]).await.unwrap();
        assert_eq!(folder.read("log"), "{\"half\":\nwhole\nnext\n");
    }

    #[tokio::test]
    async fn a_line_that_was_cut_is_closed_before_the_next_one() {
        let folder = Folder::new("cut");
        let mut reader = pipe(&folder.0.join("pipe"));
        let file = folder.file("pipe");
        let long = vec![b'a'; 100_000];
        tokio::time::timeout(Duration::from_millis(50), file.append(&[&long])).await.unwrap_err();
        let mut read = vec![0; 100_000];
        let half = reader.read(&mut read).unwrap();
        assert!(half < long.len(), "{half}");
        file.append(&[b"next"]).await.unwrap();
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
        let append = file.append(&line);
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
        assert_eq!(full.append(&[b"x"]).await.unwrap_err().kind(), io::ErrorKind::StorageFull);
        let file = folder.file("later/log");
        assert_eq!(file.append(&[b"x"]).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(folder.0.join("later")).unwrap();
        file.append(&[b"y"]).await.unwrap();
        assert_eq!(folder.read("later/log"), "y\n");
    }

    #[tokio::test]
    async fn the_directory_of_the_api_is_made_and_no_link_or_pipe_in_it_is_followed() {
        let folder = Folder::new("within");
        folder.within("a.log").append(&[b"x"]).await.unwrap();
        assert_eq!(folder.read("api/a.log"), "x\n");
        assert_eq!(fs::metadata(folder.0.join("api")).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(folder.0.join("victim"), "").unwrap();
        symlink(folder.0.join("victim"), folder.0.join("api/link")).unwrap();
        folder.within("link").append(&[b"x"]).await.unwrap_err();
        let _reader = pipe(&folder.0.join("api/pipe"));
        folder.within("pipe").append(&[b"x"]).await.unwrap_err();
        folder.within("..").append(&[b"x"]).await.unwrap_err();
        assert_eq!(folder.read("victim"), "");
    }

    #[tokio::test]
    async fn a_file_that_was_moved_away_is_left_when_the_place_can_be_opened() {
        let folder = Folder::new("moved");
        let file = LineFile::new(Place::File(folder.0.join("log")), 0o600, true);
        file.reopen().await.unwrap();
        file.reopen().await.unwrap();
        file.append(&[b"one"]).await.unwrap();
        fs::rename(folder.0.join("log"), folder.0.join("old")).unwrap();
        file.append(&[b"two"]).await.unwrap();
        fs::create_dir(folder.0.join("log")).unwrap();
        file.reopen().await.unwrap_err();
        file.append(&[b"three"]).await.unwrap();
        fs::remove_dir(folder.0.join("log")).unwrap();
        file.reopen().await.unwrap();
        file.append(&[b"four"]).await.unwrap();
        assert_eq!((folder.read("old").as_str(), folder.read("log").as_str()), ("one\ntwo\nthree\n", "four\n"));
    }
}
