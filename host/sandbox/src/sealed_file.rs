//! A file in memory that cannot change once it is sealed, for compiled code.
//!
//! This file prevents large code from being in memory twice: the code is written into the file
//! piece by piece, and wasmtime maps the file instead of copying bytes. This file prevents a change
//! between the check of the code and its use, too: the kernel refuses every write to a sealed file,
//! and every later removal of the seals.

use bulkhead_wire::hexadecimal;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Name of the files in `/proc/PID/maps`.
const NAME: &str = "compiled-code";

/// A file in memory that is being written.
pub struct UnsealedFile {
    file: File,
    hash: aws_lc_rs::digest::Context,
    bytes: usize,
}

impl UnsealedFile {
    /// Makes an empty file, which no path names.
    ///
    /// # Errors
    /// If the system has no descriptor or memory left.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memory_file()?);
        let hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        Ok(Self { file, hash, bytes: 0 })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the system has no memory left.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len();
        Ok(())
    }

    /// Seals the file and closes the descriptor that could write.
    ///
    /// # Errors
    /// If `/proc` is not mounted, or the system has no descriptor left.
    pub(crate) fn seal(self) -> io::Result<SealedFile> {
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&self.file, seals)?;
        let file = File::open(path_of(&self.file))?;
        let sha256 = hexadecimal::text(self.hash.finish().as_ref());
        Ok(SealedFile { file, sha256, bytes: self.bytes })
    }
}

/// A file in memory that nobody can write any more.
pub(crate) struct SealedFile {
    file: File,
    sha256: String,
    bytes: usize,
}

impl SealedFile {
    /// Returns a path by which this process opens the file.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.file)
    }

    /// Returns the SHA-256 of the content, hexadecimal.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads a part of the content.
    ///
    /// # Errors
    /// If the range ends behind the end of the file.
    pub(crate) fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let offset = u64::try_from(range.start).map_err(io::Error::other)?;
        let mut part = vec![0; range.len()];
        self.file.read_exact_at(&mut part, offset)?;
        Ok(part)
    }
}

fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes the file so that it cannot be started as a program: some systems refuse any other file in
/// memory. Linux before 6.3 does not know the flag.
fn memory_file() -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(NAME, flags),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::digest;
    use std::fs::OpenOptions;

    fn sealed(pieces: &[&[u8]]) -> SealedFile {
        let mut file = UnsealedFile::new().unwrap();
        pieces.iter().for_each(|piece| file.append(piece).unwrap());
        file.seal().unwrap()
    }

    #[test]
    fn the_content_is_all_pieces_in_order() {
        let file = sealed(&[b"machine", b"", b" code"]);
        assert_eq!(file.bytes(), 12);
        assert_eq!(file.read(0..12).unwrap(), b"machine code");
        assert_eq!(file.read(3..9).unwrap(), b"hine c");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"machine code");
        assert_eq!(file.sha256(), digest(b"machine code"));
        assert!(file.read(8..13).is_err(), "the file has no 13 bytes");
    }

    #[test]
    fn a_sealed_file_refuses_writes_and_other_lengths() {
        let file = sealed(&[b"code"]);
        let writer = OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
        let refused = writer.write_at(b"evil", 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        for length in [0, 8] {
            let refused = writer.set_len(length).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        }
        assert!(fcntl_add_seals(&writer, SealFlags::empty()).is_err(), "the seals are final");
        assert_eq!(file.read(0..4).unwrap(), b"code");
    }

    #[test]
    fn the_descriptor_that_is_kept_cannot_write() {
        let file = sealed(&[b"code"]);
        let flags = rustix::fs::fcntl_getfl(&file.file).unwrap();
        assert!(!flags.intersects(rustix::fs::OFlags::RDWR | rustix::fs::OFlags::WRONLY));
    }
}
