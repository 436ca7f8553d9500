//! The data directory on disk: private, locked for a single process, with files readable by the
//! owner only.
//!
//! This file prevents two processes with different views of claims from writing the same database,
//! and other accounts of the machine from reading the files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;

use bulkhead_record::fault::StoreFault;

const LOCK_FILE: &str = "lock";
/// Name of the file with the records of an SQLite store.
pub const DATABASE_FILE: &str = "bulkhead.db";

/// Beginning and end of the name of a snapshot that a client sends. The file lasts as long as its
/// request.
pub const UNFINISHED_RESTORE: (&str, &str) = ("restore-", ".unfinished");

/// A lock on the directory for this process, until dropped. The kernel releases the lock when the
/// process dies.
pub struct DirectoryLock {
    file: File,
}

/// The right to work on the database of a directory. A single store or a single initialisation has
/// this right at a time.
pub type HeldDirectory = OwnedMutexGuard<DirectoryLock>;

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file would not suffice: a child process has a copy of the descriptor until
        // the child executes another program. If unlocking fails, the kernel releases the lock at
        // the end of the process.
        let _ = self.file.unlock();
    }
}

/// Creates the directory with mode 0700 if missing, including parents, and flushes the directory
/// entry.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the directory cannot be created.
pub fn create(directory: &Path) -> Result<(), StoreFault> {
    if directory.is_dir() {
        return Ok(());
    }
    let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.map_err(|error| file_failure("create the data directory", directory, &error))?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => flush(parent),
        _ => flush(Path::new(".")),
    }
}

/// Locks the directory for this process.
///
/// # Errors
/// [`StoreFault::Refused`] if another process (or another store of this process) holds the lock;
/// [`StoreFault::Unavailable`] if the lock file cannot be opened.
pub fn lock(directory: &Path) -> Result<DirectoryLock, StoreFault> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| file_failure("open the lock file", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(DirectoryLock { file }),
        Err(TryLockError::WouldBlock) => Err(StoreFault::Refused(format!(
            "the data directory {} is in use by another Bulkhead process; stop that process or \
             choose another directory",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(file_failure("lock", &path, &error)),
    }
}

/// Locks the directory for this process without creating or writing a file; `None` if the directory
/// has no lock file, as a copy of a directory may have none.
///
/// # Errors
/// [`StoreFault::Refused`] if another process holds the lock; [`StoreFault::Unavailable`] if the
/// lock file cannot be read.
pub fn lock_existing(directory: &Path) -> Result<Option<DirectoryLock>, StoreFault> {
    let path = directory.join(LOCK_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_failure("open the lock file", &path, &error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(DirectoryLock { file })),
        Err(TryLockError::WouldBlock) => Err(StoreFault::Refused(format!(
            "the data directory {} is in use by a Bulkhead process; stop that process, or check a \
             snapshot instead",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(file_failure("lock", &path, &error)),
    }
}

/// Returns whether a process holds the lock of the directory.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the lock file cannot be read.
pub fn is_locked(directory: &Path) -> Result<bool, StoreFault> {
    let path = directory.join(LOCK_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(file_failure("open the lock file", &path, &error)),
    };
    // A shared lock, so that two processes that ask do not see each other.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(file_failure("ask for", &path, &error)),
    }
}

/// Returns the path of the directory's database.
pub fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE_FILE)
}

/// Returns `true` if there is a database file that is not empty.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file's metadata cannot be read.
pub fn holds_database(directory: &Path) -> Result<bool, StoreFault> {
    let path = database(directory);
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.len() > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file_failure("read", &path, &error)),
    }
}

/// Returns whether a dead process left writes beside the database that only the next start merges.
pub fn has_unfinished_writes(directory: &Path) -> bool {
    ["-journal", "-wal"].iter().any(|suffix| {
        let file = directory.join(format!("{DATABASE_FILE}{suffix}"));
        fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0)
    })
}

/// Returns a file that an interrupted initialisation or restore left, if there is one. The next
/// start completes or removes the change.
pub fn find_unfinished_change(directory: &Path) -> Option<PathBuf> {
    let database = database(directory);
    let files = ["db-journal", "db.put-back"].map(|end| database.with_extension(end));
    files.into_iter().find(|file| file.exists())
}

/// Creates the database file with mode 0600, if missing, before SQLite opens the file: SQLite would
/// make the file readable by others, and gives side files the same mode.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file cannot be created.
pub fn ensure_database(directory: &Path) -> Result<(), StoreFault> {
    let path = database(directory);
    match create_private(&path) {
        Ok(_) => flush(directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(file_failure("create", &path, &error)),
    }
}

/// Creates a new file with mode 0600.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the path exists, even as a dangling link.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates the file at `path` with this content and mode 0600, atomically. A process killed
/// half-way leaves a file of another name, which the next attempt replaces. The caller must flush
/// the directory.
///
/// # Errors
/// The error of the system.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
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

/// Removes snapshots that a killed process was receiving.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the directory cannot be read, or a file cannot be removed.
pub fn remove_unfinished_restores(directory: &Path) -> Result<(), StoreFault> {
    let (begin, end) = UNFINISHED_RESTORE;
    let unreadable = |error: io::Error| file_failure("read", directory, &error);
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(begin) && name.ends_with(end)) {
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| file_failure("remove", &path, &error))?;
        }
    }
    Ok(())
}

/// Flushes the directory itself, so that new entries survive a power cut.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the flush fails.
pub fn flush(directory: &Path) -> Result<(), StoreFault> {
    File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| file_failure("flush the directory", directory, &error))
}

/// Returns the fault for a database at `path` that cannot be used.
pub fn unusable(path: &Path, fault: &str) -> StoreFault {
    StoreFault::Refused(format!(
        "{} {fault}; choose another data directory, or restore this directory",
        path.display()
    ))
}

/// Returns the fault for a failed file operation.
pub fn file_failure(act: &str, path: &Path, error: &io::Error) -> StoreFault {
    StoreFault::Unavailable(format!(
        "cannot {act} {}: {error}; check existence, owner and free space of the path",
        path.display()
    ))
}
