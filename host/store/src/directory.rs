//! The data directory: made private, locked for one process, its files readable by their owner
//! alone.
//!
//! The attacks this file stops: two processes that write one database, each with its own idea of
//! what is claimed; and other accounts of the machine that read the files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;

use crate::fault::StoreFault;

const LOCK_FILE: &str = "lock";
const DATABASE_FILE: &str = "bulkhead.db";

/// Holds the directory for this process until dropped. The kernel releases it when the process
/// dies.
pub(crate) struct DirectoryLock {
    file: File,
}

/// The right to work on the database of a directory: one store has it, or one initialisation.
pub(crate) type HeldDirectory = OwnedMutexGuard<DirectoryLock>;

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing it would not do: a child of this process has a copy until it runs its own
        // program. What fails here is released by the kernel all the same.
        let _ = self.file.unlock();
    }
}

/// Makes the directory with mode 0700 if it is missing, parents included, and flushes its entry.
///
/// # Errors
/// [`StoreFault::Unavailable`] when it cannot be made.
pub(crate) fn create(directory: &Path) -> Result<(), StoreFault> {
    if directory.is_dir() {
        return Ok(());
    }
    let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.map_err(|error| cannot("create the data directory", directory, &error))?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => flush(parent),
        _ => flush(Path::new(".")),
    }
}

/// Takes the directory for this process.
///
/// # Errors
/// [`StoreFault::Refused`] when another process (or another store of this one) has it;
/// [`StoreFault::Unavailable`] when the lock file cannot be opened.
pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock, StoreFault> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| cannot("open the lock file", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(DirectoryLock { file }),
        Err(TryLockError::WouldBlock) => Err(StoreFault::Refused(format!(
            "the data directory {} is in use by another Bulkhead process; \
             stop that one or choose another directory",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(cannot("lock", &path, &error)),
    }
}

/// Where the directory's database is.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE_FILE)
}

/// Whether there is a database file that holds anything.
///
/// # Errors
/// [`StoreFault::Unavailable`] when that cannot be read.
pub(crate) fn holds_database(directory: &Path) -> Result<bool, StoreFault> {
    let path = database(directory);
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.len() > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(cannot("read", &path, &error)),
    }
}

/// Makes sure that the database file exists with mode 0600 before SQLite opens it: SQLite would
/// make it readable by others, and gives its side files the mode of this one.
///
/// # Errors
/// [`StoreFault::Unavailable`] when it cannot be made.
pub(crate) fn ensure_database(directory: &Path) -> Result<(), StoreFault> {
    let path = database(directory);
    match create_private(&path) {
        Ok(_) => flush(directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot("create", &path, &error)),
    }
}

/// Makes a new file with mode 0600.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] when there is one, also when it is a dangling link.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes the file at `path` with this content and mode 0600, whole or not at all: killed half-way,
/// it leaves a file of another name, which the next attempt replaces. The directory is still to be
/// flushed.
///
/// # Errors
/// As the system reports them.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Flushes the directory itself, so that new entries survive a power cut.
///
/// # Errors
/// [`StoreFault::Unavailable`] when the flush fails.
pub(crate) fn flush(directory: &Path) -> Result<(), StoreFault> {
    File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| cannot("flush the directory", directory, &error))
}

/// The fault for a file operation that failed.
pub(crate) fn cannot(act: &str, path: &Path, error: &io::Error) -> StoreFault {
    StoreFault::Unavailable(format!(
        "cannot {act} {}: {error}; \
         check that the path exists, belongs to this user and has free space",
        path.display()
    ))
}
