//! The container of a snapshot: a tar archive in the format "ustar", compressed by gzip, with the
//! digests of its entries.
//!
//! Rows are ciphertext for the most part, so that the compression would cost processor time and
//! save little: gzip stores the bytes as they are.

use std::io::{self, Write as _};
use std::mem;

use aws_lc_rs::digest;
use bulkhead_wire::hexadecimal;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

/// Purpose of the keyed hash in the last entry.
pub const SUMS_PURPOSE: &str = "snapshot";

/// Size at which a part of the rows is closed, in bytes. A part exceeds the size by less than a
/// record.
pub const PART_BYTES: usize = 1 << 20;

/// Name of the entry with the manifest.
pub const MANIFEST_NAME: &str = "meta.json";
/// Name of the entry with the digests.
pub const SUMS_NAME: &str = "SHA256SUMS";
/// Name of the last entry. Clients take a snapshot without this entry for incomplete.
pub const SEALED_SUMS_NAME: &str = "SHA256SUMS.sealed";

/// Unit of a tar archive, in bytes.
pub const BLOCK_BYTES: usize = 512;
/// Number of empty blocks that end a tar archive.
pub const END_BLOCKS: usize = 2;

/// Returns the name of the entry with the part `number` of the rows.
pub fn state_name(number: u64) -> String {
    format!("state.{number:08}.bin")
}

/// Returns the header of an entry. A name or size that does not fit gives `None`; no name or size
/// of this module does not fit.
pub fn entry_header(name: &str, size: usize) -> Option<[u8; BLOCK_BYTES]> {
    let mut header = [0; BLOCK_BYTES];
    put(&mut header, 0, name.as_bytes())?;
    put(&mut header, 100, b"0000600\0")?;
    put(&mut header, 108, b"0000000\0")?;
    put(&mut header, 116, b"0000000\0")?;
    put(&mut header, 124, format!("{size:011o}\0").as_bytes())?;
    put(&mut header, 136, b"00000000000\0")?;
    // The sum is computed with spaces in its own place.
    put(&mut header, 148, b"        ")?;
    put(&mut header, 156, b"0")?;
    put(&mut header, 257, b"ustar\x0000")?;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes())?;
    (name.len() < 100 && size < 1 << 33).then_some(header)
}

fn put(header: &mut [u8; BLOCK_BYTES], at: usize, bytes: &[u8]) -> Option<()> {
    header.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
    Some(())
}

/// Returns the number of bytes between the end of an entry of this size and the next header.
pub fn padding(size: usize) -> usize {
    size.next_multiple_of(BLOCK_BYTES).saturating_sub(size)
}

/// Returns the line of `SHA256SUMS` for an entry.
pub fn sum_line(name: &str, content: &[u8]) -> String {
    let sum = digest::digest(&digest::SHA256, content);
    format!("{}  {name}\n", hexadecimal::text(sum.as_ref()))
}

/// Writes an archive into memory, from which the caller takes the bytes piece by piece.
pub struct ArchiveWriter {
    gzip: GzEncoder<Vec<u8>>,
    sums: String,
}

impl Default for ArchiveWriter {
    fn default() -> ArchiveWriter {
        let gzip = GzBuilder::new().write(Vec::new(), Compression::none());
        ArchiveWriter { gzip, sums: String::new() }
    }
}

impl ArchiveWriter {
    /// Adds an entry, whose digest becomes part of `SHA256SUMS`.
    ///
    /// # Errors
    /// A name or size that does not fit a header.
    pub fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.sums.push_str(&sum_line(name, content));
        self.add_entry(name, content)
    }

    /// Removes the bytes written so far. Some bytes stay in the compressor until the next call.
    pub fn take(&mut self) -> Vec<u8> {
        mem::take(self.gzip.get_mut())
    }

    /// Adds the digests and the hash that `seal` returns for the digests, and ends the archive.
    /// Returns the rest of the bytes.
    ///
    /// # Errors
    /// As [`ArchiveWriter::add`].
    pub fn finish(mut self, seal: impl FnOnce(&[u8]) -> String) -> io::Result<Vec<u8>> {
        let sums = mem::take(&mut self.sums);
        self.add_entry(SUMS_NAME, sums.as_bytes())?;
        let sealed = seal(sums.as_bytes());
        self.add_entry(SEALED_SUMS_NAME, sealed.as_bytes())?;
        self.gzip.write_all(&[0; END_BLOCKS * BLOCK_BYTES])?;
        self.gzip.finish()
    }

    fn add_entry(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let header = entry_header(name, content.len())
            .ok_or_else(|| io::Error::other("an entry of the snapshot is too large"))?;
        self.gzip.write_all(&header)?;
        self.gzip.write_all(content)?;
        let zeros = [0; BLOCK_BYTES];
        self.gzip.write_all(zeros.get(..padding(content.len())).unwrap_or_default())
    }
}
