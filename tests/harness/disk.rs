//! The disk of a server: records writes and flushes, injects faults, and computes possible contents
//! after a power cut.

use crate::paths::{Folder, files_below};
use crate::preload;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// Bytes of the head of a log entry, see `disk.c`.
const HEAD: usize = 24;

/// A disk for one data folder.
pub struct Disk {
    folder: Folder,
    fault: Option<(&'static str, String)>,
}

/// A file that holds data: SQLite's three files, the key of a dev server before and after its
/// rename, an audit file, and the folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum File {
    Database,
    Log,
    Journal,
    Key,
    UnfinishedKey,
    Audit,
    Folder,
}

/// An operation on a file.
pub enum FileOperation {
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    Cut {
        length: usize,
    },
    Remove,
    /// Rename of the unfinished key.
    Finish,
    Flush,
    FailedFlush,
}

/// An entry of the disk's log.
pub struct Entry {
    pub file: File,
    pub act: FileOperation,
    /// Length of the log up to and including this entry.
    pub end: u64,
}

/// Contents of the files.
pub type Image = BTreeMap<File, Vec<u8>>;

impl Disk {
    /// A disk without faults.
    pub fn sound() -> Self {
        Self { folder: Folder::new("disk"), fault: None }
    }

    /// A disk that is full after `bytes` written bytes, until [`Disk::free_space`].
    pub fn full_after(bytes: u64) -> Self {
        Self { fault: Some(("BULKHEAD_DISK_FULL", bytes.to_string())), ..Self::sound() }
    }

    /// A disk that fails the flush of this number, counted from 1.
    pub fn failing_flush(number: u64) -> Self {
        Self { fault: Some(("BULKHEAD_DISK_EIO", number.to_string())), ..Self::sound() }
    }

    /// A disk that kills the process before the operation of this number, counted from 1.
    pub fn killing_at(number: u32) -> Self {
        Self { fault: Some(("BULKHEAD_DISK_KILL", number.to_string())), ..Self::sound() }
    }

    /// Environment of a server on this disk.
    pub fn under(&self, data: &Path) -> Vec<(&'static str, String)> {
        let data = data.canonicalize().expect("the data folder is there");
        let mut environment = vec![
            ("LD_PRELOAD", library().display().to_string()),
            ("BULKHEAD_DISK_DIR", data.display().to_string()),
            ("BULKHEAD_DISK_LOG", self.log().display().to_string()),
        ];
        environment.extend(self.fault.clone());
        environment
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub fn free_space(&self) {
        fs::write(self.folder.path().join("log.space"), "").expect("a file can be written");
    }

    /// Returns the log so far, without an entry that a killed server left unfinished.
    pub fn entries(&self) -> Vec<Entry> {
        let log = fs::read(self.log()).expect("the disk keeps its log");
        let (mut entries, mut at) = (Vec::new(), 0);
        while let Some(entry) = entry(&log, at) {
            at = usize::try_from(entry.end).expect("a log in memory");
            entries.push(entry);
        }
        assert!(!entries.is_empty(), "the disk saw nothing of the server's files");
        entries
    }
}

/// Returns the library, compiled once per test program.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| preload::compile("disk"))
}

fn entry(log: &[u8], at: usize) -> Option<Entry> {
    let head = log.get(at..at + HEAD)?;
    let number = |range: std::ops::Range<usize>| {
        let bytes = head[range].try_into().expect("eight bytes");
        usize::try_from(u64::from_ne_bytes(bytes)).expect("a file in memory")
    };
    let (length, offset) = (number(8..16), number(16..24));
    let body = at + HEAD;
    let (act, end) = match head[0] {
        b'W' => (
            FileOperation::Write { offset, bytes: log.get(body..body + length)?.to_vec() },
            body + length,
        ),
        b'T' => (FileOperation::Cut { length: offset }, body),
        b'U' => (FileOperation::Remove, body),
        b'R' => (FileOperation::Finish, body),
        b'S' => (FileOperation::Flush, body),
        b'F' => (FileOperation::FailedFlush, body),
        other => panic!("the disk's log has an entry of kind {other}"),
    };
    let file = match head[1] {
        b'd' => File::Database,
        b'w' => File::Log,
        b'j' => File::Journal,
        b'k' => File::Key,
        b'n' => File::UnfinishedKey,
        b'a' => File::Audit,
        b'f' => File::Folder,
        other => panic!("the disk's log names a file {other}"),
    };
    Some(Entry { file, act, end: u64::try_from(end).expect("a log in memory") })
}

impl File {
    fn name(self) -> &'static str {
        match self {
            Self::Database => "bulkhead.db",
            Self::Log => "bulkhead.db-wal",
            Self::Journal => "bulkhead.db-journal",
            Self::Key => "dev-seal.key",
            Self::UnfinishedKey => "dev-seal.unfinished",
            Self::Audit => "trail.log",
            Self::Folder => ".",
        }
    }
}

/// Computes the files after a power cut behind the last of `entries`. Flushed data is present. Of
/// the other data, a random choice of sectors is present.
pub fn after_power_cut(entries: &[Entry], chance: &mut SeededRandom) -> Image {
    let mut image = Image::new();
    for (index, entry) in entries.iter().enumerate() {
        let later = entries.get(index + 1..).unwrap_or_default();
        if is_flushed(entry, later) {
            apply(&mut image, entry, |_| true);
        } else if chance.one_in(2) {
            let torn = chance.one_in(2);
            apply(&mut image, entry, |_| !torn || chance.one_in(2));
        }
    }
    image
}

