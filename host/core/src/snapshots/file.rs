//! The file of a scheduled snapshot while the file is being written.
//!
//! This file prevents a backup that is not complete from having the name of a complete one, and a
//! full disk from being filled by attempts: the file is renamed after a flush and after all digests
//! were checked, and is deleted in every other case.

use super::ScheduledSnapshot;
use super::folder::unusable;
use bulkhead_store::inspect_snapshot_while;
use bulkhead_wire::failure::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Mode of the files.
const FILE_MODE: u32 = 0o600;
/// Number of bytes after which the file is flushed. A single flush at the end would make the
/// commits of the server wait for all bytes of the snapshot.
const FLUSH_BYTES: u64 = 16 << 20;

/// A file that is deleted unless it is completed.
pub(crate) struct UnfinishedSnapshot {
    file: File,
    path: PathBuf,
    complete: PathBuf,
    bytes: u64,
    unflushed: u64,
    is_complete: bool,
}

/// A file that has its name.
pub(crate) struct CompleteSnapshot {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// The failure to flush the directory: a loss of power may take the file away. Retention goes
    /// on all the same, because each attempt leaves a file.
    pub(crate) flushed: Result<(), Failure>,
}

impl UnfinishedSnapshot {
    /// Creates the file of a snapshot of `time`, in milliseconds since 1970.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(plan: &ScheduledSnapshot, time: u64) -> Result<Self, Failure> {
        let names = plan.name.unfinished_file_of(time).zip(plan.name.file_of(time));
        let (name, complete) =
            names.ok_or_else(|| Failure::internal("the store time is outside of the calendar"))?;
        let path = plan.directory.join(name);
        let created = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path);
        let file = created.map_err(|error| unusable("create", &path, &error))?;
        let complete = plan.directory.join(complete);
        let snapshot = Self { file, path, complete, bytes: 0, unflushed: 0, is_complete: false };
        // Not every file system of a network has locks.
        drop(snapshot.file.try_lock());
        Ok(snapshot)
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// The file cannot be written, such as on a full disk.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        self.unflushed = self.unflushed.saturating_add(length);
        let mut written = self.file.write_all(piece);
        if self.unflushed >= FLUSH_BYTES {
            self.unflushed = 0;
            written = written.and_then(|()| self.file.sync_data());
        }
        written.map_err(|error| unusable("write", &self.path, &error))
    }

    /// Flushes the file, checks its digests while `may_continue` returns true, and gives the file
    /// its name.
    ///
    /// # Errors
    /// The file cannot be flushed, read or renamed, or is not a complete snapshot.
    pub(crate) fn complete(
        mut self,
        may_continue: impl Fn() -> bool,
    ) -> Result<CompleteSnapshot, Failure> {
        let failed = |act, error: &io::Error| unusable(act, &self.path, error);
        self.file.sync_all().map_err(|error| failed("flush", &error))?;
        let summary = inspect_snapshot_while(&self.path, may_continue)?;
        fs::rename(&self.path, &self.complete).map_err(|error| failed("rename", &error))?;
        self.is_complete = true;
        let flushed = flush_directory(&self.complete);
        Ok(CompleteSnapshot { bytes: self.bytes, records: summary.manifest.records, flushed })
    }
}

/// Flushes the directory of `file`. A file system of a network may have no such flush.
///
/// # Errors
/// The directory cannot be opened or flushed.
pub(super) fn flush_directory(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().map(File::open).transpose();
    let flushed = folder.and_then(|folder| folder.map_or(Ok(()), |open| open.sync_all()));
    match flushed {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        flushed => flushed.map_err(|error| unusable("flush the directory of", file, &error)),
    }
}

impl Drop for UnfinishedSnapshot {
    fn drop(&mut self) {
        if !self.is_complete {
            // The next attempt deletes a file that remains.
            drop(fs::remove_file(&self.path));
        }
    }
}
