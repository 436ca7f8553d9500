//! Directories whose files are read by names that callers of the API give.
//!
//! The attacks this file prevents: a name that leads out of the directory (`..`, a slash, a
//! symbolic link), a file or directory that every user of the machine can change, a file that has
//! no end, and a pipe that blocks the reader. Each check is made on the opened file, which is then
//! the file that is read.

use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum length of a file name, in bytes.
const NAME_BYTES: usize = 255;

/// The permission bit that lets every user of the machine write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// An opened directory that only its owner and group can change.
pub(super) struct ProtectedFolder {
    opened: OwnedFd,
    /// Path for messages.
    path: PathBuf,
}

impl ProtectedFolder {
    /// Opens a directory by its whole path.
    ///
    /// # Errors
    /// 400 for a directory that is missing, is a symbolic link, or is writable by every user.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::open_at(CWD, path, path.to_path_buf())
    }

    fn open_at(parent: impl rustix::fd::AsFd, name: &Path, path: PathBuf) -> Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(parent, name, flags, Mode::empty());
        let opened = opened.map_err(|errno| open_failure(&path, "directory", errno))?;
        let found =
            rustix::fs::fstat(&opened).map_err(|errno| read_failure(&path, errno.into()))?;
        check_closed(&path, found.st_mode)?;
        Ok(Self { opened, path })
    }

    /// Opens a directory in this directory.
    ///
    /// # Errors
    /// As [`ProtectedFolder::open`]; 400 for a name that is not a plain file name.
    pub(super) fn folder(&self, name: &str) -> Result<Self, Failure> {
        check_name(name)?;
        Self::open_at(&self.opened, Path::new(name), self.path.join(name))
    }

    /// Reads a file of this directory.
    ///
    /// # Errors
    /// 400 for a name that is not a plain file name, and for a file that is missing, is a link or
    /// no regular file, is writable by every user, or has more than `most` bytes.
    pub(super) fn file(&self, name: &str, most: u64) -> Result<Vec<u8>, Failure> {
        check_name(name)?;
        let path = self.path.join(name);
        // Opening a pipe would block without NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.opened, name, flags | OFlags::NOCTTY, Mode::empty());
        let opened = opened.map_err(|errno| open_failure(&path, "file", errno))?;
        let found =
            rustix::fs::fstat(&opened).map_err(|errno| read_failure(&path, errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Failure::invalid(format!(
                "{} is not a regular file; give the name of a file",
                path.display()
            )));
        }
        check_closed(&path, found.st_mode)?;
        let mut bytes = Vec::new();
        let read = File::from(opened).take(most.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| read_failure(&path, error))?;
        if bytes.len() as u64 > most {
            let limit = bulkhead_wire::size::show(most);
            return Err(Failure::invalid(format!(
                "{} is longer than {limit}, the maximum",
                path.display()
            )));
        }
        Ok(bytes)
    }
}

/// Refuses a name that could lead out of its directory.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain =
        !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES && !name.contains(['/', '\0']);
    if is_plain {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "{} is not a name in the plugin directory; give a name without / and without the path of \
         the directory",
        quoted(name)
    )))
}

/// Refuses a file or directory that every user of the machine can change.
fn check_closed(path: &Path, mode: u32) -> Result<(), Failure> {
    if mode & WRITABLE_BY_ALL == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::invalid(format!(
        "every user of the machine can write to {shown} (mode {:04o}); run chmod o-w {shown}",
        mode & 0o7777
    )))
}

fn open_failure(path: &Path, kind: &str, errno: Errno) -> Failure {
    let shown = path.display();
    match errno {
        Errno::NOENT => Failure::invalid(format!("there is no {kind} {shown}")),
        // With NOFOLLOW the system reports a link as a loop, or as no directory.
        Errno::LOOP | Errno::NOTDIR | Errno::NXIO => Failure::invalid(format!(
            "{shown} is a symbolic link or no {kind}; links are not followed: put the {kind} \
             itself there"
        )),
        Errno::ACCESS | Errno::PERM => Failure::invalid(format!(
            "{shown} cannot be opened by the user of the server; make the {kind} readable for \
             this user"
        )),
        other => read_failure(path, other.into()),
    }
}

fn read_failure(path: &Path, error: io::Error) -> Failure {
    Failure::new(FailureKind::Unavailable, format!("{} cannot be read: {error}", path.display()))
}