/// Returns `true` if the next flush of the entry's file succeeded.
///
/// A failed flush loses the data for good, even if later flushes succeed. A flush of any file also
/// completes removals and renames, because a journaling file system then writes its journal.
fn is_flushed(entry: &Entry, later: &[Entry]) -> bool {
    let is_of_names = matches!(entry.act, FileOperation::Remove | FileOperation::Finish);
    let mut flushes = later.iter().filter(|next| is_of_names || next.file == entry.file);
    let next =
        flushes.find(|next| matches!(next.act, FileOperation::Flush | FileOperation::FailedFlush));
    next.is_some_and(|next| matches!(next.act, FileOperation::Flush))
}

/// Applies an operation to the image. `keeps` decides for each sector if the write survives.
fn apply(image: &mut Image, entry: &Entry, mut keeps: impl FnMut(usize) -> bool) {
    match &entry.act {
        FileOperation::Write { offset, bytes } => {
            let content = image.entry(entry.file).or_default();
            let mut at = *offset;
            while at < offset + bytes.len() {
                let end = (at / SECTOR + 1) * SECTOR;
                let end = end.min(offset + bytes.len());
                if keeps(at / SECTOR) {
                    content.resize(content.len().max(end), 0);
                    content[at..end].copy_from_slice(&bytes[at - offset..end - offset]);
                }
                at = end;
            }
        }
        FileOperation::Cut { length } => image.entry(entry.file).or_default().resize(*length, 0),
        FileOperation::Remove => {
            image.remove(&entry.file);
        }
        FileOperation::Finish => {
            let content = image.remove(&entry.file).unwrap_or_default();
            image.insert(File::Key, content);
        }
        FileOperation::Flush | FileOperation::FailedFlush => (),
    }
}

/// Makes a data folder with this image and the other files of `like`.
pub fn folder_of(image: &Image, like: &Path) -> Folder {
    let folder = Folder::new("image");
    for file in files_below(like) {
        let name = file.file_name().expect("a file has a name");
        let name_of_ours = name.to_string_lossy();
        let is_watched =
            name_of_ours.starts_with("bulkhead.db") || name_of_ours.starts_with("dev-seal.");
        if !is_watched {
            fs::copy(&file, folder.path().join(name)).expect("a file can be copied");
        }
    }
    for (file, content) in image {
        let path = folder.path().join(file.name());
        fs::write(&path, content).expect("a file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .expect("the mode of the file can be set");
    }
    folder
}

/// A random generator with a seed: the same seed gives the same power cuts.
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`, by splitmix64 (Steele, Lea, Flood 2014).
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64)
            .expect("the number fits into a usize")
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(file: File, act: FileOperation) -> Entry {
        Entry { file, act, end: 0 }
    }

    fn write(file: File, offset: usize, byte: u8) -> Entry {
        entry(file, FileOperation::Write { offset, bytes: vec![byte; 2 * SECTOR] })
    }

    fn images(entries: &[Entry]) -> Vec<Image> {
        (0..64).map(|seed| after_power_cut(entries, &mut SeededRandom::new(seed))).collect()
    }

    #[test]
    fn only_unflushed_writes_are_lost_kept_or_torn() {
        let entries = [
            write(File::Log, 0, 1),
            entry(File::Log, FileOperation::Flush),
            write(File::Log, 2 * SECTOR, 2),
            write(File::Database, 0, 3),
        ];
        let images = images(&entries);
        assert!(images.iter().all(|image| image[&File::Log][..2 * SECTOR] == [1; 2 * SECTOR]));
        let tails: Vec<&[u8]> =
            images.iter().map(|image| &image[&File::Log][2 * SECTOR..]).collect();
        let full_write = [2; 2 * SECTOR];
        assert!(tails.iter().any(|tail| tail.is_empty()) && tails.contains(&&full_write[..]));
        assert!(
            tails.iter().any(|tail| tail.len() == SECTOR || tail.starts_with(&[0; SECTOR])),
            "none is torn"
        );
        assert!(
            images.iter().any(|image| !image.contains_key(&File::Database)),
            "a flush of one file does not flush others"
        );
    }

    #[test]
    fn removal_is_certain_after_flush_of_any_file() {
        let mut entries = vec![
            write(File::Journal, 0, 1),
            entry(File::Journal, FileOperation::Flush),
            entry(File::Journal, FileOperation::Remove),
        ];
        let there = |images: &[Image]| {
            images.iter().filter(|image| image.contains_key(&File::Journal)).count()
        };
        assert!((1..64).contains(&there(&images(&entries))));
        entries.push(entry(File::Log, FileOperation::Flush));
        assert_eq!(there(&images(&entries)), 0);
    }

    #[test]
    fn next_flush_does_not_restore_failed_flush_writes() {
        let entries = [
            write(File::Log, 0, 1),
            entry(File::Log, FileOperation::FailedFlush),
            entry(File::Log, FileOperation::Flush),
        ];
        assert!(images(&entries).iter().any(|image| !image.contains_key(&File::Log)));
    }
}
