//! Reading the container of a snapshot.
//!
//! This file prevents a file that was cut, edited or made by another program from being taken for a
//! snapshot: entries come in the order of the writer, each header is the header that the writer
//! would write, the digests are those of the entries, and nothing follows the end. It also prevents
//! a hostile file from filling the memory: an entry is read only as far as its bound.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::archive::{
    BLOCK_BYTES, END_BLOCKS, MANIFEST_NAME, SEALED_SUMS_NAME, SUMS_NAME, entry_header, padding,
    sum_line,
};
use crate::fault::StoreFault;

/// Maximum size of an entry, in bytes: part of the rows with a record of the largest size, or the
/// digests of a snapshot of 700 GiB.
const MAX_ENTRY_BYTES: usize = 64 << 20;
/// Maximum size of the manifest, in bytes. A server writes about 300.
const MAX_MANIFEST_BYTES: usize = 64 << 10;
/// Maximum size of the keyed hash in hexadecimal, in bytes.
const MAX_SEALED_SUMS_BYTES: usize = 64;

/// Reads the entries of an archive in order.
pub struct ArchiveReader<R: Read> {
    gzip: GzDecoder<BufReader<R>>,
    /// The digests of the entries so far.
    sums: String,
}

/// An entry of an archive.
pub struct ArchiveEntry {
    /// The name.
    pub name: String,
    /// The bytes.
    pub content: Vec<u8>,
}

/// The end of an archive.
pub enum ArchiveItem {
    /// An entry.
    Entry(ArchiveEntry),
    /// The digests are right. Holds the text of the digests and the content of the last entry.
    End {
        /// The digests of the entries.
        sums: String,
        /// The content of the last entry.
        sealed: String,
    },
}

impl<R: Read> ArchiveReader<R> {
    /// Creates the reader at the beginning of the file.
    pub fn new(file: R) -> ArchiveReader<R> {
        ArchiveReader { gzip: GzDecoder::new(BufReader::new(file)), sums: String::new() }
    }

    /// Reads the next entry, or the end with all checks.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] with the difference from a complete snapshot.
    pub fn read_next(&mut self) -> Result<ArchiveItem, StoreFault> {
        let entry = self.read_entry()?;
        if entry.name != SUMS_NAME {
            self.sums.push_str(&sum_line(&entry.name, &entry.content));
            if self.sums.len() > MAX_ENTRY_BYTES {
                return Err(damaged("the archive has too many entries"));
            }
            return Ok(ArchiveItem::Entry(entry));
        }
        if entry.content != self.sums.as_bytes() {
            return Err(damaged("the digests in SHA256SUMS are not those of the content"));
        }
        let sealed = self.read_entry()?;
        if sealed.name != SEALED_SUMS_NAME {
            return Err(damaged("the entry SHA256SUMS.sealed is missing"));
        }
        let sealed = String::from_utf8(sealed.content)
            .map_err(|_| damaged("the entry SHA256SUMS.sealed is not text"))?;
        self.check_end()?;
        Ok(ArchiveItem::End { sums: std::mem::take(&mut self.sums), sealed })
    }

    fn read_entry(&mut self) -> Result<ArchiveEntry, StoreFault> {
        let header = self.read_exactly(BLOCK_BYTES)?;
        let (name, size) = read_header(&header)
            .ok_or_else(|| damaged("an entry has a header that no server wrote"))?;
        self.check_size(&name, size)?;
        let content = self.read_exactly(size)?;
        if self.read_exactly(padding(size))?.iter().any(|byte| *byte != 0) {
            return Err(damaged("there are bytes between two entries"));
        }
        Ok(ArchiveEntry { name, content })
    }

    /// Checks the size of an entry before the content is read.
    fn check_size(&self, name: &str, size: usize) -> Result<(), StoreFault> {
        let most = match name {
            SUMS_NAME if size != self.sums.len() => {
                return Err(damaged("the digests in SHA256SUMS are not those of the content"));
            }
            MANIFEST_NAME => MAX_MANIFEST_BYTES,
            SEALED_SUMS_NAME => MAX_SEALED_SUMS_BYTES,
            _ => MAX_ENTRY_BYTES,
        };
        if size > most {
            return Err(damaged(&format!("an entry is longer than {most} bytes")));
        }
        Ok(())
    }

    fn read_exactly(&mut self, size: usize) -> Result<Vec<u8>, StoreFault> {
        let mut content = Vec::new();
        let most = u64::try_from(size).unwrap_or(u64::MAX);
        (&mut self.gzip).take(most).read_to_end(&mut content).map_err(|error| unread(&error))?;
        if content.len() < size {
            return Err(damaged("the file ends too early"));
        }
        Ok(content)
    }

    /// Checks that the archive and the file end here.
    fn check_end(&mut self) -> Result<(), StoreFault> {
        let end = self.read_exactly(END_BLOCKS * BLOCK_BYTES)?;
        let mut more = [0];
        // Reading the end lets the decompressor check its own checksum.
        let read = self.gzip.read(&mut more).map_err(|error| unread(&error))?;
        let rest = self.gzip.get_mut().fill_buf().map_err(|error| unread(&error))?;
        if read > 0 || !rest.is_empty() || end.iter().any(|byte| *byte != 0) {
            return Err(damaged("there are bytes after the end"));
        }
        Ok(())
    }
}

/// Returns name and size of a header; `None` if the writer would write another header for them.
fn read_header(header: &[u8]) -> Option<(String, usize)> {
    let name = header.get(..100)?.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let size = std::str::from_utf8(header.get(124..135)?).ok()?;
    let size = usize::from_str_radix(size, 8).ok()?;
    let is_ours = !name.is_empty() && entry_header(name, size)?.as_slice() == header;
    is_ours.then(|| (name.to_owned(), size))
}

/// Returns the fault of a file that is not a complete snapshot.
pub fn damaged(fault: &str) -> StoreFault {
    StoreFault::Refused(format!(
        "the file is not a complete snapshot: {fault}; nothing was changed; take another copy of \
         the file, or another snapshot"
    ))
}

fn unread(error: &io::Error) -> StoreFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("the file ends too early"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            damaged("the file is not compressed by gzip, or was changed")
        }
        _ => StoreFault::Unavailable(format!("the snapshot cannot be read: {error}")),
    }
}
