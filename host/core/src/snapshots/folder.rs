//! The directory of a scheduled snapshot: its rights, the files in it, and the deletion of the
//! oldest files.
//!
//! This file prevents the deletion of foreign files: only regular files with exactly the names of
//! this snapshot are deleted. Snapshots that the server's data directory would lose with the data,
//! and snapshots that others may read, are refused.

use super::ScheduledSnapshot;
use bulkhead_wire::failure::{Failure, FailureKind};
use rustix::fs::{Access, access};
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Permission bits that the directory must not have, as for a file with a key.
const OTHERS: u32 = 0o027;

/// The outcome of the deletion of the oldest files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Number of deleted files.
    pub(crate) deleted: usize,
    /// Number of files of a later time than the new file. Such files stay, and are not counted.
    pub(crate) later: usize,
}

impl ScheduledSnapshot {
    /// Checks that this user can write files to the directory, and that the directory is closed to
    /// others and outside of the data directory `data`.
    ///
    /// # Errors
    /// The reason why the directory cannot be used, and the remedy.
    pub fn check_directory(&self, data: &Path) -> Result<(), Failure> {
        let shown = self.directory.display();
        let refused = |why: String| {
            Failure::invalid(format!("snapshot {:?}: {why}", self.name.as_str())).recordable()
        };
        let found = fs::metadata(&self.directory).map_err(|error| {
            refused(format!("the directory {shown} cannot be used: {error}; create {shown}"))
        })?;
        if !found.is_dir() {
            return Err(refused(format!("{shown} is not a directory; name another path")));
        }
        let mode = found.permissions().mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(refused(format!(
                "{shown} is open to others (mode {mode:04o}); run chmod 700 {shown}"
            )));
        }
        access(&self.directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(
            |error| {
                refused(format!(
                    "{shown} cannot be written by this user: {error}; change the owner or mode"
                ))
            },
        )?;
        if is_inside(&self.directory, data) {
            return Err(refused(format!(
                "{shown} is inside of the data directory, and would be lost with the data; name \
                 another path, best on another disk"
            )));
        }
        Ok(())
    }

    /// Returns the time of the newest complete file until `now`, in milliseconds since 1970. A file
    /// of a later time is not counted: its clock was wrong, and would postpone the next snapshot.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn newest_until(&self, now: u64) -> Result<Option<u64>, Failure> {
        let files = self.complete_files()?;
        Ok(files.into_iter().map(|(time, _)| time).filter(|time| *time <= now).max())
    }

    /// Deletes the oldest complete files, so that `retain` files until the time `saved` remain, of
    /// which one is the file of `saved`. Files of a later time stay: a clock that was ahead, or set
    /// back, must not make the server delete every snapshot of the right time.
    ///
    /// # Errors
    /// The directory cannot be read, or a file cannot be deleted.
    pub(crate) fn delete_oldest(&self, saved: u64) -> Result<Retention, Failure> {
        let files = self.complete_files()?;
        let second = saved / 1_000;
        let (mut others, rest): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(time, _)| time / 1_000 < second);
        let later = rest.iter().filter(|(time, _)| time / 1_000 > second).count();
        others.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
        let oldest = others.get(self.retain.saturating_sub(1)..).unwrap_or_default();
        for (_, file) in oldest {
            fs::remove_file(file).map_err(|error| unusable("delete", file, &error))?;
        }
        Ok(Retention { deleted: oldest.len(), later })
    }

    /// Deletes files that a process which was killed has left unfinished.
    ///
    /// # Errors
    /// As [`Self::delete_oldest`].
    pub(crate) fn delete_unfinished(&self) -> Result<(), Failure> {
        for (_, file) in self.files(|name| self.name.is_unfinished(name).then_some(0))? {
            delete_unlocked(&file).map_err(|error| unusable("delete", &file, &error))?;
        }
        Ok(())
    }

    fn complete_files(&self) -> Result<Vec<(u64, PathBuf)>, Failure> {
        self.files(|name| self.name.time_of(name))
    }

    /// Returns the regular files for whose names `time_of` returns a time.
    fn files(&self, time_of: impl Fn(&str) -> Option<u64>) -> Result<Vec<(u64, PathBuf)>, Failure> {
        let read = |error| unusable("read", &self.directory, &error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(read)? {
            let entry = entry.map_err(read)?;
            let time = entry.file_name().to_str().and_then(&time_of);
            if let Some(time) = time
                && entry.file_type().map_err(read)?.is_file()
            {
                found.push((time, entry.path()));
            }
        }
        Ok(found)
    }
}

/// Deletes an unfinished file. A file that this user cannot open is deleted as well: the directory
/// alone decides about the right to delete.
///
/// # Errors
/// A process still writes the file, or the file cannot be deleted.
fn delete_unlocked(file: &Path) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).open(file);
    // A process that still writes the file holds the lock.
    if opened.is_ok_and(|opened| matches!(opened.try_lock(), Err(TryLockError::WouldBlock))) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    match fs::remove_file(file) {
        // The thread of an earlier attempt has deleted the file meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the failure of an act on a file or directory.
pub(super) fn unusable(act: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot {act} {}: {error}", path.display());
    Failure::new(FailureKind::Unavailable, message).recordable()
}

/// Returns true if `directory` is `data` or below. Data that do not exist contain no directory.
fn is_inside(directory: &Path, data: &Path) -> bool {
    match (fs::canonicalize(directory), fs::canonicalize(data)) {
        (Ok(directory), Ok(data)) => directory.starts_with(data),
        _ => false,
    }
}
