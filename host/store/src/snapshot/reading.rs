//! Reading a snapshot from beginning to end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest;
use bulkhead_wire::hexadecimal;

use bulkhead_place::directory::file_failure;
use bulkhead_record::archive::{MANIFEST_NAME, PART_BYTES, state_name};
use bulkhead_record::archive_reader::{ArchiveEntry, ArchiveItem, ArchiveReader, damaged};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::row_format::{self, SnapshotRow};
use bulkhead_record::snapshot_manifest::SnapshotManifest;

/// Maximum number of rows of the store's identity in a snapshot. A server writes about a dozen.
const MAX_IDENTITY_ROWS: u64 = 256;
/// Maximum size of all rows of the store's identity, in bytes. A server writes some kilobytes.
const MAX_IDENTITY_BYTES: usize = 1 << 20;

/// The result of reading a complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The description in the file.
    pub manifest: SnapshotManifest,
    /// SHA-256 of the digests of all entries, in hexadecimal. Two snapshots with the same digest
    /// have the same content.
    pub digest: String,
    /// The digests of all entries, and the keyed hash of these digests.
    pub(super) sums: String,
    pub(super) sealed_sums: String,
}

/// Reads the snapshot in `path` to the end and checks its digests. Needs no key.
///
/// # Errors
/// [`StoreFault::Refused`] if the file is not a complete snapshot, or is of a newer version;
/// [`StoreFault::Unavailable`] if the file cannot be read.
pub fn inspect_snapshot(path: &Path) -> Result<SnapshotSummary, StoreFault> {
    inspect_snapshot_while(path, || true)
}

/// As [`inspect_snapshot`], as long as `may_continue` returns true.
///
/// # Errors
/// As [`inspect_snapshot`]; [`StoreFault::Unavailable`] if `may_continue` returned false.
pub fn inspect_snapshot_while(
    path: &Path,
    may_continue: impl Fn() -> bool,
) -> Result<SnapshotSummary, StoreFault> {
    read_snapshot(open(path)?, |_| {
        may_continue().then_some(()).ok_or_else(|| {
            StoreFault::Unavailable(
                "the check of the snapshot was interrupted; take another snapshot".to_owned(),
            )
        })
    })
}

/// Opens the file of a snapshot.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file cannot be opened.
pub(super) fn open(path: &Path) -> Result<File, StoreFault> {
    File::open(path).map_err(|error| file_failure("open the snapshot", path, &error))
}

/// Reads a snapshot, and passes the rows to `take` before the digests are checked.
///
/// # Errors
/// As [`inspect_snapshot`], and the errors of `take`.
pub(super) fn read_snapshot(
    file: impl Read,
    mut take: impl FnMut(SnapshotRow) -> Result<(), StoreFault>,
) -> Result<SnapshotSummary, StoreFault> {
    let mut archive = ArchiveReader::new(file);
    let manifest = match archive.read_next()? {
        ArchiveItem::Entry(entry) if entry.name == MANIFEST_NAME => {
            SnapshotManifest::parse(&entry.content)?
        }
        _ => return Err(damaged("the first entry is not meta.json")),
    };
    let (mut parts, mut counts) = (PartOrder::default(), RowCounts::default());
    let mut count_and_take = |row| {
        counts.add(&row)?;
        take(row)
    };
    let (sums, sealed_sums) = loop {
        match archive.read_next()? {
            ArchiveItem::Entry(part) if parts.accept(&part) => {
                row_format::read_rows(&part.content, &mut count_and_take)?;
            }
            ArchiveItem::Entry(_) => return Err(damaged("an entry is missing or out of order")),
            ArchiveItem::End { sums, sealed } => break (sums, sealed),
        }
    };
    if (counts.records, counts.identity_rows) != (manifest.records, manifest.identity_rows) {
        return Err(damaged("the number of rows is not the number in the manifest"));
    }
    let digest = digest::digest(&digest::SHA256, sums.as_bytes());
    let digest = hexadecimal::text(digest.as_ref());
    Ok(SnapshotSummary { manifest, digest, sums, sealed_sums })
}

/// The order of the parts. A short part is the last part, so that the number of entries, for each
/// of which a digest stays in memory, is bounded by the bytes of the file.
#[derive(Default)]
struct PartOrder {
    next: u64,
    is_over: bool,
}

impl PartOrder {
    /// Returns whether the entry is the next part.
    fn accept(&mut self, entry: &ArchiveEntry) -> bool {
        let is_next = !self.is_over && entry.name == state_name(self.next);
        self.next = self.next.saturating_add(1);
        self.is_over = entry.content.len() < PART_BYTES;
        is_next
    }
}

/// The numbers of rows.
#[derive(Default)]
struct RowCounts {
    records: u64,
    identity_rows: u64,
    identity_bytes: usize,
}

impl RowCounts {
    /// Counts a row.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for rows of the identity above the maximum.
    fn add(&mut self, row: &SnapshotRow) -> Result<(), StoreFault> {
        let SnapshotRow::Identity(name, value) = row else {
            self.records = self.records.saturating_add(1);
            return Ok(());
        };
        self.identity_rows = self.identity_rows.saturating_add(1);
        let bytes = name.len().saturating_add(value.len());
        self.identity_bytes = self.identity_bytes.saturating_add(bytes);
        if self.identity_rows > MAX_IDENTITY_ROWS || self.identity_bytes > MAX_IDENTITY_BYTES {
            return Err(damaged("the rows of the store's identity are too many or too large"));
        }
        Ok(())
    }
}
